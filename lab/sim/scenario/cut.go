package scenario

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// cuts are the partitions, most of them partial: links are missing while all nodes are alive.
func cuts() []*Scenario {
	const blazingStory = "Leader Election and State Machine Replication in BlazingMQ"
	const omni = "Ng, Haridi, Carbone, Omni-Paxos (EuroSys 2023)"
	calm := "nothing: the leader leads on without a gap"
	sticking := []string{"quorum", "raft-prevote", "raft-checkquorum", "blazingmq"}
	deposed := "no voter supports the node that misses the leader; at the healing its higher term deposes the leader"
	return []*Scenario{
		{
			Name: "minority-leader", Says: "The leader is cut off with a minority, or from the store; later all is healed.",
			build: func(st *stage) {
				st.appoint()
				if st.store() {
					st.alone(st.ids[0])
					return
				}
				st.during(sim.Op{Kind: sim.OpHalves, Group: slices.Clone(st.ids[:2])})
			},
			parts: []part{
				{on: slices.Concat(quorumOnly, storeOnes), expected: "the lease of the cut off leader is over before another one's begins", judge: handedOn},
				{on: slices.Concat([]string{"raft", "raft-prevote"}, blazings), expected: "a stale leader leads beside the new one until all is healed", judge: stale},
				{on: []string{"raft-checkquorum"}, expected: "the leader steps down when it has not heard a majority for a timeout, which may be after another was elected", judge: steppedDown},
				{on: highestFirst, expected: "split brain: each side has its leader until all is healed", judge: split},
			},
		},
		{
			Name: "rejoin", Says: "A follower is cut off, and comes back.", Source: blazingStory + ", the non-sticky leader; Ongaro's thesis, 9.6",
			build: func(st *stage) {
				st.appoint()
				st.alone(st.ids[4])
			},
			seeds: 20,
			parts: []part{
				{on: slices.Concat(sticking, storeOnes), expected: calm, judge: (*verdict).undisturbed},
				{on: []string{"raft", "blazingmq-sticky", "blazingmq-naive"}, expected: "the node that comes back has a higher term, which deposes the leader", judge: deposedAtHeal},
				{on: highestFirst, expected: "split brain: the one that is cut off elects itself", judge: split},
			},
		},
		{
			Name: "ping-pong", Says: "Two cannot see each other, and both see the rest; one of them leads.", Source: blazingStory + ", leader ping-pong",
			build: func(st *stage) {
				st.appoint()
				st.during(apart(st.ids[0], st.ids[1])...)
			},
			seeds: 100,
			parts: []part{
				{on: rings, expected: "the ring closes without the missing link: another is elected, and the old leader stops when it is told", judge: closes},
				{on: sticking, expected: calm, judge: (*verdict).undisturbed},
				{on: []string{"raft", "blazingmq-naive"}, expected: "the two depose each other for as long as it lasts", judge: pingPong},
				{on: []string{"blazingmq-sticky"}, expected: deposed, judge: deposedAtHeal},
				{on: bullies, expected: "split brain: both lead", judge: split},
			},
		},
		{
			Name: "quorum-loss", Says: "All lose all links but those to one hub, which alone sees a majority, and does not lead.", Source: omni + ", quorum loss",
			build: func(st *stage) {
				st.appoint()
				st.during(st.only([2]int{0, 2}, [2]int{1, 2}, [2]int{3, 2}, [2]int{4, 2})...)
			},
			seeds: 100,
			parts: []part{
				{on: rings, expected: "the ring closes without the missing link: another is elected, and the old leader stops when it is told", judge: closes},
				{on: []string{"quorum", "raft-checkquorum"}, expected: "the leader gives up, and the hub is elected", judge: hubAtOnce},
				{on: []string{"raft"}, expected: "the others' higher terms depose the leader, and the hub is elected in the end", judge: hubInTheEnd},
				{on: []string{"raft-prevote", "blazingmq", "blazingmq-sticky"}, expected: "deadlock: the leader reaches only a minority and leads on, and the hub, which hears it, neither stands nor helps", judge: deadlock},
				{on: []string{"blazingmq-naive"}, expected: "mostly no leader: only the hub could win, and it supports every other node before it stands", judge: noneLeads},
				{on: bullies, expected: "split brain, again and again: each node that misses the greater ones leads", judge: turmoil},
			},
		},
		{
			Name: "constrained", Says: "The leader is cut off, the others see one hub only, and the hub's position is behind those of all others.",
			Source: omni + ", constrained election",
			build:  constrained,
			seeds:  20,
			parts: []part{
				{on: quorumOnly, expected: "where positions are ignored or preferred, the hub is elected; where they are required, no node is", judge: judgeConstrained},
				{on: rafts, expected: "no node is elected: Raft requires what stands for its log", judge: noneElected},
				{on: []string{"blazingmq"}, expected: "the hub is elected: its log is no condition", judge: hubAnyhow},
				{on: []string{"blazingmq-sticky", "blazingmq-naive"}, expected: "the hub, if any node: it may support the others, which cannot win, before it stands", judge: hubOrNone},
			},
		},
		{
			Name: "chain", Says: "Of three in a row the outer two cannot see each other; one of them leads.", Source: omni + ", chained",
			build: func(st *stage) {
				st.cast(3)
				st.appoint()
				st.during(apart(st.ids[0], st.ids[2])...)
			},
			seeds: 100,
			parts: []part{
				{on: rings, expected: calm + ": the ring closes without the missing links", judge: (*verdict).undisturbed},
				{on: sticking, expected: calm, judge: (*verdict).undisturbed},
				{on: []string{"raft", "blazingmq-naive"}, expected: "the outer two depose each other for as long as it lasts: the one in the middle always hears one of them, and never stands", judge: pingPong},
				{on: []string{"blazingmq-sticky"}, expected: deposed, judge: deposedAtHeal},
				{on: bullies, expected: "the leader leads on: the one in the middle answers the least one, which waits for ever", judge: (*verdict).undisturbed},
			},
		},
		{
			Name: "cloudflare-2020", Says: "Three see each other; a fourth sees the second only, and a fifth the third.",
			Source: "Howard and Abraham, Raft does not guarantee liveness in the face of network faults (2020), of Cloudflare's outage of November 2020",
			build: func(st *stage) {
				st.appoint()
				st.during(st.only([2]int{0, 1}, [2]int{0, 2}, [2]int{1, 2}, [2]int{3, 1}, [2]int{4, 2})...)
			},
			seeds: 100,
			parts: []part{
				{on: rings, expected: calm + ": the ring closes without the missing links", judge: (*verdict).undisturbed},
				{on: sticking, expected: calm, judge: (*verdict).undisturbed},
				{on: []string{"raft", "blazingmq-naive"}, expected: "never stable: some node does not hear the leader, and deposes it", judge: neverStable},
				{on: []string{"blazingmq-sticky"}, expected: deposed, judge: deposedAtHeal},
				{on: bullies, expected: "the leader leads on: the two that miss it are answered by greater ones, and wait for ever", judge: (*verdict).undisturbed},
			},
		},
	}
}

