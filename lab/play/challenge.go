package play

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/lab/sim"
)

// Challenge is a task for the visitor: to bring something about by hand, which is judged.
type Challenge struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Says  string `json:"says"` // what is to be done
	Hint  string `json:"hint"`
	// Worlds are those in which the same operations must succeed; the visitor sees the first one.
	Worlds []*World `json:"worlds"`
	// Allowed are the kinds of operations that may be used; empty is all.
	Allowed []sim.OpKind `json:"allowed,omitempty"`

	won func(r *run, o *Overview) (bool, string)
}

func challenges() []*Challenge {
	calm := func(protocol string) []*World {
		return []*World{{Protocol: protocol, Seed: 1, Nodes: 5, Seconds: 20}}
	}
	var five []*World
	for _, seed := range []uint64{9, 14, 19, 25, 37} {
		five = append(five, &World{Protocol: "raft", Seed: seed, Nodes: 5, Delay: 30 * ms, Seconds: 5})
	}
	return []*Challenge{
		{
			Name: "two-believe", Title: "Make two believe", Says: "Make two nodes believe at the same time that they lead, and watch which of them can prove it.",
			Hint: "A leader that stands still learns nothing.", Worlds: calm("quorum"), won: twoBelieve,
		},
		{
			Name: "two-prove", Title: "Make two prove it", Says: "Make two nodes prove a lease at the same time: one assumption of the protocol has to break.",
			Hint: "A promise is counted on two clocks.", Worlds: calm("quorum"), won: twoProve,
		},
		{
			Name: "no-split", Title: "No split vote", Says: "Have a leader elected in the first term, in each of five worlds in which the votes would be split.",
			Hint: "A node that does not stand splits no vote.", Worlds: five, Allowed: []sim.OpKind{sim.OpWithdraw, sim.OpPause, sim.OpDelay}, won: noSplit,
		},
		{
			Name: "stale-write", Title: "Damage the data", Says: "Have the resource accept a write of an old leader after one of a newer leader.",
			Hint: "Two sides of a cut may count to the same number.", Worlds: calm("bully"), won: staleWrite,
		},
		{
			Name: "quick", Title: "Change the leader in 20 ms", Says: "Have another node lead within 20 ms after the leader has stopped.",
			Hint: "Nobody has to wait for a leader that says that its work is over.", Worlds: calm("quorum"), won: quick,
		},
	}
}

func twoBelieve(_ *run, o *Overview) (bool, string) {
	for i := range o.Lanes {
		for j := range i {
			a, b := &o.Lanes[i], &o.Lanes[j]
			if s := a.Believes.Within(b.Believes); a.Place != b.Place && s.Length() > 0 {
				both := sim.Span{}
				if len(o.Both) > 0 {
					both = o.Both[0]
				}
				return true, fmt.Sprintf("%s and %s both believed it for %s; both could prove it for %s", b.Node, a.Node, rounded(s), rounded(both))
			}
		}
	}
	return false, "no two believed it at one time"
}

// rounded is a length as a verdict says it.
func rounded(s sim.Span) time.Duration { return s.Length().Round(time.Microsecond) }

func twoProve(_ *run, o *Overview) (bool, string) {
	if len(o.Both) == 0 {
		return false, "no two could prove it at one time"
	}
	refused := 0
	for _, w := range o.Writes {
		if w.Stale && !w.OK {
			refused++
		}
	}
	return true, fmt.Sprintf("two could prove it for %s; the resource refused %d stale writes", rounded(o.Both[0]), refused)
}

func noSplit(r *run, o *Overview) (bool, string) {
	i := slices.IndexFunc(o.Turns, func(t Turn) bool { return t.Kind == "elected" })
	switch {
	case i < 0:
		return false, fmt.Sprintf("seed %d: nobody was elected", r.schedule.Seed)
	case o.Turns[i].Token != 1:
		return false, fmt.Sprintf("seed %d: the first leader was elected in term %d", r.schedule.Seed, o.Turns[i].Token)
	}
	return true, "a leader in the first term, in every world"
}

func staleWrite(_ *run, o *Overview) (bool, string) {
	for _, w := range o.Writes {
		if w.Stale && w.OK {
			return true, fmt.Sprintf("the write of %s with token %d was accepted, although a later term had written", w.Node, w.Token)
		}
	}
	return false, "every write that was accepted was the newest leader's"
}

func quick(r *run, o *Overview) (bool, string) {
	if r.result == nil || len(r.result.Stats.Takeovers) == 0 {
		return false, "no other node took over"
	}
	best := slices.Min(r.result.Stats.Takeovers)
	if best > 20*time.Millisecond {
		return false, fmt.Sprintf("the quickest takeover took %s", best)
	}
	return true, fmt.Sprintf("a takeover in %s", best)
}

type challengeParams struct {
	Name  string   `json:"name"`
	Hands []sim.Op `json:"hands"`
}

// Verdict says whether a challenge was won, and why.
type Verdict struct {
	Won  bool   `json:"won"`
	Says string `json:"says"`
}

// challenge plays the visitor's operations in the worlds of a challenge, and judges. The present
// run stays.
func (p *Player) challenge(a *challengeParams) (any, error) {
	all := challenges()
	i := slices.IndexFunc(all, func(c *Challenge) bool { return c.Name == a.Name })
	if i < 0 {
		return nil, fmt.Errorf("challenge %q; want one that the catalogue lists", a.Name)
	}
	c := all[i]
	for _, op := range a.Hands {
		if len(c.Allowed) > 0 && !slices.Contains(c.Allowed, op.Kind) {
			return &Verdict{Says: fmt.Sprintf("%s is not allowed here; only %v", op.Kind, c.Allowed)}, nil
		}
	}
	v := &Verdict{}
	for _, w := range c.Worlds {
		with := *w
		with.Hands = a.Hands
		r, err := begin(&with)
		if err != nil {
			return nil, err
		}
		for !r.over {
			r.grow(MaxEvents)
		}
		if v.Won, v.Says = c.won(r, r.overview()); !v.Won {
			break
		}
	}
	return v, nil
}
