package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// An operator changes the membership as follows: it finds a leader, asks for the next step that the
// leader's membership still lacks, and checks again later. A step is what a runtime asks of its
// machine: a voter is an observer first; a wiped one is removed and then added; a leader that is to
// be removed hands over before.

// reconfigure is one try. It reports whether nothing is left to do.
func (w *World) reconfigure(n *node, op *Op, st *opState) (done bool) {
	leader, machine := w.anyLeader()
	if leader == nil || n == nil && op.Kind != OpReconfigure {
		return false
	}
	ms, settled := machine.Membership()
	next := w.nextStep(n, op, ms, leader)
	switch {
	case next == nil:
		return settled && !leader.frozen
	case next == ms: // the leader is to be removed
		w.command(leader, protocol.Command{Verb: protocol.Transfer, Target: w.successor(op, leader)})
		return false
	}
	if op.Value == 1 && st.away == 0 {
		st.away = 1 // once
		if all := w.outright(op, ms); all != nil {
			next = all
		}
	}
	// A runtime asks for objections first. Its request may come late nevertheless: a process is
	// frozen, or something came in between. So some requests are made without asking.
	if objection := machine.Objection(next); objection != nil {
		w.seen.add(SawChangeRefused)
		if w.operator.Uint64()%4 > 0 && !leader.frozen {
			return false
		}
	}
	asked := *next
	asked.ConfigTerm, asked.Version = ms.ConfigTerm, ms.Version+1
	leader.asked = &asked
	w.command(leader, protocol.Command{Verb: protocol.Reconfigure, Membership: next})
	return false
}

// anyLeader draws one of the participants that believe that they lead.
func (w *World) anyLeader() (*node, protocol.Reconfigurable) {
	var all []*node
	for _, n := range w.nodes[:w.width] {
		if n.up && n.view.Elected {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	n := all[below(w.operator.Uint64(), time.Duration(len(all)))]
	m, ok := n.machine.(protocol.Reconfigurable)
	if !ok {
		return nil, nil
	}
	return n, m
}

// nextStep is the membership to ask for: ms itself if the leader has to hand over first, and nil if
// ms is what the operator wants.
func (w *World) nextStep(n *node, op *Op, ms *protocol.Membership, leader *node) *protocol.Membership {
	switch op.Kind {
	case OpRemove:
		if ms.Index(n.id) < 0 && !slices.Contains(ms.Observers, n.id) {
			return nil
		}
		return w.without(ms, n, leader)
	case OpAdd, OpReplace:
		switch {
		case ms.Has(n.self):
			return nil
		case ms.Index(n.id) < 0:
			return w.with(ms, n)
		case op.Kind == OpReplace:
			return w.without(ms, n, leader)
		}
		return nil // there is a voter with that name
	}
	for _, id := range op.Group {
		if o := w.named(id); ms.Index(id) >= 0 && !ms.Has(o.self) {
			return w.without(ms, o, leader)
		}
	}
	room := len(ms.Voters) < protocol.MaxVoters
	for _, id := range op.Group {
		if o := w.named(id); room && !ms.Has(o.self) {
			return w.with(ms, o)
		}
	}
	last := (*node)(nil)
	for _, v := range ms.Voters {
		if o := w.named(v.ID); !slices.Contains(op.Group, v.ID) && (last == nil || last == leader) {
			last = o // the leader is removed last
		}
	}
	if last == nil {
		return nil
	}
	return w.without(ms, last, leader)
}

// with is ms with n in it: as an observer, and then as a voter.
func (w *World) with(ms *protocol.Membership, n *node) *protocol.Membership {
	next := copyMembership(ms)
	if i := slices.Index(next.Observers, n.id); i >= 0 {
		if len(ms.Voters) == protocol.MaxVoters {
			return nil
		}
		next.Observers = slices.Delete(next.Observers, i, i+1)
		next.Voters = append(next.Voters, n.self)
		slices.SortFunc(next.Voters, func(a, b protocol.Voter) int { return a.ID.Compare(b.ID) })
		return next
	}
	next.Observers = append(next.Observers, n.id)
	next.Addresses = append(next.Addresses, protocol.Address{ID: n.id, Addr: string(n.id) + ":7400"})
	return next
}

// without is ms without n, or ms itself if n leads: a leader hands over first. It is nil if no
// voter would be left.
func (w *World) without(ms *protocol.Membership, n, leader *node) *protocol.Membership {
	i := ms.Index(n.id)
	switch {
	case i >= 0 && len(ms.Voters) == 1:
		return nil
	case n == leader:
		return ms
	}
	next := copyMembership(ms)
	if i >= 0 {
		next.Voters = slices.Delete(next.Voters, i, i+1)
	}
	next.Observers = slices.DeleteFunc(next.Observers, func(id protocol.NodeID) bool { return id == n.id })
	next.Addresses = slices.DeleteFunc(next.Addresses, func(a protocol.Address) bool { return a.ID == n.id })
	return next
}

// outright is a membership with all changes that the operator wants at once: no machine may accept
// it, unless it is a single step.
func (w *World) outright(op *Op, ms *protocol.Membership) *protocol.Membership {
	next := copyMembership(ms)
	next.Voters, next.Addresses = nil, nil
	for _, id := range op.Group {
		if o := w.named(id); !slices.ContainsFunc(next.Voters, func(v protocol.Voter) bool { return v.ID == id }) {
			next.Voters = append(next.Voters, o.self)
		}
	}
	slices.SortFunc(next.Voters, func(a, b protocol.Voter) int { return a.ID.Compare(b.ID) })
	next.Observers = slices.DeleteFunc(next.Observers, func(id protocol.NodeID) bool { return next.Index(id) >= 0 })
	if next.Validate() != nil {
		return nil
	}
	return next
}

// successor is the voter to which a leader that is to be removed hands over: one of the remaining
// ones, or none in particular.
func (w *World) successor(op *Op, leader *node) protocol.NodeID {
	var all []protocol.NodeID
	for _, id := range op.Group {
		if o := w.named(id); o.up && id != leader.id {
			all = append(all, id)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[below(w.operator.Uint64(), time.Duration(len(all)))]
}

func copyMembership(ms *protocol.Membership) *protocol.Membership {
	next := *ms
	next.Voters = slices.Clone(ms.Voters)
	next.Observers = slices.Clone(ms.Observers)
	next.Addresses = slices.Clone(ms.Addresses)
	return &next
}
