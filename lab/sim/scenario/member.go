package scenario

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// members are the scenarios in which leadership is handed over or the membership changes, while
// something else happens.
func members() []*Scenario {
	return []*Scenario{
		{
			Name: "transfer-race", Says: "The leader is asked to hand over to a follower, and in the middle of that dies, is cut off, or loses its target.",
			Source: "rule R10 of quorum; etcd and openraft handed over before they fenced",
			build:  transferRace,
			parts:  []part{{on: quorumOnly, expected: "no two lead at once, and one leads in the end", judge: judgeRace}},
		},
		{
			Name: "reconfig-fork", Says: "A cut off leader is asked to remove members, and its successor on the other side to add one, at the same time.",
			Source: "rule R15 of quorum; Schultz, Dardik, Tripakis, Design and analysis of a logless dynamic reconfiguration protocol (2021)",
			build:  reconfigFork,
			parts:  []part{{on: quorumOnly, expected: "only the side with a majority changes the membership, and in the end all have that one", judge: judgeFork}},
		},
		{
			Name: "lease-reconfig", Says: "The leader is cut off in the middle of removing a voter, with a lease that a majority of the old voters has promised.",
			Source: "rule R15 of quorum: the largest claim ever made ends before the new voters can elect",
			build:  leaseReconfig,
			parts:  []part{{on: quorumOnly, expected: "the next lease begins after the old one is over", judge: judgeRace}},
		},
	}
}

// moments are the times of a race, from the moment at which it begins: each half millisecond is one
// more message or sync.
func moments() []time.Duration {
	var all []time.Duration
	for i := range 20 {
		all = append(all, time.Duration(i)*500*time.Microsecond+100*time.Microsecond)
	}
	return all
}

func transferRace(st *stage) {
	st.schedule.Links.Jitter, st.schedule.Disks.Jitter = 0, 0
	st.schedule.Work.Stop = 6 * time.Millisecond // the work returns this long after its stop
	st.appoint()
	a, b := st.ids[0], st.ids[1]
	st.op(sim.Op{At: st.fault, Kind: sim.OpTransfer, Node: a, Peer: b})
	plain := *st.schedule
	for _, d := range moments() {
		for _, op := range []sim.Op{
			{Kind: sim.OpKill, Node: a, For: st.span(2)},
			{Kind: sim.OpPowerLoss, Node: a, For: st.span(2)},
			{Kind: sim.OpIsolate, Node: a, For: st.span(5)},
			{Kind: sim.OpPowerLoss, Node: b, For: st.span(2)},
			{Kind: sim.OpPause, Node: b, For: st.span(2)},
		} {
			op.At = st.fault + sim.Time(d)
			st.op(op)
			st.more = append(st.more, st.schedule)
			c := plain
			c.Ops = slices.Clone(plain.Ops)
			st.schedule = &c
		}
	}
}

func leaseReconfig(st *stage) {
	st.schedule.Links.Jitter, st.schedule.Disks.Jitter = 0, 0
	st.cast(3)
	st.appoint()
	a, c := st.ids[0], st.ids[2]
	st.op(sim.Op{At: st.fault, Kind: sim.OpRemove, Node: c, Every: st.beat, For: st.beat / 2})
	plain := *st.schedule
	for _, d := range moments() {
		st.op(sim.Op{At: st.fault + sim.Time(d), Kind: sim.OpIsolate, Node: a, For: st.span(5)})
		st.more = append(st.more, st.schedule)
		next := plain
		next.Ops = slices.Clone(plain.Ops)
		st.schedule = &next
	}
}

