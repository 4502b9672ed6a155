package peer

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The tenure of the URL is that of the machine, which has bounds.
func TestTenure(t *testing.T) {
	_, of, err := ParseURL(&url.URL{Scheme: "peer", Opaque: "n1@127.0.0.1:1", RawQuery: "tenure=10m"})
	cfg := local()
	cfg.Tenure = of.Tenure
	qc, _, terr := cfg.times()
	if err != nil || terr != nil || qc.MinTenure != 10*time.Minute {
		t.Errorf("%v (%v, %v)", qc.MinTenure, err, terr)
	}
	cfg.Tenure = 25 * time.Hour
	if _, err := cfg.plan(); err == nil || !strings.Contains(err.Error(), "want 0 to 24h0m0s") {
		t.Error(err)
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		change func(*setup)
		want   string
		warns  string
	}{
		{func(*setup) {}, "3 voters, one may fail; profile lan: heartbeat 100ms, promise 1s, lease 899ms; another is active at most 1.19s after a silent leader", ""},
		{func(c *setup) { c.Profile = "fast" }, "3 voters, one may fail; profile fast: heartbeat 25ms, promise 200ms, lease 175ms; another is active at most 244ms after a silent leader", ""},
		{func(c *setup) { c.Profile = "calm" }, "3 voters, one may fail; profile calm: heartbeat 2s, promise 15s, lease 13.5s; another is active at most 18.5s after a silent leader", ""},
		{func(c *setup) { c.Promise = 2 * time.Second }, "3 voters, one may fail; profile lan, changed: heartbeat 100ms, promise 2s, lease 1.8s; another is active at most 2.24s after a silent leader", ""},
		{func(c *setup) { c.Voters = c.Voters[:1] }, "one voter, none may fail; profile lan: heartbeat 100ms, promise 1s, lease 899ms; nobody takes over", "nobody takes over"},
		{func(c *setup) { c.Voters = c.Voters[:2] }, "2 voters, none may fail; profile lan: heartbeat 100ms, promise 1s, lease 899ms; nobody takes over", "none may fail"},
		{func(c *setup) { c.Voters = append(c.Voters, Peer{"n4", "127.0.0.1:4"}) }, "4 voters, one may fail; profile lan: heartbeat 100ms, promise 1s, lease 899ms; another is active at most 1.22s after a silent leader", "than of 3"},
		{func(c *setup) {
			c.Voters = append(c.Voters, Peer{"n4", "127.0.0.1:4"}, Peer{"n5", "127.0.0.1:5"})
		}, "5 voters, 2 may fail; profile lan: heartbeat 100ms, promise 1s, lease 899ms; another is active at most 1.24s after a silent leader", ""},
	} {
		cfg := local()
		c.change(&cfg)
		p, err := cfg.plan()
		if err != nil {
			t.Error(err)
			continue
		}
		if p.String() != c.want {
			t.Errorf("the plan is\n%s\nwant\n%s", p, c.want)
		}
		if warned := strings.Join(p.Warnings, "; "); (warned != "") != (c.warns != "") || !strings.Contains(warned, c.warns) {
			t.Errorf("%s: warnings %q; want %q", p, warned, c.warns)
		}
		if p.Lease >= p.Promise || p.takeover <= p.Promise || p.WorstTakeover != 0 && p.WorstTakeover != p.takeover || (p.WorstTakeover == 0) != (p.Tolerates == 0) {
			t.Errorf("%s: a lease of %v and a takeover within %v do not fit", p, p.Lease, p.WorstTakeover)
		}
	}
}

func local() setup {
	return setup{ID: "n1", Name: "job", Voters: []Peer{{"n1", "127.0.0.1:1"}, {"n2", "127.0.0.1:2"}, {"n3", "[::1]:3"}}}
}

func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(*setup)
	}{
		{"a promise of 300ms with a heartbeat every 100ms; want at least 4 · 100ms = 400ms", func(c *setup) { c.Promise = 300 * time.Millisecond }},
		{"want at least 2 · 3ms = 6ms; a promise of 12ms allows 12ms · (1 − 0.05) / (1 + 0.05) − 5ms", func(c *setup) { c.Heartbeat, c.Promise = 3*time.Millisecond, 12*time.Millisecond }},
		{"a heartbeat of -1ns", func(c *setup) { c.Heartbeat = -1 }},
		{"at most 1h0m0s", func(c *setup) { c.Promise = 2 * time.Hour }},
		{`unknown profile "LAN"; want one of: lan, fast, wan, calm`, func(c *setup) { c.Profile = "LAN" }},
		{"no voters", func(c *setup) { c.Voters = nil }},
		{"10 voters; want at most 9", func(c *setup) {
			for i := range 7 {
				c.Voters = append(c.Voters, Peer{"m" + c.Voters[0].ID + string(c.ID[:1]) + string(names("", i+1)[i]), "127.0.0.1:1" + string(names("", i+1)[i])})
			}
		}},
		{"election name is empty", func(c *setup) { c.Name = "" }},
		{"n1 is listed twice", func(c *setup) { c.Observers = []Peer{{ID: "n1"}} }},
		{"n1 and n2 have one address", func(c *setup) { c.Voters[1].Addr = c.Voters[0].Addr }},
		{"era 40000", func(c *setup) { c.Era = 40000 }},
		{"want one of the two", func(c *setup) { c.Certs, c.CA = "a", "b" }},
		{"only some are given", func(c *setup) { c.CA = "b" }},
		{"insecure too", func(c *setup) { c.Certs, c.Insecure = "a", true }},
		{"cluster", func(c *setup) { c.Cluster = "a b" }},
		{"10.0.0.2:2 is an address on a network", func(c *setup) { c.Voters[1].Addr = "10.0.0.2:2" }},
		{":7400 is an address on a network", func(c *setup) { c.Listen = ":7400" }},
	} {
		cfg := local()
		c.change(&cfg)
		if _, err := cfg.named(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want an error that says %q", err, c.says)
		}
	}
	cfg := local()
	cfg.Voters[1].Addr, cfg.Insecure = "10.0.0.2:2", true
	if _, err := cfg.plan(); err != nil {
		t.Errorf("insecure as asked for: %v", err)
	}
	cfg.ID = "" // a client's
	if _, err := cfg.plan(); err != nil {
		t.Errorf("without an id: %v", err)
	}
}

func TestPlanJSON(t *testing.T) {
	p, err := local().plan()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	const want = `{"protocol":"quorum","profile":"lan","heartbeat_ns":100000000,"promise_ns":1000000000,"lease_ns":899761904,"slot_ns":25000000,"worst_takeover_ns":1184210526,"voters":3,"quorum":2,"tolerates":1}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// TestPlanOfTwo: where none may fail no takeover is promised, and the limits of
// the driver, which hold while a majority answers, have their bound all the same.
func TestPlanOfTwo(t *testing.T) {
	for n := range 2 {
		cfg := local()
		cfg.Voters = cfg.Voters[:n+1]
		p, err := cfg.plan()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(p)
		if err != nil || strings.Contains(string(text), "takeover") {
			t.Errorf("%d voters: %s, %v; want no takeover in it", n+1, text, err)
		}
		if l := cfg.dialect().limits(p, true); l.Takeover <= p.Promise {
			t.Errorf("%d voters: limits with a takeover of %v; want more than the promise", n+1, l.Takeover)
		}
	}
}
