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
	book    []change             // by rising ConfigID
	settled *protocol.Membership // the newest that a leader knew to be durable on a majority
	open    protocol.ConfigID    // the latest reconfiguration, until it is settled or its maker's term ends
}

// change is a membership as first seen.
type change struct {
	ms     *protocol.Membership
	seat   int32
	ballot int32
	made   bool // it is a reconfiguration, not the stamp of a new term
}

func (b *memberships) find(id protocol.ConfigID) (int, bool) {
	return slices.BinarySearchFunc(b.book, id, func(c change, id protocol.ConfigID) int { return c.ms.ID().Compare(id) })
}

// stamped reports whether ms is a known membership with the term of a new leader.
func (b *memberships) stamped(ms *protocol.Membership) bool {
	return slices.ContainsFunc(b.book, func(c change) bool {
		return c.ms.Version == ms.Version && c.ms.ConfigTerm < ms.ConfigTerm && alike(c.ms, ms)
	})
}

// founded enters the initial membership.
func (o *oracle) founded(ms *protocol.Membership) {
	o.members.book = append(o.members.book, change{ms: ms, seat: -1, ballot: -1})
	o.members.settled = ms
}

// enter enters a membership that n has, and returns its entry in the book.
func (o *oracle) enter(w *World, n *node, s *seat, ms *protocol.Membership) *change {
	i, known := o.members.find(ms.ID())
	if known {
		c := &o.members.book[i]
		if c.ms != ms && !alike(c.ms, ms) {
			w.fail(OneMembership, n, "its membership %s is %s, and that of %s was %s", ms.ID(), votersOf(ms), w.seatOf(c.seat), votersOf(c.ms))
		}
		return c
	}
	for k := range o.members.book {
		if c := o.members.book[k].ms; !c.Overlap(ms) && o.elects(w, c) && o.elects(w, ms) {
			w.fail(Adjacent, n, "its membership %s, %s, may have a majority without anybody of one of %s, %s, which may still elect", ms.ID(), votersOf(ms), c.ID(), votersOf(c))
		}
	}
	c := change{ms: ms, seat: int32(n.index), ballot: s.ballot}
	if from := s.members; from != nil && !o.members.stamped(ms) {
		if !from.Overlap(ms) {
			w.fail(Adjacent, n, "it made membership %s, %s, of %s, %s: a majority of one need not have anybody in common with one of the other", ms.ID(), votersOf(ms), from.ID(), votersOf(from))
		}
		c.made = !alike(from, ms)
	}
	if c.made {
		o.members.open = ms.ID()
		if w.parted() {
			w.seen.add(SawChangedInPartition)
		}
	}
	o.members.book = slices.Insert(o.members.book, i, c)
	return &o.members.book[i]
}

// elects reports whether a majority of a membership may still elect by it: voters whose disks have
// no newer one. What is on a disk stays there.
func (o *oracle) elects(w *World, ms *protocol.Membership) bool {
	able := 0
	for _, v := range ms.Voters {
		if n := w.named(v.ID); n != nil && n.self == v && o.seat(n).held.Compare(ms.ID()) <= 0 {
			able++
		}
	}
	return able >= ms.Quorum()
}

// member is called after every Step of a machine whose membership can change.
func (o *oracle) member(w *World, n *node, s *seat, fx *protocol.Effects) {
	m, ok := n.machine.(protocol.Reconfigurable)
	if !ok {
		return
	}
	for i := range fx.Saves { // a new one is derived from the machine's membership before this step
		if ms, err := w.protocol.Members(fx.Saves[i].Data); err == nil {
			o.enter(w, n, s, ms)
		}
	}
	ms, settled := m.Membership()
	if ms == nil {
		return
	}
	if ms != s.members {
		c := o.enter(w, n, s, ms)
		o.first(w, n, s, c, "uses")
		s.members = ms
	}
	if n.view.Elected && !ms.Has(n.self) {
		w.fail(VoterLeads, n, "elected with token %d, and it is no voter of its membership %s, %s", n.view.Token, ms.ID(), votersOf(ms))
	}
	if settled && n.view.Elected && ms.Compare(o.members.settled) > 0 {
		o.settles(w, ms)
	}
}

// first checks that a reconfiguration was durable before its maker uses it, or tells others.
func (o *oracle) first(w *World, n *node, s *seat, c *change, does string) {
	if c.made && c.ballot == s.ballot && s.held.Compare(c.ms.ID()) < 0 {
		w.fail(DurableFirst, n, "it %s membership %s, which it has made, and its disk says %s", does, c.ms.ID(), s.held)
	}
}

// votes checks a vote that n gives, by the request and by n's position, which its machine may not
// have been told yet.
func (o *oracle) votes(w *World, n *node, in *protocol.Input, fx *protocol.Effects) {
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

// told is called when a message leaves with a membership.
func (o *oracle) told(w *World, n *node, ms *protocol.Membership) {
	s := o.seat(n)
	if ms == s.told {
		return
	}
	s.told = ms
	o.first(w, n, s, o.enter(w, n, s, ms), "tells of")
}

// holds is called when a save became durable, and when a restart reads one.
func (o *oracle) holds(w *World, n *node, data []byte) {
	ms, err := w.protocol.Members(data)
	if err != nil || ms == nil {
		w.fail(OneMembership, n, "what it saved has no membership: %v", err)
		return
	}
	s := o.seat(n)
	o.board(w, n, s)
	o.enter(w, n, s, ms)
	s.held = ms.ID()
}

// may checks that an elected participant may lead.
func (o *oracle) may(w *World, n *node, s *seat) {
	switch {
	case w.never>>n.base&1 == 1:
		w.fail(NeverLeads, n, "elected with token %d, and its priority is never", s.token)
	case s.paused:
		w.fail(NeverLeads, n, "elected with token %d, and it was told to pause", s.token)
	}
}

// settles records that a majority has a membership.
func (o *oracle) settles(w *World, ms *protocol.Membership) {
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

// seatOf is the name of a seat's participant.
func (w *World) seatOf(seat int32) protocol.NodeID {
	if seat < 0 {
		return "all"
	}
	return w.nodes[seat].id
}

// parted reports whether a partition is in force.
func (w *World) parted() bool {
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
