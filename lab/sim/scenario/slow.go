package scenario

import (
	"slices"
	"time"

	"github.com/electd/elect/lab/sim"
)

// slowness are the scenarios without a lasting fault.
func slowness() []*Scenario {
	return []*Scenario{
		{
			Name: "flapping-link", Says: "The link between the leader and a follower, or the store, comes and goes: cut for a little more than a timeout, and there for as long.",
			build: func(st *stage) {
				st.appoint()
				if st.store() {
					for t := st.fault; t < st.heal; t += st.times(2.4) {
						st.op(sim.Op{At: t, Kind: sim.OpStoreDown, Node: st.ids[0], For: st.span(1.2)})
					}
					return
				}
				st.during(sim.Op{Kind: sim.OpFlap, Node: st.ids[0], Peer: st.ids[1], Every: st.span(1.2)})
			},
			seeds: 20,
			parts: []part{
				{on: []string{"quorum", "raft-prevote", "raft-checkquorum", "blazingmq"}, expected: "nothing: the leader leads on without a gap", judge: (*verdict).undisturbed},
				{on: storeOnes, expected: "one leader change: the node that has lost its lease rejoins the queue", judge: handedOn},
				{on: rings, expected: "one leader change: the ring closes without the link", judge: closes},
				{on: []string{"blazingmq-sticky"}, expected: "one leader change in most runs, at a healing", judge: onceMostly},
				{on: []string{"raft", "blazingmq-naive"}, expected: "a leader change or two with most cuts", judge: someChanges},
				{on: bullies, expected: "two leader changes with each cut: the greatest takes over whenever it can", judge: manyChanges},
			},
		},
		{
			Name: "slow-disk", Says: "Every sync takes three tenths of the timeout, and the leader dies silently.",
			build: func(st *stage) {
				st.appoint()
				for _, id := range st.ids {
					st.during(sim.Op{Kind: sim.OpSlowSync, Node: id, By: st.span(.3)})
				}
				st.op(sim.Op{At: st.fault, Kind: sim.OpPowerLoss, Node: st.ids[0]})
			},
			seeds: 20,
			parts: []part{
				{on: slices.Concat(quorumOnly, highestFirst, blazings), expected: "one election, which takes a few syncs longer", judge: slowElection},
				{on: rafts, expected: "a round may end before its votes are durable: some runs take several rounds, and a leader or two", judge: slowElections},
			},
		},
		{
			Name: "gray-failure", Says: "All that the leader sends is slow, though nothing is lost; half-way it finds itself unhealthy.",
			Source: "Huang and others, Gray failure: the Achilles' heel of cloud-scale systems (HotOS 2017)",
			build: func(st *stage) {
				st.appoint()
				half := (st.fault + st.heal) / 2
				if st.store() {
					st.during(sim.Op{Kind: sim.OpStoreSlow, Node: st.ids[0], By: st.span(.02)})
				} else {
					for _, id := range st.ids[1:] {
						st.during(sim.Op{Kind: sim.OpDelay, Node: st.ids[0], Peer: id, By: st.span(.2)})
					}
				}
				st.op(sim.Op{At: half, Kind: sim.OpSicken, Node: st.ids[0], For: time.Duration(st.heal - half)})
			},
			seeds: 20,
			parts: []part{
				{on: slices.Concat(quorumOnly, storeOnes), expected: "slowness deposes no leader; the unhealthy one releases, and another leads as soon as the message has arrived", judge: released},
				{on: blazings, expected: "slowness deposes no leader; the unhealthy one cedes, and another leads after a random wait", judge: ceded},
				{on: slices.Concat(highestFirst, rafts), expected: "slowness deposes no leader; the unhealthy one gives up, and another leads after a timeout", judge: gaveUp},
			},
		},
	}
}

func someChanges(c *verdict) { c.changesOf(2, 7) }
func manyChanges(c *verdict) { c.changesOf(8, 10) }

// onceMostly requires some runs without a leader change, and more with one.
func onceMostly(c *verdict) {
	all := c.changesOf(0, 1)
	none := within(all, 0)
	c.want(none > 0 && 2*none < len(all), "no leader change in %d of %d; want some, and fewer than half", none, len(all))
}

