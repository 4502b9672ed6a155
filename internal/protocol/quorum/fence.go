package quorum

import "github.com/electd/elect/internal/protocol"

// end ends the term at once: the work is told first, nothing is renewed any more, and until the
// work has returned this voter votes for no other candidate and follows no other leader (R6).
func (m *Machine) end(reason protocol.Reason, fx *protocol.Effects) {
	if !m.inTenure() {
		return
	}
	if m.role == protocol.Leader {
		m.order(fx, protocol.Stop, reason)
	}
	m.role = protocol.Fencing
	m.tenure = tenure{term: m.tenure.term, token: m.tenure.token}
	m.round = round{}
}

// giveUp ends the term in good order: the lease is renewed until the work has returned, and then
// released (R9). A candidate stops standing.
func (m *Machine) giveUp(reason protocol.Reason, fx *protocol.Effects) {
	m.abandon()
	switch m.role {
	case protocol.Leader:
		m.order(fx, protocol.Stop, reason)
		m.role = protocol.Fencing
		m.tenure.active, m.tenure.renewing = false, true
		if m.cfg.mutants.Has("no-renewal-while-fencing") {
			m.tenure.renewing = false
		}
		if m.cfg.mutants.Has("release-before-the-work-returned") {
			m.release(fx)
			m.tenure.renewing = false
		}
	case protocol.Fencing:
		m.tenure.again = false
	}
}

// superseded answers a heartbeat of another leader while work of this voter may run (R6). It
// reports whether the heartbeat may be answered after all.
func (m *Machine) superseded(leader protocol.Voter, msg *protocol.Message, fx *protocol.Effects) bool {
	if msg.Term <= m.tenure.term {
		if msg.Term < m.tenure.term {
			m.reject(leader, msg, fx)
		}
		return false
	}
	if m.cfg.mutants.Has("fence-after-follow") && m.role == protocol.Leader {
		if msg.Term >= m.ballot.Term {
			m.ballot.Term, m.ballot.VotedFor = msg.Term, protocol.Voter{}
			m.termSave = m.touch()
			m.hear(leader, msg)
			m.promise(leader, msg, msg.Promise)
			m.ack(fx)
		}
		m.end(Superseded, fx)
		return false
	}
	m.end(Superseded, fx)
	if msg.Term < m.ballot.Term {
		return true // to be rejected
	}
	if msg.Term > m.ballot.Term {
		m.adopt(msg.Term)
	}
	if m.cfg.mutants.Has("vote-while-work-runs") {
		return true
	}
	m.hear(leader, msg)
	return false
}

// joined handles the return of a term's work.
func (m *Machine) joined(token uint64, fx *protocol.Effects) {
	g := &m.tenure
	if m.role != protocol.Fencing || token != g.token {
		return
	}
	switch {
	case g.renewing && g.again:
		m.role, g.token, g.renewing, g.again = protocol.Leader, g.term, false, false
		m.order(fx, protocol.Elected, "")
		if m.asked > m.proven {
			m.beat(fx)
			m.await()
		}
		return
	case g.renewing:
		m.release(fx)
		// A leader that gives up lets all others try first.
		m.electIn(m.cfg.Promise+m.cfg.Slot*protocol.MaxVoters+m.jitter(), Timeout)
	case len(m.ballot.Membership.Voters) == 1:
		m.electIn(0, Timeout)
	default:
		m.over(nil, fx)
		m.electIn(m.cfg.Promise+m.stagger(), Timeout)
	}
	m.role = m.rest()
	m.tenure = tenure{}
}
