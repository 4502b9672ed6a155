package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// both runs a test with lists and with single ids.
func both(t *testing.T, test func(t *testing.T, change func(*Config))) {
	t.Run(Name, func(t *testing.T) { test(t, nil) })
	t.Run(NameChangRoberts, func(t *testing.T) { test(t, func(c *Config) { c.ChangRoberts = true }) })
}

// led is a settled network in which all are candidates and the highest leads.
func led(t *testing.T, n int, change func(*Config)) *net {
	w := settled(t, n, change)
	for i := range w.Nodes {
		w.Do(i, protocol.Campaign)
	}
	w.Run(5 * time.Second)
	w.follow(w.Nodes[n-1].ID)
	clear(w.Sent)
	return w
}

// TestPredecessorDoesNotStand: the leader dies, and the only participant that notices is no
// candidate. Each that does not stand may take a heartbeat to pass the loss on.
func TestPredecessorDoesNotStand(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		for _, n := range []int{3, 5, 13} {
			for silent := 1; silent < n-1; silent++ {
				for _, how := range []protocol.Verb{protocol.Withdraw, protocol.Sicken, protocol.Pause} {
					w := led(t, n, change)
					for i := n - 1 - silent; i < n-1; i++ {
						w.Do(i, how)
					}
					w.Run(2 * time.Second)
					w.Kill(n - 1)
					cfg := w.Nodes[0].Machine.cfg
					w.Run(cfg.WorstTakeover() + time.Duration(silent)*DefaultHeartbeat)
					w.follow(w.Nodes[n-2-silent].ID)
				}
			}
		}
	})
}

// TestPredecessorsDiskIsBad is the same with a participant that cannot save.
func TestPredecessorsDiskIsBad(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		w := led(t, 4, change)
		w.Nodes[2].Bad = true
		later := protocol.Message{Type: Alive, Term: w.Nodes[3].Token + 1}
		w.Step(2, protocol.Input{Kind: protocol.Receive, From: "n1", Message: later}) // it has to save this
		w.Kill(3)
		w.Run(2 * time.Second)
		w.follow("n2")
	})
}

// TestPredecessorsWorkStays is the same with a participant whose own work has not returned.
func TestPredecessorsWorkStays(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		w := led(t, 4, change)
		n := w.Nodes[2]
		n.Machine.role, n.Machine.tenure = protocol.Fencing, 77 // no Joined comes
		w.Kill(3)
		w.Run(4 * time.Second)
		w.follow("n2")
	})
}

// TestLeaderWithdraws: the leader withdraws between two participants that do not stand.
func TestLeaderWithdraws(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		w := led(t, 5, change)
		w.Do(0, protocol.Sicken)
		w.Do(3, protocol.Sicken)
		w.Do(4, protocol.Withdraw)
		w.Run(2 * time.Second)
		w.follow("n3")
	})
}

// TestNobodyStands: without a candidate no dead leader is followed and only heartbeats are sent.
// The first candidate leads.
func TestNobodyStands(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		w := led(t, 4, change)
		for i := range 3 {
			w.Do(i, protocol.Withdraw)
		}
		w.Kill(3)
		w.Run(5 * time.Second)
		w.follow("")
		if len(w.Sent) != 2 {
			t.Errorf("sent without a candidate: %v", w.Sent)
		}
		w.Do(0, protocol.Campaign)
		w.Run(time.Second)
		w.follow("n1")
	})
}

// TestFrozen: a participant that was frozen, with all its questions answered meanwhile, does not
// take its own pause for a silent successor, and finds a successor that died meanwhile.
func TestFrozen(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		for _, dies := range []bool{false, true} {
			w := led(t, 3, change)
			n := w.Nodes[1] // n3 follows it, and leads
			for n.Machine.watch.until.Sub(w.Reading(n).Boot) < DefaultSilence-time.Millisecond {
				w.Run(time.Millisecond)
			}
			clear(w.Sent)
			if dies {
				w.Kill(2)
			}
			n.Ahead += 3 * time.Second
			w.Step(1, protocol.Input{Kind: protocol.Fire})
			if v := n.Machine.View(); v.Leader.ID != "n3" {
				t.Errorf("%+v after a pause", v)
			}
			w.Run(3 * DefaultAnswer)
			if dies {
				w.follow("n2")
			} else if w.follow("n3"); w.Sent[Election] != 0 {
				t.Errorf("a pause began an election: %v", w.Sent)
			}
		}
	})
}

// TestSomeStand: crashes in a perfect network, where some do not restart and some are no candidates
// in the end. If there is a candidate, one leads, and no election goes on.
func TestSomeStand(t *testing.T) {
	both(t, func(t *testing.T, change func(*Config)) {
		for seed := range long.Or[uint64](60, 10) {
			r := rand.New(rand.NewPCG(seed, 7))
			n := 1 + r.IntN(6)
			w := newNet(t, n, change)
			stands := make([]bool, n)
			for i := range w.Nodes {
				w.Stand(i)
				stands[i] = true
			}
			for range 40 {
				w.Run(time.Duration(r.IntN(600)) * time.Millisecond)
				i := r.IntN(n)
				if !w.Nodes[i].Up {
					w.Start(i)
					if stands[i] = r.IntN(4) > 0; stands[i] {
						w.Do(i, protocol.Campaign)
					}
					continue
				}
				switch r.IntN(5) {
				case 0, 1:
					w.Kill(i)
					stands[i] = false
				case 2:
					w.Do(i, protocol.Resign)
				case 3:
					w.Do(i, protocol.Withdraw)
					stands[i] = false
				case 4:
					w.Do(i, protocol.Campaign)
					stands[i] = true
				}
			}
			w.Run(30 * time.Second)
			got := w.Leaders()
			if !slices.Contains(stands, true) {
				if len(got) != 0 {
					t.Errorf("seed %d: %v lead without a candidate", seed, got)
				}
				continue
			}
			if len(got) != 1 {
				t.Fatalf("seed %d: %v lead of %d, where %v stand", seed, got, n, stands)
			}
			w.follow(got[0])
			clear(w.Sent)
			w.Run(10 * time.Second)
			w.follow(got[0])
			if w.Sent[Election] != 0 {
				t.Errorf("seed %d: elections go on: %v", seed, w.Sent)
			}
		}
	})
}
