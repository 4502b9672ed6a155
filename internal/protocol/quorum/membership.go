package quorum

import "github.com/electd/elect/internal/protocol"

// learn installs a newer membership from any message, unless this participant leads. Otherwise a
// participant that is connected to all, with an old membership, would block elections for ever (R2,
// R14).
func (m *Machine) learn(ms *protocol.Membership) {
	if ms == nil || ms == m.ballot.Membership || m.inTenure() || ms.Compare(m.ballot.Membership) <= 0 || ms.Validate() != nil {
		return
	}
	if !m.cfg.mutants.Has("round-outlives-membership") || !ms.Has(m.cfg.Self) {
		m.abandon() // a round belongs to one membership
	}
	old, was := m.ballot.Membership, m.self
	m.ballot.Membership = ms
	m.configSave = m.touch()
	m.reseat(old)
	m.round.ahead = 0           // a place in the previous membership
	if was < 0 && m.self >= 0 { // a new voter has missed nothing yet
		m.electIn(m.cfg.Promise+m.stagger(), Timeout)
	}
	if m.role != protocol.Fencing {
		m.role = m.rest()
	}
}

// findSelf finds this participant's place among the voters. A voter with another directory is another
// voter: its disk was wiped, and it has to be added again.
func (m *Machine) findSelf() { m.self = m.place(m.cfg.Self) }

// place is the place of a voter, or -1.
func (m *Machine) place(v protocol.Voter) int {
	i := m.ballot.Membership.Index(v.ID)
	if i >= 0 && m.ballot.Membership.Voters[i].Dir != v.Dir {
		return -1
	}
	return i
}

// rest is the role of a participant that neither stands nor leads. An observer never counts. It
// acks and votes nevertheless once it is a voter, because it learns that from the very message that
// asks (R14).
func (m *Machine) rest() protocol.Role {
	if m.self < 0 {
		return protocol.Observer
	}
	return protocol.Follower
}

// idles reports whether this is a voter without a leader that does not stand. It may be the only
// one with the newest membership, which others learn from a candidate. A membership that never
// changed is known to all.
func (m *Machine) idles() bool {
	return m.role == protocol.Follower && !m.fit() && m.ballot.Membership.Version > 1 && m.saved >= m.configSave
}

// spread tells the others the membership, once a promise.
func (m *Machine) spread(fx *protocol.Effects) {
	m.electIn(m.cfg.Promise, Timeout)
	msg := m.message(News, m.ballot.Term)
	m.toVoters(&msg, fx)
}

// stamp gives the membership the leader's term (R4).
func (m *Machine) stamp(term uint64) {
	old := m.ballot.Membership
	if old.ConfigTerm == term || m.cfg.mutants.Has("new-term-not-stamped") {
		return
	}
	next := *old
	next.ConfigTerm = term
	m.ballot.Membership = &next
	m.configSave = m.touch()
	m.overtake()
}
