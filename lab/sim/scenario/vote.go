package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// votes are the scenarios about terms and what a voter remembers.
func votes() []*Scenario {
	forgets := "the voter votes twice, and two lead in one term"
	return []*Scenario{
		{
			Name: "split-vote", Says: "All candidates time out together: the leader falls silent, and in half of the runs the others are also frozen past their timeouts.",
			Source: "Ongaro and Ousterhout, In search of an understandable consensus algorithm (2014), 5.2",
			build:  splitVote, seeds: 100,
			parts: []part{
				{on: quorumOnly, expected: "ranks keep the candidates apart: one round without a freeze, and two where all were", judge: ranked},
				{on: rafts, expected: "random timeouts keep them apart: one round without a freeze; after a thaw mostly two, rarely three", judge: randomTimeouts},
				{on: blazings, expected: "the random wait before each try keeps them apart: one round", judge: randomWaits},
			},
		},
		{
			Name: "stranded-term", Says: "A voter comes to a higher term than the leader's, though it has not won it.",
			Source: "rule R5 of quorum; Ongaro's thesis, 9.6",
			build:  stranded,
			parts: []part{
				{on: quorumOnly, expected: "where no other can have won, the leader takes a higher term and keeps its tenure and token; where another can have, it fences and begins a new tenure", judge: judgeStranded},
				{on: []string{"raft"}, build: strandedRaft, expected: "the leader steps down", judge: judgeStrandedRaft},
			},
		},
		{
			Name: "voter-restart", Says: "The leader is cut off, and while its lease runs all others but one crash and start again.", Source: "TiKV, issue 15035",
			build: func(st *stage) {
				st.appoint()
				st.alone(st.ids[0])
				st.op(sim.Op{At: st.fault, Kind: sim.OpReset, Node: st.ids[0], Peer: st.ids[1]}) // the one knows at once
				for _, id := range st.ids[2:] {
					st.op(sim.Op{At: st.fault + 1, Kind: sim.OpKill, Node: id, For: 10 * time.Millisecond})
				}
			},
			parts: []part{
				{on: quorumOnly, expected: "nothing is forgotten: voters that restart wait for the end of what they may have promised", judge: handedOn},
				{on: slices.Concat([]string{"raft", "raft-prevote"}, blazings), expected: "there is no promise to remember: a stale leader leads beside the new one", judge: stale},
				{on: []string{"raft-checkquorum"}, expected: "there is no promise to remember: the leader steps down when it has not heard a majority for a timeout", judge: steppedDown},
			},
		},
		{
			Name: "double-vote", Says: "A voter votes for one candidate, crashes, starts again, and is asked by another candidate of the same term.", Source: "rule R3 of quorum; BlazingMQ keeps no vote on disk",
			build: func(st *stage) { st.twoCandidates(sim.OpKill) },
			parts: []part{
				{on: slices.Concat(quorumOnly, rafts), expected: "the vote is on its disk: one leader in a term", judge: oneWinner},
				{on: blazings, expected: forgets, judge: twoWinners},
			},
		},
		{
			Name: "wiped-disk", Says: "As double-vote, and the disk of the voter is lost in between.", Source: "Raft assumes that a disk keeps what it stores; rule R3 of quorum, whose voters are an id and a directory",
			build: func(st *stage) {
				st.schedule.Beyond = true
				st.twoCandidates(sim.OpWipe)
			},
			parts: []part{
				{on: quorumOnly, expected: "with an empty disk it is another voter, which was never admitted: one leader in a term", judge: oneWinner},
				{on: byTerm, expected: forgets, judge: twoWinners},
			},
		},
	}
}

// splitVote has the leader lose power. In the second schedule the others are frozen for three
// timeouts from then on, so that all their timeouts are overdue at one time.
func splitVote(st *stage) {
	st.schedule.Links.Delay = 5 * time.Millisecond
	st.appoint()
	st.op(sim.Op{At: st.fault, Kind: sim.OpPowerLoss, Node: st.ids[0]})
	st.fork()
	for _, id := range st.ids[1:] {
		st.op(sim.Op{At: st.fault, Kind: sim.OpPause, Node: id, For: st.span(3)})
	}
}

