//go:build linux

package storm

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// everything is the abilities of a computer on which every fault is available, except for the kind
// of network.
var everything = []Ability{FUSE, Filling, Clocks, Zones, Quota, Next}

// plans are such that every fault fits one of them.
func plans() []Plan {
	return []Plan{
		{Setup: "peers-fast", Network: "namespaces", Abilities: append([]Ability{Namespaces}, everything...), For: 2 * time.Minute},
		{Setup: "peers-lan", Network: "proxies", Abilities: append([]Ability{Proxies}, everything...), For: 10 * time.Minute},
		{Setup: "peers-lan", Network: "proxies", Abilities: []Ability{Proxies}, For: 10 * time.Minute},
		{Setup: "file", Abilities: []Ability{Filling, Quota}, For: 2 * time.Minute},
	}
}

func draw(t *testing.T, p Plan) *Schedule {
	t.Helper()
	s, err := Draw(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	return s
}

func text(t *testing.T, s *Schedule) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSameSeedSameSchedule(t *testing.T) {
	for _, p := range plans() {
		seen := map[string]uint64{}
		for seed := range uint64(20) {
			p.Seed = seed
			one, other := text(t, draw(t, p)), text(t, draw(t, p))
			if one != other {
				t.Fatalf("%s, seed %d: two schedules", p.Setup, seed)
			}
			if before, ok := seen[one]; ok {
				t.Fatalf("%s: seeds %d and %d give one schedule", p.Setup, before, seed)
			}
			seen[one] = seed
		}
	}
}

// TestLeftOut: an unavailable fault is not drawn, and the nodes stay the same otherwise.
func TestLeftOut(t *testing.T) {
	faults := map[string]fault{}
	for _, f := range table() {
		faults[f.name] = f
	}
	for _, p := range plans() {
		set, err := setup(p.Setup)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(30) {
			p.Seed = seed
			s := draw(t, p)
			for _, e := range s.Events {
				f, ok := faults[e.Fault]
				if !ok {
					t.Fatalf("there is no fault %q", e.Fault)
				}
				if lack := f.missing(s.has, set); lack != "" || f.weight == 0 || f.least > s.Voters {
					t.Fatalf("%s, seed %d: %s was drawn, which needs %q, has the weight %d, and wants %d voters", p.Setup, seed, e.Fault, lack, f.weight, f.least)
				}
			}
		}
	}
	p := plans()[0]
	p.Seed = 3
	with := draw(t, p)
	p.Abilities = []Ability{Namespaces}
	without := draw(t, p)
	for i, n := range without.Nodes {
		if n.Kind != with.Nodes[i].Kind || n.Rate != 0 || n.Boot != 0 {
			t.Errorf("node %d is %+v without clocks of its own, and %+v with", i, n, with.Nodes[i])
		}
	}
}

// TestEveryFaultIsReached: each fault that need not be requested comes within a few seeds, and of
// each kind there are short and long ones.
func TestEveryFaultIsReached(t *testing.T) {
	count := map[string]int{}
	longest := map[string]time.Duration{}
	together := map[int]int{}
	for _, p := range plans()[:2] {
		for seed := range uint64(12) {
			p.Seed = seed
			s := draw(t, p)
			for _, e := range s.Events {
				count[e.Fault]++
				longest[e.Fault] = max(longest[e.Fault], e.For/s.Promise)
				at := 0
				for _, o := range s.Events {
					if o.At <= e.At && e.At < o.At+max(o.For, 1) {
						at++
					}
				}
				together[at]++
			}
		}
	}
	for _, f := range Faults() {
		switch n := count[f.Name]; {
		case f.Asked && n > 0:
			t.Errorf("%s comes without being asked for", f.Name)
		case !f.Asked && n < 3:
			t.Errorf("%s comes %d times in 24 schedules", f.Name, n)
		}
	}
	t.Logf("faults that go on when one begins: %v", together)
	if together[2] == 0 || together[3] == 0 {
		t.Error("never two or three at a time")
	}
	for _, name := range []string{"stop-node", "stop-family", "isolate-leader"} {
		if most := longest[name]; most < 8 || most > mostStopped {
			t.Errorf("%s lasts %d promises at most; want many, and no more than %d", name, most, mostStopped)
		}
	}
}

// TestWithinThePromises: the drawn clocks keep the assumption.
func TestWithinThePromises(t *testing.T) {
	rates, steps := 0, 0
	for seed := range uint64(40) {
		p := plans()[seed%2]
		p.Seed = seed
		s := draw(t, p)
		for i, n := range s.Nodes {
			if n.Rate < -fastest || n.Rate > fastest {
				t.Errorf("seed %d: the clock of node %d is off by %d millionths", seed, i, n.Rate)
			}
			if n.Rate != 0 {
				rates++
			}
		}
		for _, e := range s.Events {
			for _, rate := range e.Rates {
				if rate < -fastest || rate > fastest {
					t.Errorf("seed %d: %d millionths", seed, rate)
				}
			}
			if e.Fault == "clock-step" {
				steps++
				if e.Delay.Abs() > s.Promise*4/100 {
					t.Errorf("seed %d: a step of %v with promises of %v", seed, e.Delay, s.Promise)
				}
			}
		}
	}
	if rates == 0 || steps == 0 {
		t.Errorf("%d rates and %d steps", rates, steps)
	}
}

func TestAsked(t *testing.T) {
	p := plans()[0]
	p.Faults = []string{"old-copy", "kill-node"}
	s := draw(t, p)
	count := map[string]int{}
	for _, e := range s.Events {
		count[e.Fault]++
	}
	if len(count) != 2 || count["old-copy"] == 0 || count["kill-node"] == 0 {
		t.Errorf("asked for %v, and got %v", p.Faults, count)
	}
	for _, c := range []struct {
		faults []string
		setup  string
		want   string
	}{
		{[]string{"no-such"}, "peers-fast", "no fault"},
		{[]string{"slow-links"}, "peers-fast", "needs proxies"},
		{[]string{"halves"}, "file", "needs an election among peers"},
		{nil, "no-such", "no setup"},
	} {
		p := plans()[0]
		p.Faults, p.Setup = c.faults, c.setup
		if c.setup == "file" {
			p.Network = ""
		}
		if _, err := Draw(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %s: %v; want %q in it", c.faults, c.setup, err, c.want)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	for _, p := range plans() {
		p.Seed = 7
		s := draw(t, p)
		path := filepath.Join(t.TempDir(), "schedule.json")
		if err := s.Save(path); err != nil {
			t.Fatal(err)
		}
		again, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if text(t, s) != text(t, again) {
			t.Errorf("%s: another schedule came back", p.Setup)
		}
	}
	s := draw(t, plans()[0])
	for what, spoil := range map[string]func(s *Schedule){
		"format":          func(s *Schedule) { s.Format = 2 },
		"no setup":        func(s *Schedule) { s.Setup = "x" },
		"no fault":        func(s *Schedule) { s.Events[0].Fault = "x" },
		"needs":           func(s *Schedule) { s.Abilities = nil },
		"number 2, at":    func(s *Schedule) { s.Events[0].At = s.For },
		"order":           func(s *Schedule) { s.Events[0].Order = []int{0} },
		"nodes, of which": func(s *Schedule) { s.Nodes = s.Nodes[1:] },
		"network":         func(s *Schedule) { s.Network = "" },
	} {
		var bad Schedule
		if err := json.Unmarshal([]byte(text(t, s)), &bad); err != nil {
			t.Fatal(err)
		}
		spoil(&bad)
		path := filepath.Join(t.TempDir(), "bad.json")
		if err := bad.Save(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTable: the table of faults is valid: each fault has a name of its own, a text, and a known family.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	families := map[string]bool{}
	for _, f := range Faults() {
		if seen[f.Name] || f.Name == "" || f.Text == "" {
			t.Errorf("%q is there twice, or empty", f.Name)
		}
		seen[f.Name], families[f.Family] = true, true
	}
	if want := []string{"clock", "disk", "network", "operator", "process", "processor"}; !slices.Equal(slices.Sorted(maps.Keys(families)), want) {
		t.Errorf("families %v; want %v", families, want)
	}
}