// changesOf requires the leader to change that often while the faults last, and no election long
// after them.
func (c *verdict) changesOf(least, most int) (all []int) {
	var longest time.Duration
	for i, r := range c.runs {
		n := r.changes(between(c.fault, c.heal))
		all = append(all, n)
		longest = max(longest, r.longestGap(between(c.fault, c.heal)))
		c.want(n >= least && n <= most, "run %d: %s; want %d to %d", i+1, plural(n, "leader change"), least, most)
		c.want(len(r.won(between(c.heal+c.times(5), r.end))) == 0, "run %d: a node is elected long after the healing", i+1)
		c.sound(r)
	}
	c.say("the leader changes %s times in %s; no leader for %s at most", fromTo(all), shown(c.span(10)), shown(longest))
	return all
}

// slowElection requires one term and one leader change.
func slowElection(c *verdict) {
	patience, _ := c.protocol.Patience(c.schedule.Config)
	terms, changes, leads := c.elections()
	c.want(quantile(terms, 1) == 1 && quantile(changes, 1) == 1, "%d terms and %d leader changes at most; want 1", quantile(terms, 1), quantile(changes, 1))
	c.want(quantile(leads, 1) <= patience+c.span(1), "it takes %s; want %s at most", shown(quantile(leads, 1)), shown(patience+c.span(1)))
}

// slowElections requires a bounded number of both, and more than one term in some run.
func slowElections(c *verdict) {
	terms, changes, leads := c.elections()
	c.want(quantile(terms, 1) > 1 && quantile(terms, 1) <= 10, "%d terms at most; want 2 to 10", quantile(terms, 1))
	c.want(quantile(changes, 1) <= 2, "%d leader changes at most; want 2", quantile(changes, 1))
	c.want(quantile(leads, 1) <= c.span(10), "it takes %s; want %s at most", shown(quantile(leads, 1)), shown(c.span(10)))
}

// elections are how many terms each run takes after the leader's death, how many
// leader changes, and how long.
func (c *verdict) elections() (terms, changes []int, leads []time.Duration) {
	elected, leads := c.takeovers(c.fault)
	for i, r := range c.runs {
		changes = append(changes, r.changes(between(c.fault, r.end)))
		terms = append(terms, int(r.term(r.end)-r.term(c.fault)))
		c.want(r.undisturbed(c.heal, r.end) == "", "run %d: the next one does not lead on: %s", i+1, r.undisturbed(c.heal, r.end))
		c.sound(r)
	}
	c.say("another is elected after %s; at most %s and %s", spread(elected), plural(quantile(terms, 1), "term"), plural(quantile(changes, 1), "leader change"))
	return terms, changes, leads
}

// unhealthy requires the leader to give up when it is unhealthy and not before, and returns the
// time without a leader.
func (c *verdict) unhealthy() (gaps []time.Duration) {
	half := (c.fault + c.heal) / 2
	for i, r := range c.runs {
		old := r.leader(c.fault)
		if old == nil {
			c.want(false, "run %d: no node leads", i+1)
			continue
		}
		c.want(old.Who == c.ids[0] && old.Until >= half && old.Until <= half+sim.Time(c.beat), "run %d: %s leads until %s; want until it is unhealthy, at %s", i+1, old.Who, old.Until, half)
		c.want(r.changes(between(c.fault, c.heal)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, c.heal)), "leader change"))
		gaps = append(gaps, r.longestGap(between(half, c.heal)))
		c.sound(r)
	}
	return gaps
}

func released(c *verdict) {
	gaps := c.unhealthy()
	most := c.span(.25)
	c.want(quantile(gaps, 1) <= most, "no node leads for %s; want %s at most", shown(quantile(gaps, 1)), shown(most))
	for _, r := range c.runs {
		c.safe(r)
	}
	c.say("%s releases, and another leads %s later", c.ids[0], spread(gaps))
}

func gaveUp(c *verdict) {
	gaps := c.unhealthy()
	least := c.span(.3)
	c.want(quantile(gaps, .5) > least, "no node leads for %s; want a timeout", shown(quantile(gaps, .5)))
	c.say("%s gives up, and another leads %s later", c.ids[0], spread(gaps))
}

func ceded(c *verdict) {
	gaps := c.unhealthy()
	most := c.span(.25) + 3*time.Second
	c.want(quantile(gaps, 1) <= most, "no node leads for %s; want %s at most", shown(quantile(gaps, 1)), shown(most))
	c.want(quantile(gaps, 1)-quantile(gaps, 0) > 500*time.Millisecond, "no node leads for %s to %s; want a random wait", shown(quantile(gaps, 0)), shown(quantile(gaps, 1)))
	c.say("%s cedes, and another leads %s later", c.ids[0], spread(gaps))
}