// rounds are the time and the number of terms that each run takes from t to the next leader.
func (c *verdict) rounds(runs []*run, t sim.Time) (times []time.Duration, terms []int) {
	for _, r := range runs {
		g := r.next(t)
		if g == nil {
			c.want(false, "seed %d: no node is elected", r.schedule.Seed)
			continue
		}
		times = append(times, time.Duration(g.From-t))
		terms = append(terms, int(r.term(g.From)-r.term(c.fault)))
		c.sound(r)
	}
	return times, terms
}

// within is how many are at most.
func within[T int | time.Duration](all []T, most T) (n int) {
	for _, x := range all {
		if x <= most {
			n++
		}
	}
	return n
}

// enough says in how many runs that many rounds suffice.
func enough(terms []int) string {
	n := len(terms)
	var text strings.Builder
	text.WriteString(fmt.Sprintf("one round in %d of %d runs", within(terms, 1), n))
	for rounds := 2; rounds <= 3 && within(terms, rounds-1) < n; rounds++ {
		in := fmt.Sprintf("%d", within(terms, rounds))
		if within(terms, rounds) == n {
			in = "all"
		}
		text.WriteString(fmt.Sprintf(", at most %d in %s", rounds, in))
	}
	return text.String()
}

func ranked(c *verdict) {
	half := len(c.runs) / 2
	times, terms := c.rounds(c.runs[:half], c.fault)
	apart := quantile(times, 1) - quantile(times, 0)
	c.want(within(terms, 1) == half, "one round in %d of %d; want all", within(terms, 1), half)
	c.want(apart <= 25*time.Millisecond, "%s between the fastest and the slowest; want 25ms at most, one slot", shown(apart))
	c.say("without a freeze %s, after %s", enough(terms), spread(times))
	times, terms = c.rounds(c.runs[half:], c.fault+c.times(3))
	c.want(within(terms, 2) == half, "two rounds in %d of %d; want all", within(terms, 2), half)
	c.want(quantile(times, 1) <= 150*time.Millisecond, "%s after the thaw; want 150ms at most", shown(quantile(times, 1)))
	c.say("after a thaw %s, after %s", enough(terms), spread(times))
}

// randomTimeouts requires the votes to split after a thaw, and hardly ever twice.
func randomTimeouts(c *verdict) {
	times, terms := random(c)
	half := len(terms)
	c.want(within(terms, 1)*2 < half, "one round in %d of %d; want votes to split in most", within(terms, 1), half)
	c.want(within(terms, 2)*100 >= 95*half, "two rounds in %d of %d; want 95 %%", within(terms, 2), half)
	c.want(quantile(times, .99) <= c.span(2), "%s after the thaw; want %s at most", shown(quantile(times, .99)), shown(c.span(2)))
}

// randomWaits requires one round, after a thaw too.
func randomWaits(c *verdict) {
	_, terms := random(c)
	c.want(within(terms, 1)*100 >= 95*len(terms), "one round in %d of %d; want 95 %%", within(terms, 1), len(terms))
}

// random requires one round without a freeze, and returns the figures of the runs with one.
func random(c *verdict) (times []time.Duration, terms []int) {
	half := len(c.runs) / 2
	times, terms = c.rounds(c.runs[:half], c.fault)
	c.want(within(terms, 1)*100 >= 95*half, "one round in %d of %d; want 95 %%", within(terms, 1), half)
	c.want(quantile(times, .99) <= c.span(1.5), "%s until the next one is elected; want %s at most", shown(quantile(times, .99)), shown(c.span(1.5)))
	c.want(quantile(times, 1)-quantile(times, 0) > 25*time.Millisecond, "all runs take the same time; want random timeouts")
	c.say("without a freeze %s, after %s", enough(terms), spread(times))
	times, terms = c.rounds(c.runs[half:], c.fault+c.times(3))
	c.say("after a thaw %s, after %s", enough(terms), spread(times))
	return times, terms
}