// judgeRace requires safety at every moment, and a leader in the end.
func judgeRace(c *verdict) {
	var gaps []time.Duration
	went := map[protocol.NodeID]int{}
	for i, r := range c.runs {
		c.safe(r)
		old, last := r.leader(c.fault-1), r.leader(r.end-1)
		c.want(old != nil && last != nil, "run %d: led by %v, and in the end by %v; want a leader both times", i+1, old, last)
		if old == nil || last == nil {
			continue
		}
		went[last.Who]++
		gaps = append(gaps, r.longestGap(between(c.fault-1, r.end)))
	}
	patience, _ := c.protocol.Patience(c.schedule.Config)
	// Where the target is dead or the leader cut off, the run waits for that, too.
	most := 2*patience + c.span(5)
	c.want(quantile(gaps, 1) <= most, "no node leads for %s; want %s at most", shown(quantile(gaps, 1)), shown(most))
	moved := 0
	for id, n := range went {
		if id != c.ids[0] {
			moved += n
		}
	}
	c.want(moved > 0, "leadership stayed with %s in all %d runs; want it to move in some", c.ids[0], len(c.runs))
	c.claim("the fault at another moment in each of %d runs: no two lead at once; no leader for %s at most; in the end another leads in %d",
		len(c.runs), shown(quantile(gaps, 1)), moved)
}

// longestGap is the longest time in s without a leader.
func (r *run) longestGap(s Span) (most time.Duration) {
	var all []Span
	for i := range r.tenures {
		if r.leases {
			all = append(all, r.tenures[i].Proven...)
		} else {
			all = append(all, r.tenures[i].Span)
		}
	}
	slices.SortFunc(all, func(a, b Span) int { return int(a.From - b.From) })
	at := s.From
	for _, x := range all {
		most = max(most, time.Duration(min(x.From, s.Until)-at))
		at = max(at, x.Until)
	}
	return max(most, time.Duration(s.Until-at))
}

func reconfigFork(st *stage) {
	st.schedule.Spares = 1
	st.appoint()
	st.alone(st.ids[0])
	st.op(
		sim.Op{At: st.fault + 1, Kind: sim.OpRemove, Node: st.ids[3], Every: st.beat / 4, For: st.span(1)},
		sim.Op{At: st.fault + st.times(2), Kind: sim.OpAdd, Node: "s1", Every: st.beat / 4, For: st.span(5)},
	)
	st.trace = func(r *run, rec *sim.Record) {
		if rec.Kind == sim.RecordSend && rec.Message.Membership != nil {
			r.tally.members.note(rec.Node, rec.At, rec.Message.Membership)
		}
	}
}

// memberships are what participants have said about the membership.
type memberships struct {
	newest map[protocol.NodeID]protocol.Membership
	at     map[protocol.NodeID]sim.Time
}

func (m *memberships) note(who protocol.NodeID, at sim.Time, ms *protocol.Membership) {
	if m.newest == nil {
		m.newest, m.at = map[protocol.NodeID]protocol.Membership{}, map[protocol.NodeID]sim.Time{}
	}
	if was, ok := m.newest[who]; !ok || ms.Version != was.Version || ms.ConfigTerm != was.ConfigTerm {
		m.newest[who], m.at[who] = *ms, at
	}
}

func judgeFork(c *verdict) {
	r := c.first
	c.safe(r)
	last := r.leader(r.end - 1)
	c.want(last != nil && last.Who != c.ids[0] && r.changes(between(c.fault, r.end)) == 1, "%v leads in the end, after %s; want another one than %s, after 1", last, plural(r.changes(between(c.fault, r.end)), "leader change"), c.ids[0])
	if last == nil {
		return
	}
	ms := r.tally.members.newest[last.Who]
	c.want(len(ms.Voters) == 6, "%d voters in the end; want 6: five and the one that was added, and none removed", len(ms.Voters))
	for _, id := range append(slices.Clone(c.ids), "s1") {
		o := r.tally.members.newest[id]
		c.want(o.Version == ms.Version && o.ConfigTerm == ms.ConfigTerm, "%s has membership %d.%d in the end; want %d.%d, that of %s", id, o.ConfigTerm, o.Version, ms.ConfigTerm, ms.Version, last.Who)
	}
	c.say("%s, cut off, removes no voter; %s adds s1; in the end all six have its membership %d.%d; no two lead at once", c.ids[0], last.Who, ms.ConfigTerm, ms.Version)
}