// oneWays are the cuts of one direction.
func oneWays() []*Scenario {
	oneWay := func(value float64) func(*stage) {
		return func(st *stage) {
			st.appoint()
			st.during(sim.Op{Kind: sim.OpOneWay, Node: st.ids[0], Value: value})
		}
	}
	return []*Scenario{
		{
			Name: "deaf-leader", Says: "The leader is heard by all, and hears no other.",
			build: oneWay(1), seeds: 20,
			parts: []part{
				{on: quorumOnly, expected: "the lease of the deaf one is over before another one's begins", judge: handedOn},
				{on: []string{"raft-checkquorum"}, expected: "the deaf one steps down when it has not heard a majority for a timeout", judge: steppedDown},
				{on: slices.Concat([]string{"raft", "raft-prevote"}, blazings, bullies), expected: "no other notices: it leads on, and hears none", judge: (*verdict).undisturbed},
				{on: rings, expected: "split brain: the ring closes without it and elects another", judge: split},
			},
		},
		{
			Name: "mute-leader", Says: "The leader hears all, and is heard by none.",
			build: oneWay(0), seeds: 20,
			parts: []part{
				{on: quorumOnly, expected: "the lease of the mute one is over before another one's begins", judge: handedOn},
				{on: []string{"raft", "raft-prevote", "blazingmq", "blazingmq-sticky", "blazingmq-naive"}, expected: "the mute one leads until it hears of its successor", judge: learns},
				{on: []string{"raft-checkquorum"}, expected: "the mute one leads until it misses a majority or hears of its successor, whatever comes first", judge: learnsOrMisses},
				{on: bullies, expected: "split brain: the mute one, which is greater, takes no heed of its successor", judge: split},
				{on: rings, expected: "split brain: the ring closes without it and elects another, which keeps the lead when all is healed", judge: splitMoves},
			},
		},
	}
}