// stranded has the connections of the leader end, though it lives. The second participant
// pre-votes, votes for itself in the next term, and asks the others for their votes. In the first
// schedule its requests are lost, and in the second the others' votes are.
func stranded(st *stage) {
	// Not random: the cut falls at a particular half millisecond of an election.
	st.schedule.Links.Jitter, st.schedule.Disks.Jitter = 0, 0
	st.appoint()
	a, b := st.ids[0], st.ids[1]
	st.op(sim.Op{At: st.fault, Kind: sim.OpReset, Node: a})
	st.fork()
	lost := func(after time.Duration, way float64) {
		st.op(sim.Op{At: st.fault + sim.Time(after), Kind: sim.OpOneWay, Node: b, Value: way, For: 20 * time.Millisecond})
	}
	lost(2200*time.Microsecond, 1)
	votesLost := st.schedule
	st.schedule = st.more[0]
	st.more = nil
	lost(1300*time.Microsecond, 0)
	st.more, st.schedule = []*sim.Schedule{st.schedule}, votesLost
}

func judgeStranded(c *verdict) {
	if len(c.runs) != 2 || c.first.leader(c.fault) == nil {
		c.want(false, "%s, and %v leads when the connections end; want two, and a leader", plural(len(c.runs), "run"), c.first.leader(c.fault))
		return
	}
	a, b := c.runs[0], c.runs[1]
	why := a.undisturbed(c.fault, a.end)
	old := a.leader(c.fault)
	c.want(why == "" && old.Who == c.ids[0], "no other can have won: %s", why)
	c.want(a.term(a.end) > old.Token, "no other can have won: the term is %d in the end; want above %d", a.term(a.end), old.Token)
	c.safe(a)
	c.say("requests lost: %s leads throughout with token %d, while its term rises to %d", old.Who, old.Token, a.term(a.end))

	first, next := b.leader(c.fault), b.next(c.fault)
	if first == nil || next == nil {
		c.want(false, "another can have won: a tenure %v and the next one %v; want both", first, next)
		return
	}
	was, _ := b.counts(first)
	is, ok := b.counts(next)
	c.want(ok && next.Token > first.Token && was.Until <= is.From && was.Until < c.fault+c.times(1),
		"another can have won: token %d is proven until %s, and %d from %s on; want a new tenure after the old one", first.Token, was.Until, next.Token, is.From)
	c.safe(b)
	c.say("votes lost: %s fences after %s, and %s begins a tenure with token %d %s later", first.Who, shown(c.since(was.Until)), next.Who, next.Token, shown(time.Duration(is.From-was.Until)))
}

// strandedRaft has a follower time out alone: it is deaf for a while.
func strandedRaft(st *stage) {
	st.appoint()
	st.op(sim.Op{At: st.fault, Kind: sim.OpIsolate, Node: st.ids[1], For: st.span(2)})
}

func judgeStrandedRaft(c *verdict) {
	r := c.first
	old, next := r.leader(c.fault), r.next(c.fault)
	if old == nil || next == nil {
		c.want(false, "a leader %v and the next one %v; want both", old, next)
		return
	}
	healed := c.fault + c.times(2)
	c.want(!r.leases && old.Until > healed && old.Until <= healed+c.times(1), "%s leads until %s; want it to step down soon after %s", old.Who, old.Until, healed)
	c.want(next.From > old.Until, "%s is elected at %s; want a time without a leader", next.Who, next.From)
	c.sound(r)
	c.say("%s steps down %s after the voter is back with term %d; no leader for %s", old.Who, shown(time.Duration(old.Until-healed)), r.term(healed), shown(time.Duration(next.From-old.Until)))
}

