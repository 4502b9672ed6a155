package steady

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/conditions"
	"github.com/electd/elect/peer"
)

// twoSights are an election of a leader and a follower, 10 s apart.
func twoSights() (before, after sight) {
	status := func(sent uint64) map[string]*peer.NodeStatus {
		leader := driver.Leader{ID: "n1", Token: 1}
		again := leader
		return map[string]*peer.NodeStatus{
			"n1": {ID: "n1", Role: "leader", Leader: &leader, Peers: []peer.PeerStatus{{Sent: sent, Received: 2 * sent}, {Sent: sent, Dropped: 3}}},
			"n2": {ID: "n2", Role: "follower", Leader: &again, Counters: peer.Counters{Elections: 4, LongestPause: 1500 * time.Microsecond}},
		}
	}
	start := time.Unix(1000, 0)
	before = sight{at: start, seen: start.Add(-5 * time.Second), status: status(100), used: map[string]time.Duration{"n1": time.Second, "n2": 0}}
	after = sight{at: start.Add(10 * time.Second), seen: start.Add(5 * time.Second), status: status(200), used: map[string]time.Duration{"n1": time.Second + 20*time.Millisecond, "n2": 10 * time.Millisecond}}
	return before, after
}

func reportOf(before, after sight) *Report {
	r := newReport(&Config{Voters: 2, Profile: "lan"}, peer.Plan{Heartbeat: 100 * time.Millisecond})
	for _, id := range []string{"n1", "n2"} {
		r.add(id, &before, &after, conditions.Memory{Resident: 20 << 20, Share: 10 << 20})
	}
	r.sum(&before, &after)
	return r
}

func TestReport(t *testing.T) {
	r := reportOf(twoSights())
	n := r.Nodes[0]
	if n.CPU != 0.2 || n.Sent != 20 || n.Received != 20 || n.Dropped != 0 || n.Role != "leader" {
		t.Errorf("the leader: %+v", n)
	}
	if n := r.Nodes[1]; n.CPU != 0.1 || n.Longest != 1.5 {
		t.Errorf("the follower: %+v", n)
	}
	if r.CPU != 0.3 || r.Seconds != 10 || r.False != 0 || r.Err() != nil {
		t.Errorf("together: %+v, %v", r, r.Err())
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"false_elections":0`, `"cpu_percent":0.3`, `"resident_bytes":20971520`, `"heartbeat_ms":100`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 voters and 0 observers over 10 s, profile lan", "0.300 % of one core, 20.0 MiB at most in one, 20.0 messages a second"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
}

func TestFalseElections(t *testing.T) {
	for name, disturb := range map[string]func(after *sight){
		"a node counts one":   func(after *sight) { after.status["n2"].Counters.Elections++ },
		"another token":       func(after *sight) { after.status["n1"].Leader = &driver.Leader{ID: "n1", Token: 2} },
		"nobody leads":        func(after *sight) { after.status["n2"].Leader = nil },
		"a tenure was begun":  func(after *sight) { after.actives++ },
		"the leader was lost": func(after *sight) { after.status["n1"].Leader, after.status["n2"].Leader = nil, nil },
	} {
		before, after := twoSights()
		disturb(&after)
		if r := reportOf(before, after); r.False == 0 || r.Err() == nil || len(r.Why) == 0 {
			t.Errorf("%s: %d false elections, %v, %v", name, r.False, r.Why, r.Err())
		}
	}
}