// handedOn requires one other to lead, and its proof to begin after the old one's has ended.
func handedOn(c *verdict) {
	patience, _ := c.protocol.Patience(c.schedule.Config)
	for i, r := range c.runs {
		old, next := r.leader(c.fault), r.next(c.fault)
		if old == nil || next == nil || !r.leases {
			c.want(false, "run %d: a leader whose lease is handed on, %v, to another, %v; want both", i+1, old, next)
			return
		}
		was, _ := r.counts(old)
		is, ok := r.counts(next)
		c.want(old.Who == c.ids[0] && ok && next.Who != old.Who, "run %d: %s leads, and then %s; want another one than %s", i+1, old.Who, next.Who, c.ids[0])
		c.want(was.Until <= is.From, "run %d: the lease of %s is proven until %s, and that of %s from %s on; want no overlap", i+1, old.Who, was.Until, next.Who, is.From)
		c.want(c.since(is.From) <= patience, "run %d: %s leads %s after the cut; want %s at most", i+1, next.Who, shown(c.since(is.From)), shown(patience))
		c.want(r.changes(between(c.fault, r.end)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, r.end)), "leader change"))
		c.safe(r)
		if i == 0 {
			c.say("the lease of %s ends after %s; %s leads after %s", old.Who, shown(c.since(was.Until)), next.Who, shown(c.since(is.From)))
		}
	}
}

// stale requires the leader that is cut off to lead beside its successor until the healing.
func stale(c *verdict) {
	patience, _ := c.protocol.Patience(c.schedule.Config)
	for i, r := range c.runs {
		old, next := r.leader(c.fault), r.next(c.fault)
		if old == nil || next == nil {
			c.want(false, "run %d: the stale leader %v and the new one %v; want both", i+1, old, next)
			return
		}
		both := r.both(between(0, r.end))
		c.want(old.Who == c.ids[0] && old.Until >= c.heal, "run %d: %s leads until %s; want until the healing at %s", i+1, old.Who, old.Until, c.heal)
		c.want(old.Until <= c.heal+sim.Time(patience), "run %d: %s leads until %s; want it to learn of its successor soon after the healing at %s", i+1, old.Who, old.Until, c.heal)
		c.want(both >= c.span(5), "run %d: two lead for %s; want half of the cut at least", i+1, shown(both))
		c.want(r.changes(between(c.heal, r.end)) == 0, "run %d: the leader changes after the healing", i+1)
		c.sound(r)
		if i == 0 {
			c.say("%s is elected after %s; %s leads on beside it for %s; %s", next.Who, shown(c.since(next.From)), old.Who, shown(both), refused(&r.result.Stats))
		}
	}
}

