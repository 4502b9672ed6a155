package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// onAck counts a voter's answer (R7).
func (m *Machine) onAck(voter protocol.Voter, msg *protocol.Message, fx *protocol.Effects) {
	if !m.inTenure() || msg.Echo != m.ballot.Incarnation {
		return
	}
	i := m.place(voter)
	if i < 0 || msg.Seq == 0 {
		return
	}
	g := &m.tenure
	if !msg.Granted {
		m.rejected(msg.Term, fx)
		return
	}
	sent := g.marks[msg.Seq%marks]
	if m.cfg.mutants.Has("duplicate-ack-extends") {
		sent = g.marks[m.seq%marks]
	}
	if msg.Term != g.term || sent.seq != msg.Seq && !m.cfg.mutants.Has("duplicate-ack-extends") {
		return
	}
	now := m.now.Boot
	f := &g.voters[i]
	f.seq, f.idle = max(f.seq, msg.Seq), msg.Unhealthy
	f.notBefore = min(f.notBefore, now.Add(msg.Residual))
	if msg.Held.Compare(f.held) > 0 {
		f.held = msg.Held
	}
	granted := min(msg.Promise, sent.asked)
	from := sent.at
	if m.cfg.mutants.Has("probe-extends-lease") && granted == 0 {
		granted = m.cfg.Promise
	}
	if m.cfg.mutants.Has("lease-from-ack-arrival") {
		from = now
	}
	if m.clocked(i, sent, msg, fx) {
		f.sent = max(f.sent, sent.at)
		if granted > 0 { // an acked probe is evidence, not a promise
			f.claim = max(f.claim, from.Add(m.claim(granted)))
		}
	}
	m.recount()
}

// claim is D_L for a promise: how long the promise may be claimed, from the sending on.
func (m *Machine) claim(granted time.Duration) time.Duration {
	switch {
	case m.cfg.mutants.Has("ignore-drift"):
		return granted
	case granted == m.cfg.Promise:
		return m.cfg.Lease
	}
	return min(m.cfg.Lease, m.cfg.Drift.Claim(granted))
}

// recount derives, from what is known of each voter, until when the promises of a quorum may be
// claimed, since when a quorum has heard this leader, and from when on a quorum is promised to no
// other. The leader counts itself with the greatest claim: its claim and its evidence are of now.
func (m *Machine) recount() {
	g := &m.tenure
	now := m.now.Boot
	n, k := len(m.ballot.Membership.Voters), m.ballot.Membership.Quorum()
	var claims, sent, free [protocol.MaxVoters]protocol.Instant
	for i := range n {
		f := &g.voters[i]
		claims[i], sent[i], free[i] = -f.claim, -f.sent, f.notBefore
		if f.claim == protocol.Always {
			claims[i] = protocol.Never
		}
		if f.sent == protocol.Always {
			sent[i] = protocol.Never
		}
	}
	claims[m.self], sent[m.self] = -now.Add(m.cfg.Lease), -now
	free[m.self] = m.owed(m.cfg.Self, m.ballot.Incarnation)
	if m.cfg.mutants.Has("no-own-residual") {
		free[m.self] = protocol.Always
	}
	// What was claimed under an earlier membership stays claimed: its voters have promised it, and
	// no majority of this one can elect without one of them (R15).
	g.covered = negated(kthLeast(&claims, n, k))
	g.leaseEnd = max(g.leaseEnd, g.covered)
	g.fresh = max(g.heard, negated(kthLeast(&sent, n, k)))
	if !g.active {
		g.notBefore = kthLeast(&free, n, k)
		if m.cfg.mutants.Has("no-residual-wait") && g.notBefore != protocol.Never {
			g.notBefore = min(g.notBefore, now)
		}
	}
}

// negated returns -i; the smallest negated instant is the greatest one.
func negated(i protocol.Instant) protocol.Instant {
	if i == protocol.Never {
		return protocol.Always
	}
	return -i
}

// kthLeast returns the k-th smallest, counted from 1, of the first n. It sorts them.
func kthLeast(all *[protocol.MaxVoters]protocol.Instant, n, k int) protocol.Instant {
	for i := 1; i < n; i++ {
		v := all[i]
		j := i
		for ; j > 0 && all[j-1] > v; j-- {
			all[j] = all[j-1]
		}
		all[j] = v
	}
	return all[k-1]
}

// advance starts the tenure when a quorum is promised to no other and has promised itself to this
// leader. It answers Confirm.
func (m *Machine) advance(fx *protocol.Effects) {
	g := &m.tenure
	if len(m.ballot.Membership.Voters) == 1 {
		m.recount() // a single voter renews by itself
	}
	m.answer(fx)
	if m.role == protocol.Leader && !g.active && m.now.Boot >= g.notBefore && m.now.Boot < g.leaseEnd {
		g.active, g.activeAt = true, m.now.Boot
		m.order(fx, protocol.Lead, "")
	}
}

// confirm begins a round trip. It proves, without relying on any clock, that no higher term had a
// leader when the command was given.
func (m *Machine) confirm(fx *protocol.Effects) {
	m.asked++
	if m.role == protocol.Leader && m.tenure.confirmAsked == 0 {
		m.beat(fx)
		m.await()
	}
}

// await makes the heartbeat just sent answer all open Confirm commands.
func (m *Machine) await() {
	if m.asked > m.proven {
		m.tenure.confirmSeq, m.tenure.confirmAsked = m.seq, m.asked
	}
}

// answer counts the Confirm commands that a quorum has answered.
func (m *Machine) answer(fx *protocol.Effects) {
	g := &m.tenure
	if g.confirmAsked == 0 || m.role != protocol.Leader {
		return
	}
	n := 1
	for i := range m.ballot.Membership.Voters {
		if i != m.self && g.voters[i].seq >= g.confirmSeq {
			n++
		}
	}
	if n < m.ballot.Membership.Quorum() {
		return
	}
	m.proven = g.confirmAsked
	g.confirmAsked = 0
	if m.asked > m.proven { // later commands need a round trip that began later
		m.beat(fx)
		m.await()
	}
}
