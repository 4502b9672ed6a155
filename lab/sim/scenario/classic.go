package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/lab/sim"
)

// classics are the scenarios of the textbooks.
func classics() []*Scenario {
	return []*Scenario{
		{
			Name: "bully-slow-highest", Says: "All that the greatest one sends is slower than an answer is waited for.",
			Source: "Garcia-Molina, Elections in a distributed computing system (1982), which assumes that live nodes answer in time",
			build: func(st *stage) {
				for _, id := range st.ids[1:] {
					st.during(sim.Op{Kind: sim.OpDelay, Node: st.ids[0], Peer: id, By: st.span(1.5)})
				}
			},
			seeds: 20,
			parts: []part{{on: bullies, expected: "two coordinators, again and again", judge: twoCoordinators}},
		},
		{
			Name: "ring-token-loss", Says: "The leader dies, and the message of the election that follows is lost on its way round.",
			Source: "Le Lann, Distributed systems: towards a formal approach (1977): a lost token is found by a timeout",
			build:  loseToken,
			parts:  []part{{on: rings, expected: "no node is elected until a timeout begins another round", judge: restarted}},
		},
		{
			Name: "byzantine-id", Says: "The leader is dead, and the least one sends its messages in the leader's name.",
			build: func(st *stage) {
				st.schedule.Beyond = true
				st.appoint()
				st.op(sim.Op{At: st.fault, Kind: sim.OpPowerLoss, Node: st.ids[0]})
				st.during(sim.Op{Kind: sim.OpImpostor, Node: st.ids[4], Peer: st.ids[0]})
				st.trace = func(r *run, rec *sim.Record) {
					if rec.Kind == sim.RecordLost && rec.Node == st.ids[4] && strings.HasPrefix(rec.Says, "refused") {
						r.tally.refused++
					}
				}
				// It is the first to notice, by its clock.
				st.op(sim.Op{At: st.fault + st.times(.3), Kind: sim.OpStep, Node: st.ids[4], By: st.detect})
			},
			seeds: 20,
			parts: []part{
				{on: bullies, expected: "the liar wins: no greater node answers one that it takes for the greatest", judge: liarWins},
				{on: rings, expected: "the liar wins: answers to it go to the dead node, so it believes that it alone is alive; the others follow, and it stays leader after it stops lying", judge: liarWinsForGood},
				{on: []string{"blazingmq"}, expected: "the liar wins nothing, because answers to it go to the dead node; another is elected", judge: liarUnheard},
				{on: []string{"blazingmq-sticky", "blazingmq-naive"}, expected: "the liar wins nothing, but a supporter of its proposals supports the dead node: until it stops, an election may take long", judge: liarDelays},
				{on: slices.Concat(quorumOnly, rafts), expected: "senders are known, so its messages are refused; another is elected", judge: liarRefused},
			},
		},
	}
}

// twoCoordinators requires two leaders at one time, again and again.
func twoCoordinators(c *verdict) {
	var changes []int
	for i, r := range c.runs {
		n, both := r.changes(between(c.fault, c.heal)), r.both(between(c.fault, c.heal))
		changes = append(changes, n)
		c.want(both >= c.span(1), "run %d: two lead for %s; want %s at least", i+1, shown(both), shown(c.span(1)))
		c.want(n >= 10, "run %d: %s; want 10 at least", i+1, plural(n, "leader change"))
		c.want(r.who(r.end-1) == c.ids[0], "run %d: %s leads in the end; want %s", i+1, r.who(r.end-1), c.ids[0])
		c.sound(r)
	}
	r := c.first
	c.say("the leader changes %s times in %s; two lead at once for %s of it; %s; %s",
		fromTo(changes), shown(c.span(10)), shown(r.both(between(c.fault, c.heal))), refused(&r.result.Stats), sameToken(r))
}

// sameToken says how often two were elected with one token.
func sameToken(r *run) string {
	n := 0
	for i := range r.tenures {
		for j := range i {
			if a, b := &r.tenures[i], &r.tenures[j]; a.Token == b.Token && a.Who != b.Who {
				n++
			}
		}
	}
	if n == 0 {
		return "no two have one token"
	}
	return plural(n, "token") + " belong to two"
}

// loseToken drops what the second participant sends on for as long as a token takes to go round,
// when it begins an election.
func loseToken(st *stage) {
	st.schedule.Links.Jitter, st.schedule.Disks.Jitter = 0, 0
	st.op(
		sim.Op{At: st.fault, Kind: sim.OpPowerLoss, Node: st.ids[0]},
		// A message that goes round n4, n1, n2, n3 is lost between the last two.
		sim.Op{At: st.fault + st.times(.7), Kind: sim.OpLoss, Node: st.ids[3], Peer: st.ids[2], Value: 1, For: st.span(.3)},
	)
}