// steppedDown requires the leader to give up by itself within two timeouts.
func steppedDown(c *verdict) {
	var longest, both time.Duration
	for i, r := range c.runs {
		old, next := r.leader(c.fault), r.next(c.fault)
		if old == nil || next == nil || r.leases {
			c.want(false, "run %d: the leader that steps down %v and the next one %v; want both, without leases", i+1, old, next)
			return
		}
		d := c.since(old.Until)
		longest, both = max(longest, d), max(both, r.both(between(0, r.end)))
		c.want(old.Who == c.ids[0] && d <= c.span(2), "run %d: %s leads for %s after the cut; want %s at most", i+1, old.Who, shown(d), shown(c.span(2)))
		c.want(d >= c.least()/2, "run %d: %s stops %s after the cut; want it to miss the others first", i+1, old.Who, shown(d))
		c.want(r.changes(between(c.fault, r.end)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, r.end)), "leader change"))
		c.sound(r)
	}
	old, next := c.first.leader(c.fault), c.first.next(c.fault)
	c.say("%s steps down after %s, and %s is elected after %s; %s", old.Who, shown(c.since(old.Until)), next.Who, shown(c.since(next.From)), twoLead(both))
}

// split requires two leaders at one time for most of the cut, and the previous one, the greatest,
// to be the only one in the end.
func split(c *verdict) { splitBrain(c, c.ids[0]) }

// splitMoves requires the next one to be the only leader in the end.
func splitMoves(c *verdict) { splitBrain(c, c.ids[1]) }

func splitBrain(c *verdict, last protocol.NodeID) {
	least := time.Duration(-1)
	for i, r := range c.runs {
		both := r.both(between(c.fault, c.heal))
		if least < 0 || both < least {
			least = both
		}
		c.want(both >= c.span(5), "run %d: two lead for %s; want half of the cut at least", i+1, shown(both))
		c.want(r.result.Failure(sim.Exclusive) != nil, "run %d: no split brain was found", i+1)
		c.want(r.who(r.end-1) == last, "run %d: %s leads in the end; want %s", i+1, r.who(r.end-1), last)
		c.sound(r)
	}
	c.say("two lead at once for %s of %s; in the end %s; %s", shown(least), shown(c.span(10)), c.last(), refused(&c.first.result.Stats))
}

// deposedAtHeal requires the leader to lead alone until the healing, and no longer.
func deposedAtHeal(c *verdict) {
	patience, _ := c.protocol.Patience(c.schedule.Config)
	others := 0
	for i, r := range c.runs {
		old := r.leader(c.fault)
		if old == nil {
			c.want(false, "run %d: no node leads when the cut begins", i+1)
			return
		}
		c.want(old.Who == c.ids[0] && old.Until >= c.heal, "run %d: the term of %s ends at %s; want it to last until the healing at %s", i+1, old.Who, old.Until, c.heal)
		c.want(old.Until <= c.heal+sim.Time(patience), "run %d: the term of %s ends at %s; want soon after the healing at %s", i+1, old.Who, old.Until, c.heal)
		c.want(len(r.won(between(c.fault, c.heal))) == 0, "run %d: another is elected during the cut", i+1)
		c.want(r.term(c.heal) > old.Token, "run %d: no term is above %d after the healing", i+1, old.Token)
		if r.who(r.end-1) != old.Who {
			others++
		}
		c.sound(r)
	}
	old := c.first.leader(c.fault)
	c.claim("%s leads until %s after the healing, when term %d deposes it; in the end another leads in %d of %d runs",
		old.Who, shown(time.Duration(old.Until-c.heal)), c.first.term(c.heal), others, len(c.runs))
}

// pingPong requires leadership to alternate between the two that do not see each other.
func pingPong(c *verdict) {
	ends := []protocol.NodeID{c.ids[0], c.ids[len(c.ids)-1]}
	if len(c.ids) == 5 {
		ends[1] = c.ids[1]
	}
	var changes []int
	var longest time.Duration
	for i, r := range c.runs {
		cut := between(c.fault, c.heal)
		n := r.changes(cut)
		changes = append(changes, n)
		longest = max(longest, r.longest(cut))
		c.want(n >= 5, "run %d: %s during the cut; want 5 at least", i+1, plural(n, "leader change"))
		c.want(r.longest(cut) <= c.span(4), "run %d: a node leads for %s; want it to go on to and fro", i+1, shown(r.longest(cut)))
		for _, g := range r.won(cut) {
			c.want(slices.Contains(ends, g.Who), "run %d: %s is elected; want %s and %s in turn", i+1, g.Who, ends[0], ends[1])
		}
		c.sound(r)
	}
	c.claim("the leader changes between %s and %s %s times in %s; the longest tenure lasts %s", ends[0], ends[1], fromTo(changes), shown(c.span(10)), shown(longest))
}

