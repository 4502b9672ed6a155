package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// TestSteps: what a coordinator does in a quiet group grows with its members, and not with their keys.
func TestSteps(t *testing.T) {
	members := long.Or(long.FullOr(1000, 200), 80)
	one, ten, fewer := quiet(t, members, 1), quiet(t, members, 10), quiet(t, members/4, 10)
	t.Logf("steps in 2 s: %d members with a key each %d, with 10 %d; %d members with 10 %d", members, one, ten, members/4, fewer)
	if ten > one+one/20 {
		t.Errorf("%d steps with 10 keys a member, and %d with one; want as many", ten, one)
	}
	if r := float64(ten) / float64(fewer); r < 3.6 || r > 4.4 {
		t.Errorf("4 times the members take %.2f times the steps; want about 4", r)
	}
}

// quiet returns the steps of the coordinator in 2 s of a group in which nothing happens.
func quiet(t *testing.T, members, keys int) uint64 {
	s := &Schedule{
		Seed: 1, Profile: "rolling", Keys: members * keys, Own: keys, Delay: time.Millisecond, Span: time.Hour,
		Settings: []machine.Settings{{
			Promise: 3 * time.Second, Cover: 3 * time.Second, Poll: 300 * time.Millisecond, Drain: 300 * time.Millisecond,
			Drift: protocol.DefaultDrift(), Vouchers: 5, Bits: 16,
		}},
	}
	for i := range members {
		s.Nodes = append(s.Nodes, Node{ID: protocol.NodeID(fmt.Sprintf("n%d", i+1)), Candidate: i < 3, Member: true})
	}
	w, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := uint64(0)
	for w.now < sim.Time(8*time.Second) && w.Step() {
		if w.now < sim.Time(6*time.Second) {
			before = w.stats.Steps
		}
	}
	if w.mishap != nil {
		t.Fatal(w.mishap)
	}
	for _, k := range w.keys {
		if !k.led() {
			t.Fatalf("%d members with %d keys each: nobody leads %s", members, keys, k.name)
		}
	}
	return w.stats.Steps - before
}
