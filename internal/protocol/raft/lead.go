package raft

import "github.com/electd/elect/internal/protocol"

// enter enters a higher term without a vote. A leader or a candidate steps down; a follower's timer
// runs on.
func (m *Machine) enter(term uint64, fx *protocol.Effects) {
	m.ballot.Term, m.ballot.VotedFor = term, ""
	m.termSave = m.touch()
	m.stop(HigherTerm, fx)
	m.abandon()
	m.leader, m.heardAt = -1, protocol.Always
}

// lead begins the term.
func (m *Machine) lead(fx *protocol.Effects) {
	m.role, m.token = protocol.Leader, m.ballot.Term
	m.leader, m.heardAt = -1, protocol.Always
	m.marks.Clear()
	m.checkAt = m.now.Add(m.cfg.ElectionTimeout)
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.token})
	m.beat(fx)
}

// stop ends a leader's term. Until its work has returned it acts as a follower, but does not stand.
func (m *Machine) stop(reason protocol.Reason, fx *protocol.Effects) {
	if m.role != protocol.Leader {
		return
	}
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.token, Reason: reason})
	m.role = protocol.Fencing
	m.marks.Clear()
	m.wait()
}

// joined records that the work of a term has returned.
func (m *Machine) joined(token uint64) {
	if m.role == protocol.Fencing && token == m.token {
		m.role = protocol.Follower
	}
}

// beat sends a heartbeat to all others.
func (m *Machine) beat(fx *protocol.Effects) {
	m.beatAt = m.now.Add(m.cfg.Heartbeat)
	msg := m.message(Heartbeat)
	m.toAll(fx, &msg)
}

// check steps down unless a majority, this one included, has answered since the
// last check. So a leader notices the loss of its majority within two election
// timeouts.
func (m *Machine) check(fx *protocol.Effects) {
	m.checkAt = m.now.Add(m.cfg.ElectionTimeout)
	m.marks.Add(m.self)
	if 2*m.marks.Len() <= len(m.cfg.Members) {
		m.stop(QuorumLost, fx)
		return
	}
	m.marks.Clear()
}

// onHeartbeat follows the leader of the present term. A leader of a lower term learns the higher
// one from the answer: so a participant in a higher term that cannot win comes to agree with it
// again.
func (m *Machine) onHeartbeat(from int, msg *protocol.Message, fx *protocol.Effects) {
	reply := m.message(HeartbeatReply)
	if msg.Term == m.ballot.Term && m.role != protocol.Leader {
		m.abandon()
		m.leader, m.heardAt = from, m.now
		m.wait()
		reply.Granted = true
	}
	m.send(fx, from, &reply)
}

func (m *Machine) onHeartbeatReply(from int, msg *protocol.Message) {
	if m.role == protocol.Leader && m.cfg.CheckQuorum && msg.Term == m.ballot.Term {
		m.marks.Add(from)
	}
}