func restarted(c *verdict) {
	r := c.first
	next := r.next(c.fault)
	if next == nil {
		c.want(false, "no node is elected")
		return
	}
	d := c.since(next.From)
	c.want(d >= c.span(1.5) && d <= c.span(4), "elected %s after the death; want a second timeout, and no third", shown(d))
	c.want(next.Who == c.ids[1], "%s is elected; want %s, the greatest that lives", next.Who, c.ids[1])
	c.sound(r)
	c.claim("the first round fails, and the second elects %s after %s", next.Who, shown(d))
}

// liarWins requires the liar to lead until it stops lying.
func liarWins(c *verdict) {
	liar := c.ids[4]
	for i, r := range c.runs {
		g := r.leader(c.heal - 1)
		c.want(g != nil && g.Who == liar && g.From < c.fault+c.times(1), "run %d: %v leads; want %s, since soon after the death", i+1, g, liar)
		c.want(r.tally.refused == 0, "run %d: %d messages were refused; want none", i+1, r.tally.refused)
		c.want(r.who(r.end-1) == c.ids[1], "run %d: %s leads in the end; want %s, the greatest that lives", i+1, r.who(r.end-1), c.ids[1])
		c.sound(r)
	}
	if g := c.first.next(c.fault); g != nil {
		c.claim("%s, the least, is elected after %s, and leads until %s after it stops lying",
			liar, shown(c.since(g.From)), shown(time.Duration(g.Until-c.heal)))
	}
}

// liarWinsForGood requires the liar to lead as soon as it misses the leader, and no other after it.
func liarWinsForGood(c *verdict) {
	liar := c.ids[4]
	for i, r := range c.runs {
		g := r.leader(r.end - 1)
		c.want(g != nil && g.Who == liar && g.From < c.fault+c.times(1), "run %d: %v leads in the end; want %s, since soon after the death", i+1, g, liar)
		c.want(r.tally.refused == 0, "run %d: %d messages were refused; want none", i+1, r.tally.refused)
		c.want(r.changes(between(c.fault, r.end)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, r.end)), "leader change"))
		c.sound(r)
	}
	if g := c.first.next(c.fault); g != nil {
		c.claim("%s, the least, is elected after %s, and leads on", liar, shown(c.since(g.From)))
	}
}

// liarUnheard requires one of the others to lead once the leader is lost, as if there were no liar.
func liarUnheard(c *verdict) {
	patience, _ := c.protocol.Patience(c.schedule.Config)
	late := c.liarLoses()
	c.want(quantile(late, 1) <= patience, "elected %s after the death; want %s at most", shown(quantile(late, 1)), shown(patience))
	c.say("another is elected after %s, and leads on", spread(late))
}

// liarDelays requires that to take longer in some runs.
func liarDelays(c *verdict) {
	patience, _ := c.protocol.Patience(c.schedule.Config)
	late := c.liarLoses()
	in := within(late, patience)
	c.want(in < len(late), "elected within %s in all runs; want longer in some", shown(patience))
	c.say("another is elected after %s, and leads on; in %d of %d runs after more than %s, the longest time without a liar",
		spread(late), len(late)-in, len(c.runs), shown(patience))
}

// liarLoses requires another than the liar to be elected, and to lead on, while it lies, and no
// lies to be refused. It returns the time from the death to the election.
func (c *verdict) liarLoses() (late []time.Duration) {
	for i, r := range c.runs {
		g := r.next(c.fault)
		if g == nil {
			c.want(false, "run %d: no node is elected after the death", i+1)
			continue
		}
		late = append(late, c.since(g.From))
		c.want(g.Until == r.end && (g.Who != c.ids[4] || g.From >= c.heal), "run %d: %s is elected, and leads until %s; want an honest one, until the end", i+1, g.Who, g.Until)
		c.want(r.tally.refused == 0, "run %d: %d messages were refused; want none", i+1, r.tally.refused)
		c.safe(r)
	}
	return late
}

// liarRefused requires one of the others to lead, and the lies to be refused.
func liarRefused(c *verdict) {
	for i, r := range c.runs {
		g := r.leader(c.heal - 1)
		c.want(g != nil && g.Who != c.ids[4] && g.Who != c.ids[0], "run %d: %v leads; want an honest one", i+1, g)
		c.want(r.tally.refused > 0, "run %d: no message was refused", i+1)
		c.want(r.changes(between(c.fault, r.end)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, r.end)), "leader change"))
		c.safe(r)
	}
	r := c.first
	if g := r.next(c.fault); g != nil {
		c.say("%d messages of the liar are refused; %s is elected after %s, and leads on", r.tally.refused, g.Who, shown(c.since(g.From)))
	}
}
