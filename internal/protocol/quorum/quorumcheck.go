package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// expire ends what has run out, before anything else is done in a step. It compares with the clock
// at each step: no timer that may be late stands between a lease and its end.
func (m *Machine) expire(fx *protocol.Effects) {
	now := m.now.Boot
	switch g := &m.tenure; {
	case !m.inTenure():
		if m.heard.contact != protocol.Always && now >= m.heard.contact.Add(m.cfg.Promise) {
			m.heard.contact = protocol.Always
		}
		if m.heard.at != protocol.Always && now >= m.heard.at.Add(m.cfg.Promise) {
			m.heard.at = protocol.Always // a jump of the clock would make it recent again
		}
	case m.role == protocol.Leader && g.active && now >= g.leaseEnd && !m.cfg.mutants.Has("lease-revives-in-term"):
		m.alone()
		m.end(Lapsed, fx) // it never revives in its term
	case len(m.ballot.Membership.Voters) > 1 && now >= g.contact().Add(m.cfg.Promise):
		m.alone()
		m.end(QuorumLost, fx) // R8
	}
}

// contact is the instant from which the absence of a quorum counts: e_q, or the win if that was
// later. The vote requests may have left long before, because their answers wait for disks. A
// winner that counted from then would lose its term at the instant of its win, or would only probe,
// and voters would go on standing. No lease counts from here.
func (g *tenure) contact() protocol.Instant { return max(g.fresh, g.won) }

// tenureEnds is when expire has to be called.
func (m *Machine) tenureEnds() protocol.Instant {
	at := protocol.Never
	if len(m.ballot.Membership.Voters) > 1 {
		at = m.tenure.contact().Add(m.cfg.Promise)
	}
	if m.role == protocol.Leader && m.tenure.active && !m.cfg.mutants.Has("lease-revives-in-term") {
		at = min(at, m.tenure.leaseEnd)
	}
	return at
}

// asks is the promise to ask for (R8). A leader that no quorum has answered for half of it only
// probes: its heartbeats would bind voters that another candidate could win.
func (m *Machine) asks() time.Duration {
	if len(m.ballot.Membership.Voters) > 1 && m.now.Boot > m.tenure.contact().Add(m.cfg.Promise/2) && !m.cfg.mutants.Has("leader-without-quorum-keeps-promising") {
		return 0
	}
	return m.cfg.Promise
}
