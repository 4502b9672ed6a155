package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// settled is a perfect network in which all know their successors, and none is a candidate yet.
func settled(t *testing.T, n int, change func(*Config)) *net {
	w := newNet(t, n, change)
	for i := range w.Nodes {
		w.Start(i)
	}
	w.Run(300 * time.Millisecond)
	if len(w.Sent) != 2 && n > 1 {
		t.Fatalf("n = %d: before any candidate: %v", n, w.Sent)
	}
	clear(w.Sent)
	return w
}

// follow fails unless who is the only leader and all follow it; with an empty who, unless none
// leads and none is followed.
func (w *net) follow(who protocol.NodeID) {
	w.T.Helper()
	var want []protocol.NodeID
	if who != "" {
		want = append(want, who)
	}
	if got := w.Leaders(); !slices.Equal(got, want) {
		w.T.Fatalf("%v lead, want %v", got, want)
	}
	for _, n := range w.Nodes {
		if v := n.Machine.View(); n.Up && v.Leader.ID != who {
			w.T.Errorf("%s follows %+v", n.ID, v.Leader)
		}
	}
}

// TestTokenLoss: a token is lost with its holder, and after Silence an election begins anew.
func TestTokenLoss(t *testing.T) {
	for _, cr := range []bool{false, true} {
		w := settled(t, 5, func(c *Config) { c.ChangRoberts = cr })
		w.Do(4, protocol.Campaign) // n5 begins
		w.Run(1500 * time.Microsecond)
		w.Kill(1) // the token has reached n1 and is on its way to n2
		w.Run(500 * time.Millisecond)
		if got := w.Leaders(); len(got) != 0 {
			t.Fatalf("%v lead, and the token is lost", got)
		}
		w.Run(2 * time.Second)
		w.follow("n5")
	}
}

// TestAlone: a participant that hears no other leads, and joins the others when it hears them.
func TestAlone(t *testing.T) {
	w := newNet(t, 1, nil)
	w.StandAll()
	w.Run(time.Second)
	w.follow("n1")
}

// TestRandom: under any faults orders come in order and no token is used twice (the world checks
// both), and a loaded machine behaves the same. After the faults one leads and all follow it, with
// the latest token.
func TestRandom(t *testing.T) {
	steps := 0
	for seed := uint64(1); seed <= long.Or[uint64](120, 20); seed++ {
		n := 2 + int(seed%4)
		if seed%10 == 0 {
			n = 13 // more than are asked at a time
		}
		w := newNet(t, n, func(c *Config) {
			c.ChangRoberts = seed%2 == 0
			if seed%3 == 0 {
				c.Ring = slices.Clone(c.Members)
				r := rand.New(rand.NewPCG(seed, 2))
				r.Shuffle(len(c.Ring), func(i, j int) { c.Ring[i], c.Ring[j] = c.Ring[j], c.Ring[i] })
			}
		})
		w.Check = seed <= 40
		w.Random(seed)
		got := w.Leaders()
		if len(got) != 1 {
			t.Fatalf("seed %d: %v lead", seed, got)
		}
		w.follow(got[0])
		token := uint64(0)
		for _, n := range w.Nodes {
			token = max(token, n.Token)
		}
		for _, n := range w.Nodes {
			if v := n.Machine.View(); v.Leader.Term != token {
				t.Errorf("seed %d: %s follows %+v, which leads with %d", seed, n.ID, v.Leader, token)
			}
			for used := range n.Used {
				if used > token {
					t.Errorf("seed %d: %s has led with %d, and the last one is %d", seed, n.ID, used, token)
				}
			}
		}
		steps += w.Steps
	}
	t.Logf("%d steps", steps)
}

// TestLastEpoch: a participant that claims the last epoch to one other ends elections for good,
// across restarts.
func TestLastEpoch(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		w := led(t, 4, change)
		w.Step(1, protocol.Input{Kind: protocol.Receive, From: "n1", Message: protocol.Message{Type: Alive, Term: protocol.MaxCount}})
		w.Run(10 * time.Second)
		for i := range w.Nodes {
			w.Kill(i)
		}
		w.StandAll()
		w.Run(10 * time.Second)
		w.follow("")
	})
}
