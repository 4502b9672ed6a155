package scenario

import (
	"time"

	"github.com/electd/elect/lab/sim"
)

// constrained requires positions where the protocol has them.
func constrained(st *stage) {
	st.appoint()
	st.during(sim.Op{Kind: sim.OpIsolate, Node: st.ids[0]})
	st.during(st.only([2]int{1, 2}, [2]int{3, 2}, [2]int{4, 2}, [2]int{0, 1}, [2]int{0, 2}, [2]int{0, 3}, [2]int{0, 4})...)
	if st.protocol.Compare == nil {
		return
	}
	st.during(sim.Op{Kind: sim.OpLocate, Node: st.ids[2]}) // it does not catch up
	for i, id := range st.ids {
		if i != 2 {
			st.op(sim.Op{At: st.fault - sim.Time(time.Duration(10-i)*time.Millisecond), Kind: sim.OpLocate, Node: id, Count: 1})
		}
	}
	policy := func(name string) {
		st.configure(struct {
			Position string `json:"position"`
		}{name})
	}
	if st.name == "quorum" {
		policy("ignore")
		st.fork()
		policy("prefer")
		st.fork()
	}
	policy("require")
}

// hubLeads requires the hub to lead until the healing, and says how long after the cut it was
// elected.
func (c *verdict) hubLeads(runs []*run) (after []time.Duration) {
	for i, r := range runs {
		g := r.leader(c.heal - 1)
		if g == nil || g.Who != c.ids[2] {
			c.want(false, "run %d: %v leads before the healing; want %s", i+1, g, c.ids[2])
			continue
		}
		s, _ := r.counts(g)
		after = append(after, c.since(s.From))
		c.want(s.From > c.fault, "run %d: %s leads since %s; want it to be elected in the cut", i+1, g.Who, s.From)
		c.sound(r)
	}
	return after
}

// noneWon requires no election to be won in the cut, and one to be won after it.
func (c *verdict) noneWon(runs []*run) {
	for i, r := range runs {
		w := r.won(between(c.fault, c.heal))
		c.want(len(w) == 0, "run %d: %s won in the cut; want none", i+1, plural(len(w), "election"))
		c.want(r.who(r.end-1) != "", "run %d: no node leads in the end, though all is healed", i+1)
		c.sound(r)
	}
}

func judgeConstrained(c *verdict) {
	n := len(c.runs) / 3
	ignore, prefer := c.hubLeads(c.runs[:n]), c.hubLeads(c.runs[n:2*n])
	c.noneWon(c.runs[2*n:])
	c.want(quantile(prefer, 0) > quantile(ignore, 1), "it leads after %s where positions are preferred, and %s where they are ignored; want the grace between them", shown(quantile(prefer, 0)), shown(quantile(ignore, 1)))
	for _, r := range c.runs {
		c.safe(r)
	}
	c.say("positions ignored: the hub leads after %s; preferred: after %s; required: no node is elected before the healing", spread(ignore), spread(prefer))
}

func noneElected(c *verdict) {
	c.noneWon(c.runs)
	c.want(!c.first.leases, "it proves leases; want none")
	c.claim("no node is elected in %s; terms go from %d to %d", shown(c.span(10)), c.first.term(c.fault), c.first.term(c.heal))
}

func hubAnyhow(c *verdict) {
	after := c.hubLeads(c.runs)
	c.say("the hub leads after %s", spread(after))
}

// hubOrNone requires only the hub to win, in some runs and not in others.
func hubOrNone(c *verdict) {
	won := 0
	for i, r := range c.runs {
		w := r.won(between(c.fault, c.heal))
		for _, g := range w {
			c.want(g.Who == c.ids[2], "run %d: %s is elected; want none but %s", i+1, g.Who, c.ids[2])
		}
		if len(w) > 0 {
			won++
		}
		old := r.leader(c.fault)
		c.want(old != nil && old.Until >= c.heal, "run %d: %v led; want it to lead on, cut off, until the healing", i+1, old)
		c.sound(r)
	}
	c.want(won > 0 && won < len(c.runs), "the hub is elected in %d of %d; want some and not all", won, len(c.runs))
	c.say("the hub is elected in %d of %d runs, and no node in the others", won, len(c.runs))
}
