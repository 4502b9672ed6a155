package quorum

import "github.com/electd/elect/internal/protocol"

// A transfer (R10) is a release with a named successor. The work is told to stop, the lease is
// renewed until it has returned, and only then is the token made: the leader's statement that all
// it did is over. The token contains the release: the successor need not ask whether it could win,
// and shows the token to the voters that the release itself has not reached yet.
//
// Every release hands over in this way if a successor answers and would stand. If that one is dead
// or cannot win, the next in the ranking stands a slot later. The former leader stands after all
// others.

// transfer gives up leadership in favour of target, or of the best successor.
func (m *Machine) transfer(target protocol.NodeID, reason protocol.Reason, fx *protocol.Effects) {
	if !m.inTenure() || target == m.cfg.Self.ID || target != "" && m.ballot.Membership.Index(target) < 0 {
		return
	}
	leads := m.role == protocol.Leader
	m.tenure.target = target
	m.giveUp(reason, fx)
	if leads && m.cfg.mutants.Has("handover-before-the-work-returned") {
		m.release(fx)
		m.tenure.renewing = false
	}
}

// successor is the voter to which a leader hands over: the named one, or else the first in the
// ranking, if it answers and would stand.
func (m *Machine) successor() protocol.NodeID {
	if m.tenure.target != "" {
		return m.tenure.target
	}
	if ranking := m.successors(); len(ranking) > 0 && m.good(m.ballot.Membership.Index(ranking[0])) {
		return ranking[0]
	}
	return ""
}

// handOver tells the successor that it is its turn.
func (m *Machine) handOver(fx *protocol.Effects) {
	successor := m.successor()
	if successor == "" {
		return
	}
	msg := m.message(TransferNow, m.tenure.term)
	msg.Handover = &protocol.Handover{
		Leader: m.cfg.Self, Incarnation: m.ballot.Incarnation, Term: m.tenure.term, Seq: m.seq, Target: successor,
	}
	m.send(fx, successor, 0, &msg)
}

// onTransferNow stands at once, without a pre-vote, unless another candidate has stood since or
// this voter cannot stand.
func (m *Machine) onTransferNow(leader protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	h := msg.Handover
	if h == nil || h.Leader != leader || h.Incarnation != msg.Incarnation || h.Target != m.cfg.Self.ID {
		return
	}
	m.honour(h, fx)
	term := m.nextTerm(h.Term)
	if !m.mayStand() || m.ballot.Term > h.Term || m.sticky(m.cfg.Self) > 0 || term > MaxTerm {
		return
	}
	m.role, m.cause = protocol.PreCandidate, HandedOver
	m.begin(asking, term)
	m.heard.contact = protocol.Always
	m.vote(h, fx)
}

// honour drops what was promised to a leader up to the last heartbeat of the term that it gave up,
// and nothing else: not what was promised to another incarnation of that node, nor to a later
// tenure of this one, nor before this voter started. It reports whether this voter followed that
// leader.
func (m *Machine) honour(h *protocol.Handover, fx *protocol.Effects) (followed bool) {
	dropped := false
	for i := m.promises.n - 1; i >= 0; i-- {
		w := &m.promises.all[i]
		exact := w.holder == h.Leader && w.incarnation == h.Incarnation &&
			(w.term < h.Term || w.term == h.Term && w.seq <= h.Seq || m.cfg.mutants.Has("handover-any-seq"))
		if exact || m.cfg.mutants.Has("release-by-node-id") && w.holder.ID == h.Leader.ID {
			m.promises.remove(i)
			dropped = true
		}
	}
	if m.cfg.mutants.Has("boot-residual-waived") {
		m.bootUntil = protocol.Always
	}
	if g := &m.heard; g.is(h.Leader, h.Incarnation) && g.term <= h.Term && g.seq <= h.Seq && !m.inTenure() {
		g.seq, g.asked = h.Seq, 0 // later heartbeats of that number are old
		g.at, g.contact = protocol.Always, protocol.Always
		followed = true
	}
	if dropped && m.inTenure() {
		m.recount()
	}
	m.tellResidual(dropped, fx)
	return followed
}
