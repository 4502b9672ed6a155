package lease

import "github.com/electd/elect/internal/protocol"

// View implements [protocol.Machine]. Leader is the last holder that was seen, until its record has
// lapsed here. While the role is Fencing and the lease is still renewed, LeaseEnd is the deadline
// for the work to return.
func (m *Machine) View() protocol.View {
	v := protocol.View{Role: m.role(), Term: m.seen.record.Count, Confirmed: m.confirmed, Fault: m.fault}
	r := &m.seen.record
	switch {
	case m.stage == holding:
		v.Term = m.own.count
		v.Leader = protocol.Leadership{ID: m.c.Self, Term: m.own.count}
		v.Token, v.Elected, v.Active = m.own.count, true, true
		v.LeaseEnd, v.Read = m.claimEnd, m.clock
	case m.stage == fencing && m.claimEnd != protocol.Always:
		v.Term = m.own.count
		v.Leader = protocol.Leadership{ID: m.c.Self, Term: m.own.count}
		v.LeaseEnd, v.Read = m.claimEnd, m.clock
	case r.Holder != "" && !m.lapsed && !m.mine(r) && !isTenure(r, m.ended):
		v.Leader = protocol.Leadership{ID: r.Holder, Term: r.Count}
	}
	return v
}

func (m *Machine) role() protocol.Role {
	switch m.stage {
	case down:
		return protocol.Down
	case acquiring:
		return protocol.Candidate
	case holding:
		return protocol.Leader
	case fencing:
		return protocol.Fencing
	case releasing:
		return protocol.Releasing
	case halted:
		return protocol.Halted
	}
	if m.eligible() {
		return protocol.Follower
	}
	return protocol.Observer
}
