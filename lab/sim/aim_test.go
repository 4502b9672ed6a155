package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// deaths records which participants died.
type deaths struct{ who []string }

func (d *deaths) Event(_ *sim.World, r *sim.Record) {
	if r.Kind == sim.RecordDeath {
		d.who = append(d.who, string(r.Node))
	}
}

// An operation against Leader affects the leader, and none if there is none.
func TestLeaderIsWhoeverLeads(t *testing.T) {
	p := byName(t, "quorum")
	s := &sim.Schedule{
		Format: 1, Protocol: "quorum", Seed: 1, Nodes: 3, Faults: 20 * time.Second,
		Links: sim.LinkNoise{Delay: time.Millisecond}, Disks: sim.DiskNoise{Sync: time.Millisecond},
		Ops: []sim.Op{
			{At: sim.Time(time.Millisecond), Kind: sim.OpKill, Node: sim.Leader, For: time.Second},
			{At: sim.Time(5 * time.Second), Kind: sim.OpKill, Node: sim.Leader, For: 10 * time.Second},
			{At: sim.Time(10 * time.Second), Kind: sim.OpKill, Node: sim.Leader, For: 10 * time.Second},
		},
	}
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	var d deaths
	w.Trace(&d)
	w.Run()
	if r := w.Result(); r.Violation != nil || len(d.who) != 2 || d.who[0] == d.who[1] || r.Stats.Tenures < 2 {
		t.Errorf("%v died in %d tenures, %v; want two leaders, one after the other", d.who, r.Stats.Tenures, r.Violation)
	}
	for _, kind := range []sim.OpKind{sim.OpTwin, sim.OpRestore, sim.OpDrop} {
		s.Ops = []sim.Op{{Kind: kind, Node: sim.Leader, Peer: "n1", Count: 1, For: time.Second}}
		if _, err := sim.New(p, s); err == nil || !strings.Contains(err.Error(), "want a name") {
			t.Errorf("%s of the leader: error %v; want one that asks for a name", kind, err)
		}
	}
}

// A schedule has what its options allow, and breaks no assumption of the protocol unless it goes
// beyond the model.
func TestGenerateKeepsToItsOptions(t *testing.T) {
	count := func(p *sim.Protocol, o sim.Options) map[sim.OpKind]int {
		kinds := make(map[sim.OpKind]int)
		for seed := range uint64(60) {
			s, err := sim.Generate(p, seed, o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Ops {
				kinds[s.Ops[i].Kind]++
			}
		}
		return kinds
	}
	q := byName(t, "quorum")
	only := []sim.OpKind{sim.OpKill, sim.OpIsolate, sim.OpForeign}
	for kind := range count(q, sim.Options{Only: only}) {
		if !slices.Contains(only[:2], kind) {
			t.Errorf("%s is there, of %v for a protocol without a store", kind, only)
		}
	}
	for _, c := range []struct {
		protocol, config string
		beyond, has      bool
	}{
		{"lease", ``, false, true},
		{"lease", `{"global_versions": false}`, false, false},
		{"lease", `{"global_versions": false}`, true, true},
		{"queue", ``, false, true},
		{"queue", `{"servers_mended": true}`, false, false},
		{"queue", `{"servers_mended": true, "hold": 5000000000}`, false, true},
		{"queue-zookeeper", ``, false, true},
	} {
		kinds := count(byName(t, c.protocol), sim.Options{Config: []byte(c.config), Beyond: c.beyond})
		if got := kinds[sim.OpForeign] > 0; got != c.has {
			t.Errorf("%s %s, beyond %t: entries are deleted by hand: %t; want %t", c.protocol, c.config, c.beyond, got, c.has)
		}
	}
}

// A killed leader's work that outlives it counts until its lease ends: a successor that leads
// before is a violation, except after a witness's word.
func TestOutlives(t *testing.T) {
	for _, c := range []struct {
		kind     sim.OpKind
		outlives bool
		bad      bool
	}{{sim.OpKill, true, true}, {sim.OpKill, false, false}, {sim.OpPowerLoss, true, false}, {sim.OpWitness, true, false}} {
		p := naiveProtocol(naive{})
		s := &sim.Schedule{
			Format: 1, Protocol: "naive", Nodes: 2, Faults: 6 * time.Second, Links: sim.LinkNoise{Delay: time.Millisecond},
			Work: sim.Work{Outlives: c.outlives},
			Ops:  []sim.Op{{At: sim.Time(3 * time.Second), Kind: c.kind, Node: "n1"}},
		}
		// A naive lease lasts 1 s, and after 0.4 s of silence the other one leads.
		r := run(t, p, s)
		if got := r.Violation != nil && r.Violation.Invariant == sim.Exclusive; got != c.bad {
			t.Errorf("%s, outlives %t: %v; want a violation: %t", c.kind, c.outlives, r.Violation, c.bad)
		}
	}
}

// Every protocol of the list can run in a storm.
func TestStorm(t *testing.T) {
	for _, p := range protocols.All() {
		s, err := sim.Generate(p, 1, sim.Options{Profile: "storm"})
		if err != nil {
			t.Fatal(err)
		}
		aimed := slices.ContainsFunc(s.Ops, func(op sim.Op) bool { return op.Node == sim.Leader })
		if s.Settle != 0 || !aimed {
			t.Errorf("%s: a liveness phase of %v, faults against the leader: %t; want 0 and true", p.Name, s.Settle, aimed)
		}
	}
}
