package lease

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Config
		want string // of the error
	}{
		{"no self", Config{}, "self"},
		{"long self", Config{Self: protocol.NodeID(strings.Repeat("a", 129))}, "129 bytes; want 1 to 128"},
		{"above the longest", Config{Self: "a", Duration: time.Minute}, "1m0s is above the longest allowed, 15s"},
		{"negative", Config{Self: "a", Duration: -1}, "more than 0"},
		{"endless", Config{Self: "a", MaxDuration: 25 * time.Hour}, "at most 24h"},
		{"no guard", Config{Self: "a", Drift: protocol.Drift{PPM: 100}}, "guard of 0s; want at least 2ms"},
		{"much drift", Config{Self: "a", Drift: protocol.Drift{PPM: 200_001, Guard: time.Second}}, "200001 ppm"},
		{"too short", Config{Self: "a", Duration: 30 * time.Millisecond}, "30ms · (1 − 0.05) / (1 + 0.05) − 5ms = 22.142857ms; want more than 2 renewals and 2 round trips, 2 · 7.5ms + 2 · 5ms = 25ms"},
		{"renewed too late", Config{Self: "a", Duration: 10 * time.Second, RenewEvery: 5 * time.Second}, "2 · 5s + 2 · 5ms = 10.01s"},
		{"renewed backwards", Config{Self: "a", RenewEvery: -1}, "renewal every -1ns"},
		{"no poll", Config{Self: "a", Poll: -1}, "poll every -1ns"},
		{"long way", Config{Self: "a", RTT: time.Hour}, "round trip of 1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := New(c.c)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New(%+v) = %v, %v; want an error with %q", c.c, m, err, c.want)
			}
			if c.c.WorstTakeover() != 0 || c.c.RequestTimeout() != 0 {
				t.Error("an impossible configuration has a takeover time or a timeout")
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		c               Config
		duration, worst time.Duration
	}{
		// (15 s + 5.625 s + 40 ms + 10 ms) / 0.95
		{Config{Self: "a"}, 15 * time.Second, 21763157894},
		{Config{Self: "a", MaxDuration: time.Second}, time.Second, 1500 * time.Millisecond},
		{Config{Self: "a", Duration: 200 * time.Millisecond, RTT: time.Millisecond}, 200 * time.Millisecond, 300 * time.Millisecond},
		{Config{Self: "a", MaxDuration: time.Hour, Duration: time.Hour}, time.Hour, 5210578947368},
	} {
		m, err := New(c.c)
		if err != nil {
			t.Errorf("New(%+v): %v", c.c, err)
			continue
		}
		if m.c.Duration != c.duration || c.c.WorstTakeover() != c.worst || c.c.RequestTimeout() != c.duration/4 {
			t.Errorf("%+v: duration %v, worst takeover %v, timeout %v; want %v, %v, %v", c.c, m.c.Duration, c.c.WorstTakeover(), c.c.RequestTimeout(), c.duration, c.worst, c.duration/4)
		}
	}
}

func TestConfigInTraces(t *testing.T) {
	c := Config{Self: "a", Duration: time.Second, GlobalVersions: true, RTT: 3}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Config
	if err := json.Unmarshal(data, &back); err != nil || back != c {
		t.Errorf("%s: %+v, %v; want %+v", data, back, err, c)
	}
}

func TestMutantsAreNamedOnce(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range Mutants() {
		if seen[m.Name] || m.Name == "" || m.Rule == "" || m.Says == "" || m.Seen == "" {
			t.Errorf("%+v: want each name once, and all fields", m)
		}
		seen[m.Name] = true
	}
}

// TestWorstTakeover lets a holder fall silent in a world without watch events, and measures the
// takeover.
func TestWorstTakeover(t *testing.T) {
	for _, poll := range []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second} {
		var worst float64
		for seed := range uint64(40) {
			n := newNet(seed, func(c *Config) { c.Duration, c.Poll, c.RTT = time.Second, poll, 5*time.Millisecond })
			n.w = settings{calm: true, rho: n.w.rho, length: time.Hour, blind: true}
			n.faults = false
			n.In(30*time.Second, func() {
				for _, d := range n.nodes {
					if d.view.Active {
						d.up, d.view = false, protocol.View{}
					}
				}
			})
			most := n.nodes[0].cfg.WorstTakeover()
			wins := 0
			for n.err == nil && (n.now() < int64(30*time.Second) || wins == n.wins) {
				if n.now() < int64(30*time.Second) {
					wins = n.wins
				}
				if n.now() == 0 {
					n.begin()
				}
				n.one()
			}
			if n.err != nil {
				t.Fatalf("seed %d: %v", seed, n.err)
			}
			took := n.Now - 30*time.Second
			if took > most {
				t.Errorf("poll %v, seed %d: %v; want at most %v", poll, seed, took, most)
			}
			worst = max(worst, float64(took)/float64(most))
		}
		t.Logf("poll %v: the longest took %.0f %% of what was computed", poll, 100*worst)
	}
}
