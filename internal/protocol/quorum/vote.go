package quorum

import "github.com/electd/elect/internal/protocol"

// adopt enters a higher term without a vote.
func (m *Machine) adopt(term uint64) {
	m.ballot.Term, m.ballot.VotedFor = term, protocol.Voter{}
	m.votePrev = term
	m.termSave = m.touch()
	m.abandon()
}

// vote stands for election: the candidate votes for itself, in a new term. A named successor shows
// the handover (R10). The requests do not wait for the save of the vote, only its counting does: an
// incarnation that ends before has won nothing, because answers name the incarnation that they are
// for.
func (m *Machine) vote(h *protocol.Handover, fx *protocol.Effects) {
	term := m.round.term
	if term <= m.ballot.Term {
		m.endRound(fx)
		return
	}
	m.votePrev = m.ballot.Term
	m.ballot.Term, m.ballot.VotedFor = term, m.cfg.Self
	m.termSave = m.touch()
	if m.role == protocol.Leader {
		if f := &m.tenure.voters[m.self]; m.votePrev <= f.clean {
			f.clean = term
		}
	} else {
		m.role = protocol.Candidate
	}
	m.begin(voting, term)
	m.question(Vote, h, fx)
	m.tally(fx)
}

// onVote votes once a term, and answers when the vote is durable (R3). A voter that refuses does
// not adopt the term. A save in flight counts as done for what it forbids (a second vote) and as
// not done for what it allows (the answer).
func (m *Machine) onVote(candidate protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	if msg.Handover != nil {
		m.honour(msg.Handover, fx) // the release may be lost or late
	}
	reason, wait := m.objection(candidate, msg)
	b := &m.ballot
	switch {
	case reason != "":
	case msg.Term < b.Term || msg.Term == 0:
		reason = OldTerm
	case msg.Term == b.Term && b.VotedFor != (protocol.Voter{}) && b.VotedFor != candidate && !m.cfg.mutants.Has("vote-twice-in-a-term"):
		reason = Voted
	}
	after := uint64(0)
	again := msg.Term == b.Term && b.VotedFor == candidate
	if reason == "" {
		if !again {
			m.abandon()
			if b.VotedFor != candidate {
				m.votePrev = b.Term // two votes for one candidate count as one (R5)
			}
			b.Term, b.VotedFor = msg.Term, candidate
			m.termSave, m.votedAt = m.touch(), m.now.Boot
			if m.heard.leader != candidate {
				m.heard.contact = protocol.Always
			}
			// The candidate gets the time that it needs to win, and more of it with every election
			// without a leader.
			m.failed, m.voted = min(m.failed+1, mostFailures), min(m.voted+1, mostDoubled)
			m.electAt = max(m.electAt, m.now.Boot.Add(m.doubled(m.voted)+m.stagger()))
		}
		after = m.termSave
		if m.cfg.mutants.Has("vote-not-durable") || again && m.cfg.mutants.Has("save-in-flight-counts-as-done") {
			after = 0
		}
	}
	reply := m.message(VoteReply, b.Term)
	if reason == "" {
		reply.PrevTerm = m.votePrev
		reply.Residual = m.residual(candidate, msg.Incarnation)
	} else if m.cfg.mutants.Has("refusal-adopts-term") && msg.Term > b.Term && !m.working() {
		m.adopt(msg.Term)
	}
	m.reply(candidate, msg, &reply, reason, wait, after, fx)
}
