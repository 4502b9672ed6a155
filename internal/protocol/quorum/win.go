package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// marks is for how many heartbeats the time of sending is kept. Acks of older ones do not count.
const marks = 64

// tenure is what a leader knows in its term, and what is kept of it while the work has not
// returned.
type tenure struct {
	term  uint64 // carried by heartbeats
	token uint64 // the work's: the term of the tenure's win

	active   bool // Lead was ordered
	renewing bool // Fencing: the lease is renewed until the work has returned
	again    bool // Fencing: a new tenure follows, in term (R5)

	target   protocol.NodeID  // Fencing: the successor (R10); "" is the best one
	better   protocol.NodeID  // a voter that outranks this leader (R12); "" is none
	betterAt protocol.Instant // since when without a gap
	activeAt protocol.Instant // since when the tenure lasts

	beatAt    protocol.Instant
	leaseEnd  protocol.Instant
	covered   protocol.Instant // the part of leaseEnd that the present membership has promised (R15)
	fresh     protocol.Instant // e_q: a quorum has heard what was sent then
	heard     protocol.Instant // e_q when the membership was last changed, or Always
	won       protocol.Instant // when the term was won (R8)
	notBefore protocol.Instant

	round    uint64           // the round that was won
	sent     protocol.Instant // before its requests left
	stranded uint64           // the highest term that a voter rejected this one for
	strandAt protocol.Instant // the next try comes no sooner

	confirmSeq   uint64 // acks of a quorum from this one on answer
	confirmAsked uint64 // this many Confirm commands; 0: none is in flight

	voters [protocol.MaxVoters]follower // by place; of the own one only clean is used
	marks  [marks]mark                  // by seq modulo marks
}

// follower is what a leader knows of a voter.
type follower struct {
	sent      protocol.Instant  // the latest sending that the voter answered
	claim     protocol.Instant  // until when its promises may be claimed
	notBefore protocol.Instant  // nb: from when on it is promised to no other
	seq       uint64            // the latest that it acked
	clean     uint64            // it has voted for no other candidate in any term up to this one (R5)
	idle      bool              // it would not stand
	held      protocol.ConfigID // the membership that it has durably, by its acks in this term
}

// mark is what is kept of a heartbeat.
type mark struct {
	seq   uint64
	at    protocol.Instant
	asked time.Duration
}

// inTenure reports whether heartbeats, acks and lease are processed as a leader's.
func (m *Machine) inTenure() bool {
	return m.role == protocol.Leader || m.role == protocol.Fencing && m.tenure.renewing
}

// working reports whether work of this participant may be running.
func (m *Machine) working() bool { return m.role == protocol.Leader || m.role == protocol.Fencing }

// win begins a term as its leader (R4). The lease starts with the acks of a quorum: a vote is not a
// promise.
func (m *Machine) win(fx *protocol.Effects) {
	m.beginTenure()
	m.tenure.token = m.tenure.term
	m.role = protocol.Leader
	m.order(fx, protocol.Elected, "")
	m.beat(fx)
	m.await()
}

// beginTenure begins a tenure with the round that was won.
func (m *Machine) beginTenure() {
	r := &m.round
	token := m.tenure.token
	m.tenure = tenure{
		term: r.term, token: token, round: r.number, sent: r.sent,
		leaseEnd: protocol.Always, covered: protocol.Always, fresh: protocol.Always, heard: protocol.Always, won: m.now.Boot, notBefore: protocol.Never, strandAt: protocol.Always,
	}
	for i := range m.tenure.voters {
		f := follower{sent: protocol.Always, claim: protocol.Always, notBefore: r.notBefore[i], clean: r.term}
		if r.granted&(1<<i) != 0 {
			f.sent = r.sent
		}
		m.tenure.voters[i] = f
	}
	m.round = round{}
	m.failed, m.voted = 0, 0
	m.graceUntil = protocol.Always
	m.heard.forget()
	m.stamp(m.tenure.term)
	m.recount()
}

// lateVote uses a vote that came after the win.
func (m *Machine) lateVote(i int, msg *protocol.Message) {
	if g := &m.tenure; m.inTenure() && (msg.Round == g.round && msg.Term == g.term || m.cfg.mutants.Has("late-vote-of-an-older-round")) {
		f := &g.voters[i]
		f.sent = max(f.sent, g.sent)
		f.notBefore = min(f.notBefore, m.now.Boot.Add(msg.Residual))
		m.recount()
	}
}

// order appends an order to the work.
func (m *Machine) order(fx *protocol.Effects, kind protocol.OrderKind, reason protocol.Reason) {
	fx.Orders = append(fx.Orders, protocol.Order{Kind: kind, Token: m.tenure.token, Reason: reason})
}
