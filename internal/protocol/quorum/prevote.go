package quorum

import (
	"math/bits"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// roundKind is the question of a round.
type roundKind uint8

const (
	idle roundKind = iota
	asking
	voting
)

// round is an election's question and the answers to it. A leader whose followers are in a higher
// term holds rounds too (R5).
type round struct {
	kind    roundKind
	number  uint64
	term    uint64
	sent    protocol.Instant // before the questions left
	ends    protocol.Instant
	granted uint16 // by place, a bit each
	refused uint16
	// By place: when a refusal may become a grant, and from when on a grantor is promised to no
	// other.
	free, notBefore [protocol.MaxVoters]protocol.Instant

	// Of the voters that refused because they are ahead (R13), the furthest: its place, counted
	// from 1, and its position.
	ahead    uint8
	position string
}

// own reports whether the candidate's own vote counts already.
func (r *round) own(self int) bool { return r.granted&(1<<self) != 0 }

// mayStand reports whether this participant may begin a round on its own.
func (m *Machine) mayStand() bool {
	return m.role == protocol.Follower && m.fit() && m.saved >= m.bootSave
}

// fit reports whether this participant would stand.
func (m *Machine) fit() bool {
	return m.candidate && !m.sick && !m.badDisk && m.now.Boot >= m.asideUntil && !m.unplaced() && (!m.paused || m.cfg.mutants.Has("paused-stands")) &&
		(m.priority != protocol.NeverLead || m.cfg.mutants.Has("priority-never-ignored"))
}

// stand begins a round, unless the voter itself would refuse.
func (m *Machine) stand(fx *protocol.Effects) {
	if d := m.sticky(m.cfg.Self); d > 0 {
		m.electIn(d+m.stagger(), Timeout)
		return
	}
	if m.ask(m.cause, fx) {
		m.heard.contact = protocol.Always
	}
}

// ask asks all voters whether they would vote for this one, in a term above every term that was
// seen (R2). It reports whether there is such a term.
func (m *Machine) ask(cause protocol.Reason, fx *protocol.Effects) bool {
	term := m.nextTerm(0)
	if term > MaxTerm {
		m.electIn(m.cfg.Promise, Timeout)
		return false
	}
	if m.role == protocol.Follower {
		m.role = protocol.PreCandidate
	}
	m.cause = cause
	m.begin(asking, term)
	m.round.granted |= 1 << m.self
	if i, ms := m.place(m.heard.leader), m.ballot.Membership; i >= 0 && m.seesDeath() && len(ms.Voters) > ms.Quorum() {
		// The dead leader will not answer, so the round need not wait for it: while other voters
		// have not yet seen its death, the next try comes soon. An answer of it counts all the
		// same.
		m.round.refused |= 1 << i
	}
	m.question(PreVote, nil, fx)
	m.tally(fx)
	return true
}

// nextTerm is above every term that was seen. This includes the term of the membership: it was won,
// although this voter may know of it from the membership only.
func (m *Machine) nextTerm(over uint64) uint64 {
	if m.cfg.mutants.Has("stands-at-config-term") {
		return max(m.ballot.Term, m.maxSeen) + 1
	}
	return max(m.ballot.Term, m.maxSeen, m.ballot.Membership.ConfigTerm, over) + 1
}

func (m *Machine) begin(kind roundKind, term uint64) {
	now := m.now.Boot
	m.rounds++
	m.round = round{kind: kind, number: m.rounds, term: term, sent: now, ends: now.Add(m.roundTime(kind))}
	for i := range m.round.notBefore {
		m.round.free[i], m.round.notBefore[i] = protocol.Never, protocol.Never
	}
}

func (m *Machine) question(kind protocol.MessageType, h *protocol.Handover, fx *protocol.Effects) {
	msg := m.message(kind, m.round.term)
	msg.Round, msg.Reason, msg.Handover = m.round.number, m.cause, h
	m.toVoters(&msg, fx)
}

// onPreVote answers and changes nothing, not even a timer (R2). A live promise is no reason to
// refuse: the vote reports it.
func (m *Machine) onPreVote(candidate protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	reason, wait := m.objection(candidate, msg)
	switch {
	case reason != "":
	case m.now.Boot < m.quietUntil:
		reason, wait = Restarted, left(m.quietUntil, m.now.Boot)
	case msg.Term <= m.ballot.Term:
		reason = OldTerm
	}
	reply := m.message(PreVoteReply, m.ballot.Term)
	m.reply(candidate, msg, &reply, reason, wait, 0, fx)
}

// objection returns the reason to refuse a candidate, and for how long it holds.
func (m *Machine) objection(candidate protocol.Voter, msg *protocol.Message) (protocol.Reason, time.Duration) {
	switch {
	case m.inTenure():
		// A leader is sticky to itself while its claim is live or its quorum fresh.
		return Working, m.cfg.Promise
	case m.working() && !m.cfg.mutants.Has("vote-while-work-runs"):
		return Working, 0 // R6
	case m.self < 0 || m.place(candidate) < 0:
		return NotVoter, 0
	case msg.Membership == nil || msg.Membership.Compare(m.ballot.Membership) < 0:
		return OldConfig, 0
	case msg.Term <= msg.Membership.ConfigTerm && !m.cfg.mutants.Has("stands-at-config-term"):
		return OldTerm, 0 // that term has been won: its winner stamped the membership
	case m.badDisk:
		return BadDisk, 0
	case msg.Priority == protocol.NeverLead && !m.cfg.mutants.Has("priority-never-ignored"):
		return NeverLeads, 0
	}
	if d := m.sticky(candidate); d > 0 {
		return Sticky, d
	}
	if d, behind := m.behind(msg.Position); behind {
		return BehindPosition, d
	}
	return "", 0
}

// reply completes and sends an answer to a pre-vote or a vote.
func (m *Machine) reply(to protocol.Voter, msg, reply *protocol.Message, reason protocol.Reason, wait time.Duration, after uint64, fx *protocol.Effects) {
	reply.Echo, reply.Round = msg.Incarnation, msg.Round
	reply.Granted, reply.Reason = reason == "", reason
	if !reply.Granted {
		reply.RetryAfter = wait
		switch {
		case m.inTenure():
			reply.Leader = protocol.Leadership{ID: m.cfg.Self.ID, Incarnation: m.ballot.Incarnation, Term: m.tenure.term}
		case m.heard.contact != protocol.Always:
			reply.Leader = m.heard.leadership()
		}
	}
	m.send(fx, to.ID, after, reply)
}

// onReply counts an answer, once for each voter. Answers to an older incarnation, to another round
// or of another kind are dropped.
func (m *Machine) onReply(voter protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	i := m.place(voter)
	if i < 0 || msg.Echo != m.ballot.Incarnation {
		return
	}
	m.maxSeen = max(m.maxSeen, msg.Term)
	if msg.Type == VoteReply && msg.Granted && m.role == protocol.Leader {
		// The round does not matter: this voter has voted for no other candidate between the two
		// terms (R5).
		if f := &m.tenure.voters[i]; msg.PrevTerm <= f.clean {
			f.clean = max(f.clean, msg.Term)
		}
	}
	r := &m.round
	kind := asking
	if msg.Type == VoteReply {
		kind = voting
	}
	if r.kind != kind || r.number != msg.Round {
		if kind == voting && msg.Granted {
			m.lateVote(i, msg)
		}
		return
	}
	now := m.now.Boot
	switch {
	case !msg.Granted:
		r.refused |= 1 << i
		r.free[i] = now.Add(msg.RetryAfter)
		if msg.Reason == BehindPosition {
			m.heldBack(i, msg.Position)
		}
		if m.cfg.mutants.Has("residual-before-adoption") {
			r.notBefore[i] = now
		}
	case kind == asking:
		r.granted |= 1 << i
	case msg.Term == r.term:
		r.granted |= 1 << i
		r.notBefore[i] = min(r.notBefore[i], now.Add(msg.Residual))
	}
	m.tally(fx)
}

// tally ends the round as soon as its outcome is known.
func (m *Machine) tally(fx *protocol.Effects) {
	r := &m.round
	n, quorum := len(m.ballot.Membership.Voters), m.ballot.Membership.Quorum()
	if r.kind == voting && (m.saved >= m.termSave || m.cfg.mutants.Has("own-vote-before-save")) {
		r.granted |= 1 << m.self // the own vote counts when it is durable (R4)
	}
	yes := bits.OnesCount16(r.granted)
	switch {
	case r.kind == asking && yes >= quorum:
		m.vote(nil, fx)
	case r.kind == voting && m.role == protocol.Leader:
		m.tallyStranded(fx)
	case r.kind == voting && yes >= quorum && r.own(m.self):
		m.win(fx)
	case n-bits.OnesCount16(r.refused&^r.granted) < quorum:
		m.endRound(fx)
	}
}

// endRound gives up a round.
func (m *Machine) endRound(fx *protocol.Effects) {
	if m.role == protocol.Leader {
		m.endStranded(fx)
		return
	}
	m.catchUp(fx)
	if m.round.kind == voting {
		m.voted = min(m.voted+1, mostDoubled)
	}
	m.retry()
	m.abandon()
}

// abandon drops the round, if there is one.
func (m *Machine) abandon() {
	if m.role == protocol.PreCandidate || m.role == protocol.Candidate {
		m.role = m.rest()
	}
	m.round = round{}
}

// freeAt is when a quorum may be free to grant, by its answers; Never if too few voters answered.
func (m *Machine) freeAt() protocol.Instant {
	n := len(m.ballot.Membership.Voters)
	var all [protocol.MaxVoters]protocol.Instant
	for i := range n {
		all[i] = m.round.free[i]
		if m.round.granted&(1<<i) != 0 || i == m.self {
			all[i] = m.now.Boot
		}
	}
	return kthLeast(&all, n, m.ballot.Membership.Quorum())
}
