package quorum

import (
	"math/bits"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// A voter in a higher term rejects its leader for ever: it has voted in an election that somebody
// may or may not have won. The leader finds out by holding an election of its own above that term,
// while it goes on leading (R5).

// rejected handles a rejection.
func (m *Machine) rejected(term uint64, fx *protocol.Effects) {
	g := &m.tenure
	if term <= g.term || m.role != protocol.Leader {
		return
	}
	m.maxSeen = max(m.maxSeen, term)
	g.stranded = max(g.stranded, term)
	// Without a live lease the leader may be the late winner of a lower term. Then the higher term
	// has a leader, or will get one, and must not be raised.
	if m.round.kind == idle && m.now.Boot < g.leaseEnd && m.now.Boot >= g.strandAt && m.fit() {
		m.ask(Behind, fx)
	}
}

// tallyStranded decides an election that was held while leading. If no quorum has voted for another
// candidate in between, nobody can have won, and only the ballot moves. It waits for the answers
// that could still show this.
func (m *Machine) tallyStranded(fx *protocol.Effects) {
	r := &m.round
	n, quorum := len(m.ballot.Membership.Voters), m.ballot.Membership.Quorum()
	clean, open := 0, 0
	for i := range n {
		switch bit := uint16(1) << i; {
		case r.granted&bit != 0 && (m.tenure.voters[i].clean == r.term || m.cfg.mutants.Has("re-anchor-always")):
			clean++
		case (r.granted|r.refused)&bit == 0:
			open++
		}
	}
	switch {
	case !r.own(m.self): // its save is still awaited
	case clean >= quorum:
		m.reanchor(fx)
	case clean+open < quorum:
		m.endStranded(fx)
	}
}

// endStranded ends such an election without that proof.
func (m *Machine) endStranded(fx *protocol.Effects) {
	if m.round.kind == voting && m.round.own(m.self) && bits.OnesCount16(m.round.granted) >= m.ballot.Membership.Quorum() {
		m.overtaken(fx)
		return
	}
	m.failed = min(m.failed+1, mostFailures)
	m.tenure.strandAt = m.now.Boot.Add(time.Duration(m.failed)*m.cfg.Slot + m.jitter())
	m.abandon()
}

// reanchor moves the ballot to the term that was won. Work, token and lease go on: the promises are
// to this incarnation, whatever its term.
func (m *Machine) reanchor(fx *protocol.Effects) {
	r, g := &m.round, &m.tenure
	g.term, g.round, g.sent, g.stranded = r.term, r.number, r.sent, 0
	for i := range g.voters {
		f := &g.voters[i]
		if r.granted&(1<<i) != 0 {
			f.sent = max(f.sent, r.sent)
		}
		f.notBefore = min(f.notBefore, r.notBefore[i])
		f.clean = r.term
	}
	m.round, m.failed = round{}, 0
	m.stamp(g.term)
	m.recount()
	m.beat(fx)
}

// overtaken ends the tenure, because another participant may have led in between, and begins the
// next one, with a token of its own, once the work has returned.
func (m *Machine) overtaken(fx *protocol.Effects) {
	m.order(fx, protocol.Stop, Overtaken)
	m.beginTenure()
	m.role, m.tenure.renewing, m.tenure.again = protocol.Fencing, true, true
	m.beat(fx)
}
