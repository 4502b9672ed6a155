package failover

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		kills []Kill
		want  string
	}{
		{PeerKills(), "elected child guarded graceful parent yielded cut resign freeze transfer"},
		{[]Kill{Freeze, Elected}, "elected freeze"},
		{[]Kill{Rolling, Freeze}, "freeze rolling"},
		{nil, ""},
	} {
		var got []string
		for _, k := range chosen(c.kills) {
			got = append(got, string(k.kill))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("of %v chosen are %q; want %q", c.kills, text, c.want)
		}
	}
}

// TestTurns: a squad that has a node to bring back has another one's round to do
// so.
func TestTurns(t *testing.T) {
	for i, k := range kinds {
		if next := kinds[(i+1)%len(kinds)]; k.mode == next.mode {
			t.Errorf("%s and %s follow each other in one election, %s", k.kill, next.kill, k.mode)
		}
	}
}

func TestPeersReport(t *testing.T) {
	r := newPeersReport(&PeersConfig{Peers: 3, Profile: "fast", Dir: t.TempDir()})
	r.Promise, r.Worst, r.Tenures = 200, 259.2, 21
	r.add(kinds[0], nil, 0, 0)
	r.add(kinds[1], spread(10), 0, 0)
	r.add(kinds[8], []time.Duration{210 * time.Millisecond}, 1500*time.Microsecond, 0)
	r.add(rolling(), []time.Duration{3 * time.Millisecond}, 0, 40*time.Microsecond)
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "nobody led for 0.04 ms before or after the transfer") {
		t.Errorf("a gap in a rolling restart is an error that says it: %v", err)
	}
	r.Strayed = 1
	r.Violations = append(r.Violations, "a and b led at once")
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "a and b led at once") {
		t.Errorf("a violation is an error that says it: %v", err)
	}
	wantRows(t, r,
		"Takeovers among 3 peers, in ms:",
		"KIND n MIN MEDIAN P90 P99 MAX STALE",
		"child 10 1.00 5.00 9.00 10.00 10.00 0.00",
		"freeze 1 210.00 210.00 210.00 210.00 210.00 1.50",
		"beyond 0.04 ms at most without a leader, as observers saw it, before or after the transfer of a rolling restart",
		"strayed 1 transfers went to another node than the named one: the machine was busy",
		"profile fast: a promise of 200 ms, takeover in 259 ms at worst",
		"judged 21 tenures, 1 violations",
		"VIOLATION a and b led at once",
	)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kill":"freeze"`, `"stale_ms":1.5`, `"took_ms":[210]`, `"violations":["a and b led at once"]`, `"promise_ms":200`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(string(text), string(Elected)) {
		t.Errorf("nothing was measured of %s, and it is in %s", Elected, text)
	}
}