// hubAtOnce requires the hub to be elected with its first or second try.
func hubAtOnce(c *verdict) {
	terms, after := hubElected(c)
	c.want(quantile(terms, 1) <= 2, "%d terms at most; want 2", quantile(terms, 1))
	c.want(quantile(after, 1) <= c.span(4), "it leads %s after the cut; want %s at most", shown(quantile(after, 1)), shown(c.span(4)))
}

// hubInTheEnd requires terms to be spent on candidates that cannot win.
func hubInTheEnd(c *verdict) {
	terms, _ := hubElected(c)
	c.want(quantile(terms, 1) > 2, "%d terms at most; want more than 2", quantile(terms, 1))
}

// hubElected requires the node that sees a majority to lead until the healing, and returns the
// terms and the time that that took.
func hubElected(c *verdict) (terms []int, after []time.Duration) {
	hub := c.ids[2]
	for i, r := range c.runs {
		g := r.leader(c.heal - 1)
		if g == nil {
			c.want(false, "run %d: no node leads before the healing", i+1)
			continue
		}
		s, _ := r.counts(g)
		after = append(after, c.since(s.From))
		terms = append(terms, int(r.term(c.heal)-r.term(c.fault)))
		c.want(g.Who == hub, "run %d: %s leads before the healing; want %s", i+1, g.Who, hub)
		c.want(r.changes(between(c.fault, c.heal)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, c.heal)), "leader change"))
		if r.leases {
			c.safe(r)
		}
		c.sound(r)
	}
	c.claim("%s leads after %s; at most %s", hub, spread(after), plural(quantile(terms, 1), "term"))
	return terms, after
}

// deadlock requires the leader to lead on, and no other to be elected.
func deadlock(c *verdict) {
	for i, r := range c.runs {
		why := r.undisturbed(c.fault, c.heal)
		c.want(why == "" && r.who(c.heal-1) == c.ids[0], "run %d: %s; want %s to lead on, with a minority", i+1, why, c.ids[0])
		c.sound(r)
	}
	c.claim("%s leads on for %s, though it reaches one of the other four", c.ids[0], shown(c.span(10)))
}

// noneLeads requires the leader to be deposed, and none to follow it.
func noneLeads(c *verdict) {
	var led []time.Duration
	won := 0
	for i, r := range c.runs {
		cut := between(c.fault, c.heal)
		led = append(led, r.led(cut))
		for _, g := range r.won(cut) {
			won++
			c.want(g.Who == c.ids[2], "run %d: %s is elected; want none but the hub, %s", i+1, g.Who, c.ids[2])
		}
		c.want(r.term(c.heal) >= r.term(c.fault)+1, "run %d: terms %d to %d; want tries that fail", i+1, r.term(c.fault), r.term(c.heal))
		c.sound(r)
	}
	c.want(quantile(led, .8) <= c.span(3), "a node leads for %s in one of five runs; want none after the leader is deposed", shown(quantile(led, .8)))
	r := c.first
	c.say("the leader is deposed after %s; no node leads for the rest of %s; terms go from %d to %d; in %d of %d runs the hub wins in the end",
		shown(led[0]), shown(c.span(10)), r.term(c.fault), r.term(c.heal), won, len(c.runs))
}

