package quorum

import "github.com/electd/elect/internal/protocol"

// release tells the voters that the work has returned: what they promised to this incarnation, up
// to the last heartbeat of this term, is void (R9).
func (m *Machine) release(fx *protocol.Effects) {
	m.handOver(fx)
	m.over(m.successors(), fx)
}

// over sends the release. It is true of every term whose work has returned, whatever ended it: a
// supersession, a lapse or a jump of the clock. In these cases there is no ranking, and that of the
// last heartbeat stays.
func (m *Machine) over(ranking []protocol.NodeID, fx *protocol.Effects) {
	msg := m.message(Release, m.tenure.term)
	msg.Seq, msg.Ranking = m.seq, ranking
	m.toVoters(&msg, fx)
	for _, id := range m.ballot.Membership.Observers {
		m.send(fx, id, 0, &msg)
	}
}

// onRelease stands, in the order of the ranking, if the sender was the present leader.
func (m *Machine) onRelease(leader protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	h := protocol.Handover{Leader: leader, Incarnation: msg.Incarnation, Term: msg.Term, Seq: msg.Seq}
	if m.honour(&h, fx) {
		if len(msg.Ranking) > 0 {
			m.ranking = msg.Ranking
		}
		m.hurry(Released)
	}
}

// life is an incarnation of a voter.
type life struct {
	voter       protocol.Voter
	incarnation uint64
}

// deadLives are the latest incarnations of voters that a witness has declared dead. All earlier
// ones are dead too.
type deadLives struct {
	n   int
	all [protocol.MaxVoters]life
}

func (g *deadLives) holds(v protocol.Voter, incarnation uint64) bool {
	for i := range g.all[:g.n] {
		if l := &g.all[i]; l.voter == v {
			return incarnation <= l.incarnation
		}
	}
	return false
}

// add records the greatest dead incarnation of a voter. There is room for all voters of a
// membership; others are removed for them.
func (g *deadLives) add(v protocol.Voter, incarnation uint64, ms *protocol.Membership) {
	for i := range g.all[:g.n] {
		if l := &g.all[i]; l.voter == v {
			l.incarnation = max(l.incarnation, incarnation)
			return
		}
	}
	if g.n < len(g.all) {
		g.all[g.n] = life{v, incarnation}
		g.n++
		return
	}
	for i := range g.all {
		if !ms.Has(g.all[i].voter) {
			g.all[i] = life{v, incarnation}
			return
		}
	}
}

// onWitness drops the promises to dead incarnations (R9). Voters remember the greatest of them and
// ignore messages of a dead incarnation that are still on their way, so repetition and order do not
// matter. What was promised before this voter started stays.
func (m *Machine) onWitness(dead protocol.Voter, incarnation uint64, fx *protocol.Effects) {
	if dead == m.cfg.Self || !m.ballot.Membership.Has(dead) {
		return
	}
	m.dead.add(dead, incarnation, m.ballot.Membership)
	dropped := false
	for i := m.promises.n - 1; i >= 0; i-- {
		w := &m.promises.all[i]
		if w.holder == dead && (w.incarnation <= incarnation || m.cfg.mutants.Has("witness-any-incarnation")) {
			m.promises.remove(i)
			dropped = true
		}
	}
	if m.cfg.mutants.Has("boot-residual-waived") {
		m.bootUntil = protocol.Always
	}
	if h := &m.heard; h.leader == dead && h.incarnation <= incarnation && !m.inTenure() {
		h.at, h.contact = protocol.Always, protocol.Always
		m.hurry(Released)
	}
	if m.inTenure() {
		m.recount()
	}
	if m.role == protocol.Leader && !m.tenure.active {
		m.beat(fx) // the others are now promised to fewer, too
	}
	m.tellResidual(dropped, fx)
}

// tellResidual repeats the ack when promises were dropped: the winner may be waiting for them.
func (m *Machine) tellResidual(dropped bool, fx *protocol.Effects) {
	h := &m.heard
	if dropped && !m.working() && h.contact != protocol.Always && h.term == m.ballot.Term {
		m.ack(fx)
	}
}
