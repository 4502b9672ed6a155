package raft

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// wait draws the time of the next election: uniform from ElectionTimeout to twice that.
func (m *Machine) wait() { m.electAt = m.now.Add(m.timeout()) }

func (m *Machine) timeout() time.Duration {
	e := m.cfg.ElectionTimeout
	return e + time.Duration(m.rand%uint64(e))
}

// fit reports whether it would stand. A participant whose work has not returned would not: it must
// not be elected again before.
func (m *Machine) fit() bool {
	return m.candidate && !m.sick && !m.badDisk && m.role != protocol.Fencing && !m.unplaced()
}

// expire handles the end of a time without a leader, or without an outcome.
func (m *Machine) expire(fx *protocol.Effects) {
	m.leader, m.heardAt = -1, protocol.Always
	m.wait()
	if !m.fit() || m.ballot.Term >= protocol.MaxCount {
		m.abandon()
		return
	}
	if m.cfg.PreVote {
		m.ask(fx)
	} else {
		m.stand(fx)
	}
}

// abandon ends an election.
func (m *Machine) abandon() {
	if m.role == protocol.PreCandidate || m.role == protocol.Candidate {
		m.role = protocol.Follower
		m.marks.Clear()
	}
}

// ask asks all participants whether they would vote for this one in the next term.
func (m *Machine) ask(fx *protocol.Effects) {
	m.role = protocol.PreCandidate
	m.round++
	m.marks.Clear()
	m.marks.Add(m.self)
	msg := m.message(PreVote)
	msg.Term, msg.Round, msg.Position = m.ballot.Term+1, m.round, m.position
	m.toAll(fx, &msg)
	m.tally(fx)
}

// stand enters the next term with its own vote, and requests the others' votes. The requests leave
// when the vote is durable, so a later incarnation does not ask in the same term.
func (m *Machine) stand(fx *protocol.Effects) {
	m.role = protocol.Candidate
	m.ballot.Term, m.ballot.VotedFor = m.ballot.Term+1, m.cfg.Self
	m.termSave = m.touch()
	m.marks.Clear()
	m.marks.Add(m.self)
	msg := m.message(Vote)
	msg.Position = m.position
	m.toAll(fx, &msg)
	m.tally(fx)
}

// tally ends the election as soon as a majority has granted. Its own vote counts once it is
// durable; the requests wait for the same save.
func (m *Machine) tally(fx *protocol.Effects) {
	if 2*m.marks.Len() <= len(m.cfg.Members) {
		return
	}
	switch {
	case m.role == protocol.PreCandidate:
		m.wait()
		m.stand(fx)
	case m.role == protocol.Candidate && m.saved >= m.termSave:
		m.lead(fx)
	}
}

// hears reports whether it supports a leader: it leads, or has heard one within the least election
// timeout.
func (m *Machine) hears() bool {
	return m.role == protocol.Leader || m.heardAt != protocol.Always && m.now < m.heardAt.Add(m.cfg.ElectionTimeout)
}

// onPreVote answers, and changes neither its term nor a timer.
func (m *Machine) onPreVote(from int, msg *protocol.Message, fx *protocol.Effects) {
	reason := m.behind(msg.Position)
	switch {
	case m.hears():
		reason = LeaderHeard
	case msg.Term <= m.ballot.Term:
		reason = OldTerm // the candidate enters this term, which the answer has
	}
	reply := m.message(PreVoteReply)
	reply.Echo, reply.Round = msg.Incarnation, msg.Round
	reply.Granted, reply.Reason = reason == "", reason
	m.send(fx, from, &reply)
}

func (m *Machine) onPreVoteReply(from int, msg *protocol.Message, fx *protocol.Effects) {
	if m.role == protocol.PreCandidate && msg.Granted && msg.Echo == m.ballot.Incarnation && msg.Round == m.round {
		m.marks.Add(from)
		m.tally(fx)
	}
}

// onVote grants one vote a term; the answer leaves once the vote is durable.
func (m *Machine) onVote(from int, msg *protocol.Message, fx *protocol.Effects) {
	b, candidate := &m.ballot, m.cfg.Members[from]
	reason := m.behind(msg.Position)
	switch {
	case msg.Term < b.Term:
		reason = OldTerm
	case b.VotedFor != "" && b.VotedFor != candidate:
		reason = Voted
	}
	if reason == "" {
		if b.VotedFor == "" {
			b.VotedFor = candidate
			m.termSave = m.touch()
		}
		m.wait()
	}
	reply := m.message(VoteReply)
	reply.Granted, reply.Reason = reason == "", reason
	m.send(fx, from, &reply)
}

func (m *Machine) onVoteReply(from int, msg *protocol.Message, fx *protocol.Effects) {
	if m.role == protocol.Candidate && msg.Granted && msg.Term == m.ballot.Term {
		m.marks.Add(from)
		m.tally(fx)
	}
}
