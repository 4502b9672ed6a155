package sim

import (
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// outranked is the reason of a handover without a command.
const outranked protocol.Reason = "outranked"

// memberships is every membership that ever existed.
type memberships struct {
	all     []change             // by rising ConfigID
	settled *protocol.Membership // the newest that a leader knew to be durable on a majority
	open    protocol.ConfigID    // the latest reconfiguration, until it is settled or its maker's term ends
}

// change is a membership as first seen.
type change struct {
	ms    *protocol.Membership
	node  int32
	votes int32
	made  bool // it is a reconfiguration, not the stamp of a new term
}

func (b *memberships) find(id protocol.ConfigID) (int, bool) {
	return slices.BinarySearchFunc(b.all, id, func(c change, id protocol.ConfigID) int { return c.ms.ID().Compare(id) })
}

// stamped reports whether ms is a known membership with the term of a new leader.
func (b *memberships) stamped(ms *protocol.Membership) bool {
	return slices.ContainsFunc(b.all, func(c change) bool {
		return c.ms.Version == ms.Version && c.ms.ConfigTerm < ms.ConfigTerm && alike(c.ms, ms)
	})
}

// founded enters the initial membership.
func (o *oracle) founded(ms *protocol.Membership) {
	o.members.all = append(o.members.all, change{ms: ms, node: -1, votes: -1})
	o.members.settled = ms
}

// addMembership adds a membership that n has, and returns its entry.
func (o *oracle) addMembership(w *World, n *node, s *processState, ms *protocol.Membership) *change {
	i, known := o.members.find(ms.ID())
	if known {
		c := &o.members.all[i]
		if c.ms != ms && !alike(c.ms, ms) {
			w.fail(OneMembership, n, "its membership %s is %s, and that of %s was %s", ms.ID(), votersOf(ms), w.nameOf(c.node), votersOf(c.ms))
		}
		return c
	}
	for k := range o.members.all {
		if c := o.members.all[k].ms; !c.Overlap(ms) && o.elects(w, c) && o.elects(w, ms) {
			w.fail(Adjacent, n, "its membership %s, %s, may have a majority without anybody of one of %s, %s, which may still elect", ms.ID(), votersOf(ms), c.ID(), votersOf(c))
		}
	}
	c := change{ms: ms, node: int32(n.index), votes: s.votes}
	if from := s.members; from != nil && !o.members.stamped(ms) {
		if !from.Overlap(ms) {
			w.fail(Adjacent, n, "it made membership %s, %s, of %s, %s: a majority of one need not have anybody in common with one of the other", ms.ID(), votersOf(ms), from.ID(), votersOf(from))
		}
		c.made = !alike(from, ms)
	}
	if c.made {
		o.members.open = ms.ID()
		if w.partitioned() {
			w.seen.add(SawChangedInPartition)
		}
	}
	o.members.all = slices.Insert(o.members.all, i, c)
	return &o.members.all[i]
}

// elects reports whether a majority of a membership may still elect by it: voters whose disks have
// no newer one. What is on a disk stays there.
func (o *oracle) elects(w *World, ms *protocol.Membership) bool {
	able := 0
	for _, v := range ms.Voters {
		if n := w.named(v.ID); n != nil && n.self == v && o.process(n).held.Compare(ms.ID()) <= 0 {
			able++
		}
	}
	return able >= ms.Quorum()
}

// checkMembership is called after every Step of a machine whose membership can change.
func (o *oracle) checkMembership(w *World, n *node, s *processState, fx *protocol.Effects) {
	m, ok := n.machine.(protocol.Reconfigurable)
	if !ok {
		return
	}
	for i := range fx.Saves { // a new one is derived from the machine's membership before this step
		if ms, err := w.protocol.Members(fx.Saves[i].Data); err == nil {
			o.addMembership(w, n, s, ms)
		}
	}
	ms, settled := m.Membership()
	if ms == nil {
		return
	}
	if ms != s.members {
		c := o.addMembership(w, n, s, ms)
		o.checkDurable(w, n, s, c, "uses")
		s.members = ms
	}
	if n.view.Elected && !ms.Has(n.self) {
		w.fail(VoterLeads, n, "elected with token %d, and it is no voter of its membership %s, %s", n.view.Token, ms.ID(), votersOf(ms))
	}
	if settled && n.view.Elected && ms.Compare(o.members.settled) > 0 {
		o.settle(w, ms)
	}
}

// checkDurable checks that a reconfiguration was durable before its maker uses it, or tells others.
func (o *oracle) checkDurable(w *World, n *node, s *processState, c *change, does string) {
	if c.made && c.votes == s.votes && s.held.Compare(c.ms.ID()) < 0 {
		w.fail(DurableFirst, n, "it %s membership %s, which it has made, and its disk says %s", does, c.ms.ID(), s.held)
	}
}

// checkVotes checks a vote that n gives, by the request and by n's position, which its machine may not
// have been told yet.
func (o *oracle) checkVotes(w *World, n *node, in *protocol.Input, fx *protocol.Effects) {
	if in.Kind != protocol.Receive || n.position == 0 {
		return
	}
	for i := range fx.Sends {
		_, grants := w.protocol.Grants(&fx.Sends[i].Message)
		if grants && fx.Sends[i].To == in.From && w.protocol.Compare(in.Message.Position, position(n.position)) < 0 {
			w.fail(NotBehind, n, "gives its vote to %s, whose position is %q, and its own is %q", in.From, in.Message.Position, position(n.position))
		}
	}
}

// checkTold is called when a message leaves with a membership.
func (o *oracle) checkTold(w *World, n *node, ms *protocol.Membership) {
	s := o.process(n)
	if ms == s.lastTold {
		return
	}
	s.lastTold = ms
	o.checkDurable(w, n, s, o.addMembership(w, n, s, ms), "tells of")
}

// membershipSaved is called when a save became durable, and when a restart reads one.
func (o *oracle) membershipSaved(w *World, n *node, data []byte) {
	ms, err := w.protocol.Members(data)
	if err != nil || ms == nil {
		w.fail(OneMembership, n, "what it saved has no membership: %v", err)
		return
	}
	s := o.process(n)
	o.findVotes(w, n, s)
	o.addMembership(w, n, s, ms)
	s.held = ms.ID()
}

// checkMayLead checks that an elected participant may lead.
func (o *oracle) checkMayLead(w *World, n *node, s *processState) {
	switch {
	case w.never>>n.base&1 == 1:
		w.fail(NeverLeads, n, "elected with token %d, and its priority is never", s.token)
	case s.paused:
		w.fail(NeverLeads, n, "elected with token %d, and it was told to pause", s.token)
	}
}

// settle records that a majority has a membership.
func (o *oracle) settle(w *World, ms *protocol.Membership) {
	b := &o.members
	b.settled = ms
	if ms.ID().Compare(b.open) >= 0 {
		b.open = protocol.ConfigID{}
	}
	founders := 0
	for _, v := range ms.Voters {
		n := w.named(v.ID)
		if n == nil {
			continue
		}
		if !n.observer {
			founders++
		}
		if n.wipes > 0 && n.self == v {
			w.seen.add(SawReadmitted)
		}
	}
	if founders == 0 {
		w.seen.add(SawAllReplaced)
	}
}

// alike reports whether two memberships have the same members.
func alike(a, b *protocol.Membership) bool {
	return slices.Equal(a.Voters, b.Voters) && slices.Equal(a.Observers, b.Observers) && slices.Equal(a.Addresses, b.Addresses)
}

// votersOf lists the voters for a message.
func votersOf(ms *protocol.Membership) string {
	var text strings.Builder
	for i, v := range ms.Voters {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(v.String())
	}
	return text.String()
}

// nameOf is the name of the participant with that node.index; -1 stands for all.
func (w *World) nameOf(index int32) protocol.NodeID {
	if index < 0 {
		return "all"
	}
	return w.nodes[index].id
}

// partitioned reports whether a partition is in force.
func (w *World) partitioned() bool {
	for i := range w.ops {
		if !w.ops[i].on {
			continue
		}
		switch w.op(i).Kind {
		case OpIsolate, OpHalves, OpThird, OpBridge, OpMajorityRing, OpChain, OpOneWay, OpSwizzle:
			return true
		}
	}
	return false
}