// twoCandidates has two of three stand in one term. The voter votes for the first, dies as that
// operation says, starts again, and hears the second only then.
func (st *stage) twoCandidates(how sim.OpKind) {
	st.cast(3)
	s := st.schedule
	s.Links.Jitter, s.Disks.Jitter = 0, 0
	a, b, voter := st.ids[0], st.ids[1], st.ids[2]
	st.op(sim.Op{Kind: sim.OpWithdraw, Node: voter, For: st.span(20)})
	for _, op := range apart(a, b) {
		op.For = st.span(20)
		st.op(op)
	}
	// The times since both stand at which the second one's request is held up, and at which the
	// voter has answered the first one, which has not won yet.
	asks, dies := 300*time.Microsecond, 1900*time.Microsecond
	switch st.name {
	case "quorum":
		asks, dies = 700*time.Microsecond, 2300*time.Microsecond // another question comes before
	case "raft-prevote", "raft-checkquorum":
		asks, dies = 700*time.Microsecond, 2800*time.Microsecond
	case "blazingmq":
		asks = 700 * time.Microsecond
	case "blazingmq-sticky", "blazingmq-naive":
		asks, dies = -100*time.Microsecond, 900*time.Microsecond // nothing is saved before
	}
	// Both timeouts are over at one time: both were frozen until then, or, where that is only the
	// first of two waits, their clocks jump.
	st.fault = sim.Time(st.detect + 100*time.Millisecond)
	for _, id := range []protocol.NodeID{a, b} {
		if slices.Contains(blazings, st.name) {
			st.op(sim.Op{At: st.fault, Kind: sim.OpStep, Node: id, By: time.Minute})
		} else {
			st.op(sim.Op{At: st.fault - sim.Time(st.detect), Kind: sim.OpPause, Node: id, For: st.detect})
		}
	}
	st.op(
		sim.Op{At: st.fault + sim.Time(asks), Kind: sim.OpClog, Node: b, Peer: voter, For: 30 * time.Millisecond},
		sim.Op{At: st.fault + sim.Time(dies), Kind: how, Node: voter, For: 5 * time.Millisecond},
		// It hears nothing of the first one any more.
		sim.Op{At: st.fault + sim.Time(dies), Kind: sim.OpHalfOpen, Node: a, Peer: voter, For: st.span(15)},
		sim.Op{At: st.fault + sim.Time(dies+2*time.Millisecond), Kind: sim.OpHalfOpen, Node: voter, Peer: a, For: st.span(15)},
	)
	st.trace = func(r *run, rec *sim.Record) {
		if rec.Kind == sim.RecordStep && rec.Node == voter && rec.Life > 1 && rec.Input.Kind == protocol.Receive && rec.Input.From == b && rec.Input.Message.Term == 1 {
			r.tally.asked++
		}
	}
}

// twoWinners requires two leaders in one term.
func twoWinners(c *verdict) {
	r := c.first
	v := r.result.Failure(sim.OneLeader)
	c.want(v != nil, "there is one leader in each term; want two in one")
	byToken := map[uint64][]protocol.NodeID{}
	for i := range r.tenures {
		g := &r.tenures[i]
		if !slices.Contains(byToken[g.Token], g.Who) {
			byToken[g.Token] = append(byToken[g.Token], g.Who)
		}
		if all := byToken[g.Token]; len(all) == 2 {
			c.say("%s and %s are both elected in term %d, %s apart", all[0], all[1], g.Token, shown(time.Duration(g.From-r.tenures[0].From)))
			return
		}
	}
}

// oneWinner requires the second candidate to be refused.
func oneWinner(c *verdict) {
	r := c.first
	c.sound(r)
	first := r.next(c.fault)
	if first == nil {
		c.want(false, "no node is elected; want %s", c.ids[0])
		return
	}
	c.want(first.Who == c.ids[0] && c.since(first.From) < 10*time.Millisecond, "%s is elected %s after it stood; want %s at once", first.Who, shown(c.since(first.From)), c.ids[0])
	second := r.next(c.fault, c.ids[1])
	c.want(second == nil || second.Token != first.Token, "%s is elected with token %d, too", c.ids[1], first.Token)
	c.want(r.result.Failure(sim.OneLeader) == nil, "two are elected in one term")
	c.want(r.tally.asked > 0, "the voter was not asked for its vote in term 1 after its restart")
	c.say("%s is elected in term %d; %s, which asks for the same vote, is not", first.Who, first.Token, c.ids[1])
	if second != nil {
		c.say("it is elected in term %d, %s later", second.Token, shown(time.Duration(second.From-first.From)))
	}
}