// turmoil requires two leaders at one time again and again.
func turmoil(c *verdict) {
	var changes []int
	for i, r := range c.runs {
		cut := between(c.fault, c.heal)
		changes = append(changes, r.changes(cut))
		c.want(r.changes(cut) >= 5, "run %d: %s; want 5 at least", i+1, plural(r.changes(cut), "leader change"))
		c.want(r.both(cut) >= c.span(3), "run %d: two lead for %s; want a third of the cut at least", i+1, shown(r.both(cut)))
		c.sound(r)
	}
	c.say("the leader changes %s times in %s; two lead at once for %s of it", fromTo(changes), shown(c.span(10)), shown(c.first.both(between(c.fault, c.heal))))
}

// neverStable requires no node to lead for long.
func neverStable(c *verdict) {
	var longest time.Duration
	var terms, down []int
	for i, r := range c.runs {
		cut := between(c.fault, c.heal)
		l, n := r.longest(cut), int(r.term(c.heal)-r.term(c.fault))
		longest = max(longest, l)
		terms = append(terms, n)
		down = append(down, int(100-100*r.led(cut)/cut.Length()))
		c.want(l <= c.span(3), "run %d: a node leads for %s; want %s at most", i+1, shown(l), shown(c.span(3)))
		c.want(n >= 5, "run %d: %d terms; want 5 at least", i+1, n)
		c.sound(r)
	}
	c.say("%s terms in %s; the longest tenure lasts %s; no leader for %d %% of the time (median)",
		fromTo(terms), shown(c.span(10)), shown(longest), quantile(down, .5))
}

// learns requires the mute leader to stop as soon as its successor has told it, and no sooner.
func learns(c *verdict) {
	early := mute(c)
	c.want(early <= 10*time.Millisecond, "it stops %s before its successor is elected; want 10ms at most", shown(early))
}

// learnsOrMisses requires it to stop sooner in some runs.
func learnsOrMisses(c *verdict) {
	early := mute(c)
	c.want(early > 10*time.Millisecond, "it stops %s before its successor is elected, at most; want it to miss a majority in some run", shown(early))
	c.say("in some runs it stops up to %s before that, because it misses a majority", shown(early))
}

// mute requires two leaders in a row that hardly overlap, and returns how long before the second
// one's election the first one stops.
func mute(c *verdict) (early time.Duration) {
	var longest time.Duration
	for i, r := range c.runs {
		old, next := r.leader(c.fault), r.next(c.fault)
		if old == nil || next == nil || r.leases {
			c.want(false, "run %d: the mute leader %v and its successor %v; want both, without leases", i+1, old, next)
			return 0
		}
		both := r.both(between(0, r.end))
		longest = max(longest, both)
		early = max(early, time.Duration(next.From-old.Until))
		c.want(both <= 10*time.Millisecond, "run %d: two lead for %s; want 10ms at most", i+1, shown(both))
		c.want(next.Who != old.Who && r.changes(between(c.fault, r.end)) == 1, "run %d: %s; want 1", i+1, plural(r.changes(between(c.fault, r.end)), "leader change"))
		c.sound(r)
	}
	r := c.first
	old, next := r.leader(c.fault), r.next(c.fault)
	c.say("%s is elected after %s, and %s stops when it hears that; %s", next.Who, shown(c.since(next.From)), old.Who, twoLead(longest))
	return early
}

// closes requires one leader change, with at most a moment in which two lead.
func closes(c *verdict) {
	var both time.Duration
	for i, r := range c.runs {
		n := r.changes(between(c.fault, r.end))
		both = max(both, r.both(between(0, r.end)))
		c.want(n == 1, "run %d: %s; want 1", i+1, plural(n, "leader change"))
		c.want(both <= 2*c.beat, "run %d: two lead for %s; want %s at most", i+1, shown(both), shown(2*c.beat))
		c.want(both > 0, "run %d: no two lead at one time; want them to until the old one is told", i+1)
		c.sound(r)
	}
	if g := c.first.next(c.fault); g != nil {
		c.say("%s is elected after %s; %s", g.Who, shown(c.since(g.From)), twoLead(both))
	}
}
