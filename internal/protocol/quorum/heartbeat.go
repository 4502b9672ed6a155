package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// beat sends a heartbeat to all voters and observers.
func (m *Machine) beat(fx *protocol.Effects) {
	g := &m.tenure
	now := m.now.Boot
	m.seq++
	g.beatAt = now.Add(m.cfg.Heartbeat)
	asked := m.asks()
	g.marks[m.seq%marks] = mark{m.seq, now, asked}

	msg := m.message(Heartbeat, g.term)
	msg.Seq, msg.Promise, msg.Metadata = m.seq, asked, m.metadata
	msg.Ranking = m.successors()
	for i := range m.ballot.Membership.Voters {
		if i != m.self {
			msg.Unhealthy = m.tells(i)
			m.send(fx, m.ballot.Membership.Voters[i].ID, 0, &msg)
		}
	}
	msg.Unhealthy = false
	msg.Promise = 0 // observers never count (R14)
	for _, id := range m.ballot.Membership.Observers {
		m.send(fx, id, 0, &msg)
	}
}

// onHeartbeat follows a leader.
func (m *Machine) onHeartbeat(leader protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	if m.place(leader) < 0 || msg.Term == 0 {
		return
	}
	if m.working() {
		if !m.superseded(leader, msg, fx) {
			return
		}
	}
	if msg.Term < m.ballot.Term {
		m.reject(leader, msg, fx)
		return
	}
	if msg.Term > m.ballot.Term {
		m.adopt(msg.Term)
	}
	if m.role == protocol.Candidate || m.role == protocol.PreCandidate && msg.Promise > 0 {
		m.abandon()
	}
	if m.hear(leader, msg) && msg.Promise > 0 {
		// Only this makes the voter sticky and restarts its timer (R8).
		m.promise(leader, msg, msg.Promise)
		m.heard.at, m.heard.closed = m.now.Boot, false
		m.failed, m.voted, m.graceUntil = 0, 0, protocol.Always
		if leader.ID == m.yielded {
			m.yielded, m.yields = "", 0
		}
		m.ranking = msg.Ranking
		if msg.Unhealthy && !m.cfg.mutants.Has("apart-stands") {
			m.aside()
		}
		m.electIn(m.cfg.Promise+m.stagger(), Timeout)
	}
	if m.self >= 0 || msg.Promise > 0 { // an observer is asked for nothing (R14)
		m.ack(fx)
	}
}

// hear records a heartbeat and reports whether it is new: its number is above all that were seen in
// the leader's incarnation.
func (m *Machine) hear(leader protocol.Voter, msg *protocol.Message) bool {
	h := &m.heard
	if !h.is(leader, msg.Incarnation) {
		h.forget()
		h.leader, h.incarnation = leader, msg.Incarnation
	}
	h.term = max(h.term, msg.Term)
	h.contact = m.now.Boot
	if msg.Seq <= h.seq {
		return m.cfg.mutants.Has("old-heartbeat-extends")
	}
	h.seq, h.asked = msg.Seq, msg.Promise
	return true
}

// ack answers the newest heartbeat that was heard. It repeats no more than what is left of the
// promise, so that an answer to an old heartbeat claims nothing that was not promised (R7).
func (m *Machine) ack(fx *protocol.Effects) {
	h := &m.heard
	msg := m.message(HeartbeatAck, m.ballot.Term)
	msg.Granted, msg.Echo, msg.Seq = true, h.incarnation, h.seq
	if w := m.promises.to(h.leader, h.incarnation); w != nil {
		msg.Promise = min(h.asked, left(w.until, m.now.Boot))
	}
	msg.Residual = m.residual(h.leader, h.incarnation)
	msg.Unhealthy = !m.fit()
	msg.Held = m.held
	if !m.cfg.Unclocked {
		msg.Clock, msg.Jumps = m.now.Boot.Sub(m.clock.Boot), m.jumps
	}
	if m.cfg.mutants.Has("held-before-saved") {
		msg.Held = m.ballot.Membership.ID()
	}
	m.send(fx, h.leader.ID, m.dependsOn(msg.Promise), &msg)
}

// dependsOn returns the save that an ack waits for: that of the term and, with a promise, that of
// its bound (R3). A term that was learnt from a heartbeat is saved before the ack. No other save
// delays heartbeats (R16).
func (m *Machine) dependsOn(promise time.Duration) uint64 {
	if promise > 0 {
		return max(m.termSave, m.promiseSave)
	}
	return m.termSave
}

// reject tells a leader that this voter is in a higher term.
func (m *Machine) reject(leader protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	reply := m.message(HeartbeatAck, m.ballot.Term)
	reply.Echo, reply.Seq, reply.Reason = msg.Incarnation, msg.Seq, OldTerm
	m.send(fx, leader.ID, 0, &reply)
}
