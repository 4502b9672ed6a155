package quorum

import "github.com/electd/elect/protocol"

// learn installs a newer membership from any message, unless this participant
// leads: otherwise a hub with an old one would deadlock for ever (R2, R14).
func (m *Machine) learn(ms *protocol.Membership) {
	if ms == nil || ms == m.ballot.Membership || m.reigning() || ms.Compare(m.ballot.Membership) <= 0 || ms.Validate() != nil {
		return
	}
	m.ballot.Membership = ms
	m.touch()
	m.abandon() // a round is of one membership
	m.seat()
	if m.role != protocol.Fencing {
		m.role = m.rest()
	}
}

// seat finds the own place among the voters. A voter with another directory is
// another voter: its disk was wiped, and it has to be admitted again.
func (m *Machine) seat() { m.self = m.place(m.cfg.Self) }

// place is the place of a voter, or -1.
func (m *Machine) place(v protocol.Voter) int {
	i := m.ballot.Membership.Index(v.ID)
	if i >= 0 && m.ballot.Membership.Voters[i].Dir != v.Dir {
		return -1
	}
	return i
}

// rest is the role of one who does nothing. An observer never counts; that it
// keeps promises and votes all the same, once it learns that it is a voter, is
// because it learns it from the very message that asks (R14).
func (m *Machine) rest() protocol.Role {
	if m.self < 0 {
		return protocol.Observer
	}
	return protocol.Follower
}

// stamp makes the membership that of the leader's term (R4).
func (m *Machine) stamp(term uint64) {
	old := m.ballot.Membership
	if old.ConfigTerm == term {
		return
	}
	next := *old
	next.ConfigTerm = term
	m.ballot.Membership = &next
	m.touch()
}
