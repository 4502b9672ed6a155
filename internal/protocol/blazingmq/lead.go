package blazingmq

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// beat sends a heartbeat to all others. Other messages of a leader would draw their sequence
// numbers from the same counter.
func (m *Machine) beat(fx *protocol.Effects) {
	m.beatAt = m.now.Add(m.cfg.Heartbeat)
	msg := m.heartbeat()
	m.toAll(&msg, fx)
}

func (m *Machine) heartbeat() protocol.Message {
	m.lsn.Counter++
	msg := m.message(LeaderHeartbeat, m.term)
	msg.Seq = m.lsn.Counter
	return msg
}

// onHeartbeat follows a leader of this term or a higher one, and tells a leader of a lower term
// that its term is over.
func (m *Machine) onHeartbeat(from int, msg *protocol.Message, fx *protocol.Effects) {
	if m.role == protocol.Leader {
		switch {
		case msg.Term > m.term:
			m.cede(Superseded, msg.Term, fx)
			m.follow(from, msg)
		case msg.Term < m.term:
			mine := m.heartbeat()
			m.send(fx, from, &mine)
		}
		return
	}
	switch {
	case msg.Term < m.term:
		m.answer(from, HeartbeatResponse, false, msg, fx)
	case msg.Term == m.term && (m.leader == from || m.tentative == from):
		m.follow(from, msg)
	case msg.Term == m.term && m.follows():
		// Another leader of the same term: the one that was heard first is kept.
	default:
		// Its support was not asked for; it tells the leader that it follows.
		m.raise(msg.Term)
		m.follow(from, msg)
		m.answer(from, ElectionResponse, true, msg, fx)
	}
}

func (m *Machine) follow(leader int, msg *protocol.Message) {
	m.role = protocol.Follower
	m.leader, m.tentative, m.life, m.heard = leader, noMember, msg.Incarnation, m.now
	if lsn := (LSN{msg.Term, msg.Seq}); lsn.Compare(m.lsn) > 0 {
		m.lsn = lsn
	}
	m.record()
}

// onHeartbeatResponse gives leadership up: another participant knows a higher term.
func (m *Machine) onHeartbeatResponse(msg *protocol.Message, fx *protocol.Effects) {
	if m.role == protocol.Leader && msg.Term > m.term && msg.Echo == m.ballot.Incarnation {
		m.cede(Superseded, msg.Term, fx)
	}
}

// onCession loses the leader at once.
func (m *Machine) onCession(from int, msg *protocol.Message, fx *protocol.Effects) {
	switch {
	case m.role == protocol.Leader && msg.Term <= m.term:
		mine := m.heartbeat()
		m.send(fx, from, &mine)
	case m.role == protocol.Follower && msg.Term >= m.term && (m.leader == from || m.tentative == from):
		m.leader, m.tentative = noMember, noMember
		m.wait()
	}
}

// onClosed is NODE_UNAVAILABLE in the code: the leader, or a supporter, is lost.
func (m *Machine) onClosed(from protocol.NodeID, incarnation uint64, fx *protocol.Effects) {
	i := members.Place(m.cfg.Members, from)
	if i < 0 || i == m.self {
		return
	}
	switch m.role {
	case protocol.Follower:
		if (m.leader == i || m.tentative == i) && incarnation >= m.life {
			m.leader, m.tentative = noMember, noMember
			m.wait()
		}
	case protocol.PreCandidate:
		m.yes.Remove(i)
		m.heeds.Remove(i)
	case protocol.Candidate:
		m.yes.Remove(i)
	case protocol.Leader:
		if m.yes.Remove(i); m.yes.Len() < m.quorum() {
			m.cede(LostQuorum, m.term, fx)
		}
	}
}

// cede gives leadership up and tells all others.
func (m *Machine) cede(reason protocol.Reason, term uint64, fx *protocol.Effects) {
	m.stop(reason, fx)
	m.raise(term)
	msg := m.message(LeadershipCession, m.term)
	m.toAll(&msg, fx)
}

// stop makes the leader a follower, which does not stand before its work has returned.
func (m *Machine) stop(reason protocol.Reason, fx *protocol.Effects) {
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.token, Reason: reason})
	m.role, m.leader, m.tentative = protocol.Follower, noMember, noMember
	m.fencing = true
	m.wait()
}
