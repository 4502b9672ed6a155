package scenario

import (
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// stores are the scenarios that are about a store.
func stores() []*Scenario {
	return []*Scenario{
		{
			Name: "thundering-herd", Says: "A thousand wait in a queue, and the leader dies.", Source: "Hunt and others, ZooKeeper (2010), 2.4: locks without herd effect",
			build: herd,
			parts: []part{
				{on: []string{"queue"}, expected: "one watcher wakes, and leads", judge: oneWakes},
				{on: []string{"queue-zookeeper"}, expected: "one watcher wakes, and leads; the one behind it wakes, too, because it writes into its entry", judge: twoWake},
			},
		},
	}
}

func herd(st *stage) {
	st.cast(1000)
	st.blank()
	st.schedule.Work.Every = 0
	st.fault = st.times(3)
	st.schedule.Faults = st.span(6)
	st.op(sim.Op{At: st.fault, Kind: sim.OpKill, Node: sim.Leader})
	st.trace = func(r *run, rec *sim.Record) {
		if rec.Kind != sim.RecordStep || rec.At <= st.fault || rec.Input.Kind != protocol.Replied {
			return
		}
		// An event of a touch is noted, and nothing is asked for it.
		if a := &rec.Input.Answer; a.Status == protocol.StatusEvent && a.Mark.Touched == 0 {
			r.tally.woken = append(r.tally.woken, wake{rec.Node, rec.At})
		}
	}
}

func oneWakes(c *verdict) { judgeHerd(c, 1) }
func twoWake(c *verdict)  { judgeHerd(c, 2) }

func judgeHerd(c *verdict, most int) {
	r := c.first
	c.safe(r)
	old, next := r.leader(c.fault-1), r.next(c.fault)
	if old == nil || next == nil {
		c.want(false, "the leader %v and the next one %v; want both", old, next)
		return
	}
	s, ok := r.counts(next)
	woken := map[protocol.NodeID]bool{}
	for _, w := range r.tally.woken {
		woken[w.who] = true
	}
	c.want(ok && len(woken) == most && woken[next.Who], "%s woken, and %s leads; want %d, the one that leads among them", plural(len(woken), "watcher"), next.Who, most)
	patience, _ := c.protocol.Patience(c.schedule.Config)
	c.want(c.since(s.From) <= patience, "it leads %s after the death; want %s at most", shown(c.since(s.From)), shown(patience))
	c.want(len(r.won(between(c.fault, r.end))) == 1, "%s; want 1", plural(len(r.won(between(c.fault, r.end))), "election"))
	wake := "wakes"
	if len(woken) != 1 {
		wake = "wake"
	}
	c.say("%d of the 999 that wait %s: %s leads after %s", len(woken), wake, next.Who, shown(time.Duration(s.From-c.fault)))
}
