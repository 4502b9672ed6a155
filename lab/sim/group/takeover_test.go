package group

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// TestTakeover measures how long the keys of the dead are without a holder, in quiet groups of five members with 20 keys
// and a promise of 500 ms. In no case is a living member interrupted.
func TestTakeover(t *testing.T) {
	runs := long.Or(30, 5)
	for _, c := range []struct {
		says   string
		fault  Fault
		member bool          // a member's process that is no coordinator
		most   time.Duration // of a key without a holder
	}{
		{"a member dies, witness", Fault{Kind: Crash, Witness: true}, true, 20 * time.Millisecond},
		{"a member dies, none", Fault{Kind: Crash, Part: 1}, true, 600 * time.Millisecond},
		{"the coordinator and a member die, witness", Fault{Kind: Both, Witness: true}, false, 150 * time.Millisecond},
		{"a member leaves", Fault{Kind: Leave}, true, 30 * time.Millisecond},
		{"the coordinator leaves", Fault{Kind: Leave}, false, 150 * time.Millisecond},
	} {
		var gaps []time.Duration
		for seed := range runs {
			c.fault.For = 10 * time.Second
			gaps = append(gaps, takeover(t, uint64(seed+1), c.fault, c.member)...)
		}
		if len(gaps) < runs {
			t.Fatalf("%s: %d keys in %d runs; want more", c.says, len(gaps), runs)
		}
		slices.Sort(gaps)
		t.Logf("%-44s %d keys of the dead, p50 %v, p99 %v, most %v", c.says, len(gaps), gaps[len(gaps)/2].Round(100*time.Microsecond), gaps[len(gaps)*99/100].Round(100*time.Microsecond), gaps[len(gaps)-1].Round(100*time.Microsecond))
		if most := gaps[len(gaps)-1]; most > c.most {
			t.Errorf("%s: %v without a holder; want %v at most", c.says, most, c.most)
		}
	}
}

// takeover returns how long each key of the processes that end is without a holder. It fails if another key's work ends.
func takeover(t *testing.T, seed uint64, f Fault, member bool) (gaps []time.Duration) {
	s := &Schedule{
		Seed: seed, Profile: "swarm", Keys: 20, Own: -1, Delay: time.Millisecond, Span: time.Hour,
		Settings: []machine.Settings{{
			Promise: 500 * time.Millisecond, Cover: 500 * time.Millisecond, Poll: 100 * time.Millisecond, Drain: 50 * time.Millisecond,
			Drift: protocol.DefaultDrift(), Vouchers: 5, Bits: 16,
		}},
	}
	for i := range 5 {
		s.Nodes = append(s.Nodes, Node{ID: protocol.NodeID(rune('a' + i)), Candidate: true, Member: true})
	}
	w, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	until := func(at time.Duration) {
		for len(w.agenda) > 0 && w.agenda[0].at <= sim.Time(at) && w.Step() {
		}
	}
	// The keys are spread by moves.
	for at := 1200 * time.Millisecond; at < 1500*time.Millisecond; at += 10 * time.Millisecond {
		until(at)
		w.fault(&Fault{Kind: Move, Node: -1})
	}
	until(2 * time.Second)
	coordinator := w.e.tenure.p.node.index
	f.Node = coordinator
	if member || f.Kind == Both {
		f.Node = (coordinator + 1 + int(seed)%4) % 5
	}
	held := map[*key]*work{}
	for _, k := range w.keys {
		if len(k.running) != 1 || !k.led() {
			t.Fatalf("seed %d: nobody leads %s before the fault", seed, k.name)
		}
		held[k] = k.running[0]
	}
	w.fault(&f)
	open := slices.Clone(w.keys)
	for w.now < sim.Time(4*time.Second) && w.Step() {
		open = slices.DeleteFunc(open, func(k *key) bool {
			if !k.led() || !held[k].over {
				return false
			}
			gaps = append(gaps, time.Duration(w.now-held[k].until))
			return true
		})
	}
	if w.mishap != nil {
		t.Fatal(w.mishap)
	}
	for _, k := range w.keys {
		ends := held[k].p.node.index == f.Node || f.Kind == Both && held[k].p.node.index == coordinator
		switch {
		case held[k].over && !ends:
			t.Errorf("seed %d: the work of %s at %s was interrupted", seed, k.name, held[k].p.node.ID)
		case ends && !k.led():
			t.Errorf("seed %d: nobody leads %s", seed, k.name)
		}
	}
	return gaps
}
