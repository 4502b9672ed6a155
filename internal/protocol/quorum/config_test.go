package quorum

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func TestDefaults(t *testing.T) {
	m, err := New(Config{Self: voter(0), Membership: members(3)})
	if err != nil {
		t.Fatal(err)
	}
	c := m.cfg
	if c.Heartbeat != 100*time.Millisecond || c.Promise != time.Second || c.Slot != 25*time.Millisecond || c.Drift != protocol.DefaultDrift() {
		t.Errorf("defaults: %+v", c)
	}
	if c.Priority != protocol.DefaultPriority || c.MinTenure != 10*time.Second || c.Steady != 5*time.Second || c.Grace != 2*time.Second || c.Position != IgnorePosition || c.Compare == nil || c.Compare("9", "10") >= 0 {
		t.Errorf("defaults: %+v", c)
	}
	// 1 s · 0.95 / 1.05 − 5 ms
	if want := 899761904 * time.Nanosecond; c.Lease != want {
		t.Errorf("lease %v; want %v", c.Lease, want)
	}
}

func TestProfilesHold(t *testing.T) {
	for _, p := range Profiles() {
		c := Config{Self: voter(0), Membership: members(3)}.In(p)
		if _, err := New(c); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		// From the project's numbers: cut off → next active in 1.3 promises.
		if worst := c.WorstTakeover(); worst < p.Promise || worst > p.Promise*17/10 {
			t.Errorf("%s: WorstTakeover is %v with a promise of %v", p.Name, worst, p.Promise)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		says   []string
	}{
		{"no self", func(c *Config) { c.Self.ID = "" }, []string{"self", "1 to 64"}},
		{"no membership", func(c *Config) { c.Membership = nil }, []string{"no membership", "1 to 9"}},
		{"too many", func(c *Config) { c.Membership = members(10) }, []string{"10 voters"}},
		{"lease", func(c *Config) { c.Lease = time.Second }, []string{"a lease of 1s", "0.05", "899.761904ms"}},
		{"short lease", func(c *Config) { c.Lease = 150 * time.Millisecond }, []string{"at least 2 · 100ms = 200ms"}},
		{"no time left", func(c *Config) {
			c.Heartbeat, c.Promise, c.Drift.PPM, c.Drift.Guard = time.Millisecond, 6*time.Millisecond, 200_000, 5*time.Millisecond
		},
			[]string{"a lease of -1ms", "6ms · (1 − 0.2) / (1 + 0.2) − 5ms = -1ms"}},
		{"heartbeat", func(c *Config) { c.Heartbeat = 300 * time.Millisecond }, []string{"4 · 300ms = 1.2s"}},
		{"tiny heartbeat", func(c *Config) { c.Heartbeat = time.Microsecond }, []string{"at least 1ms"}},
		{"negative", func(c *Config) { c.Heartbeat = -1 }, []string{"at least 1ms"}},
		{"long promise", func(c *Config) { c.Promise = 2 * time.Hour }, []string{"at most 1h"}},
		{"guard", func(c *Config) { c.Drift = protocol.Drift{PPM: 1000} }, []string{"guard", "at least 2ms"}},
		{"drift", func(c *Config) { c.Drift = protocol.Drift{PPM: 300_000, Guard: time.Second} }, []string{"200000"}},
		{"priority", func(c *Config) { c.Priority = 1001 }, []string{"a priority of 1001", "1 to 1000", "-1 for a voter that never leads"}},
		{"low priority", func(c *Config) { c.Priority = -2 }, []string{"a priority of -2"}},
		{"policy", func(c *Config) { c.Position = "follow" }, []string{"\"follow\"", "\"ignore\", \"prefer\" or \"require\""}},
		{"negative grace", func(c *Config) { c.Grace = -1 }, []string{"a grace of -1ns", "0 to 24h"}},
		{"negative tenure", func(c *Config) { c.MinTenure = -time.Second }, []string{"a least tenure of -1s"}},
		{"long steadiness", func(c *Config) { c.Steady = 25 * time.Hour }, []string{"25h0m0s to be steady"}},
		{"an observer twice", func(c *Config) { c.Membership.Observers = []protocol.NodeID{"n1"} }, []string{"observer n1 is listed twice"}},
		{"slot", func(c *Config) { c.Slot = 2 * time.Second }, []string{"a slot of 2s", "1s"}},
	} {
		cfg := Config{Self: voter(0), Membership: members(3)}
		c.change(&cfg)
		_, err := New(cfg)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", c.name, err, want)
			}
		}
		if cfg.WorstTakeover() != 0 {
			t.Errorf("%s: WorstTakeover is not 0", c.name)
		}
	}
}

func TestWorstTakeover(t *testing.T) {
	c := Config{Self: voter(0), Membership: members(3)}
	// (1 s + 5 · 25 ms) / 0.95
	if got := c.WorstTakeover().Round(time.Millisecond); got != 1184*time.Millisecond {
		t.Errorf("%v; want 1.184s", got)
	}
	// and 2 s / 0.95 of grace
	c.Position = PreferPosition
	if got := c.WorstTakeover().Round(time.Millisecond); got != 3289*time.Millisecond {
		t.Errorf("%v with a grace; want 3.289s", got)
	}
}

func TestConfigTravels(t *testing.T) {
	c := Config{Self: voter(0), Membership: members(3), Metadata: "here", Priority: protocol.NeverLead, MinTenure: time.Minute, Steady: 2, Position: RequirePosition, Grace: 3}.In(Profiles()[1])
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Config
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(c, back) {
		t.Errorf("%s became %+v, error %v", data, back, err)
	}
}

func TestBadBallotHalts(t *testing.T) {
	m, err := New(Config{Self: voter(0), Membership: members(3)})
	if err != nil {
		t.Fatal(err)
	}
	fx := step(m, &protocol.Input{Kind: protocol.Boot, Durable: []byte("not a ballot")})
	if v := m.View(); v.Role != protocol.Halted || !strings.Contains(v.Fault, "want a ballot") {
		t.Errorf("view %+v", v)
	}
	if len(fx.Saves)+len(fx.Sends) > 0 || m.NextFire() != protocol.Never {
		t.Error("a halted machine does something")
	}
	back, err := New(m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.LoadState(m.AppendState(nil)); err != nil || back.View() != m.View() {
		t.Errorf("loaded %+v, error %v", back.View(), err)
	}
}
