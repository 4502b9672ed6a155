package bully

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestRandom: under any faults orders come in order and no token is used twice (the world checks
// both), and a loaded machine behaves the same. After the faults the highest leads and all follow
// it.
func TestRandom(t *testing.T) {
	steps := 0
	for seed := uint64(1); seed <= 60; seed++ {
		w := newNet(t, 2+int(seed%4), nil)
		w.Check = seed <= 20
		w.Random(seed)
		top := w.Nodes[len(w.Nodes)-1]
		if got := w.Leaders(); !slices.Equal(got, []protocol.NodeID{top.ID}) {
			t.Fatalf("seed %d: %v lead", seed, got)
		}
		for _, n := range w.Nodes {
			v := n.Machine.View()
			if v.Leader.ID != top.ID || v.Leader.Term != top.Token {
				t.Errorf("seed %d: %s follows %+v, and %s leads with %d", seed, n.ID, v.Leader, top.ID, top.Token)
			}
			for token := range n.Used {
				if token > top.Token {
					t.Errorf("seed %d: %s has led with %d, and %s leads with %d", seed, n.ID, token, top.ID, top.Token)
				}
			}
		}
		steps += w.Steps
	}
	t.Logf("%d steps", steps)
}

// TestLastEpoch: a participant that claims the last epoch ends elections for good, across restarts.
func TestLastEpoch(t *testing.T) {
	w := newNet(t, 4, nil)
	w.StandAll()
	w.Run(2 * time.Second)
	w.Kill(0) // and a message is forged in its name
	for i := range w.Nodes[1:] {
		w.Step(i+1, protocol.Input{Kind: protocol.Receive, From: "n1", Message: protocol.Message{Type: Election, Term: protocol.MaxCount}})
	}
	w.Run(10 * time.Second)
	for i := range w.Nodes {
		w.Kill(i)
	}
	for i := range w.Nodes[1:] {
		w.Stand(i + 1)
	}
	w.Run(10 * time.Second)
	if got := w.Leaders(); len(got) != 0 {
		t.Errorf("%v lead after the last epoch", got)
	}
}
