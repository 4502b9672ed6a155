package queue

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Q5 and Q6: until when the holder may claim. Each end counts from before the sending of a request
// that was answered, and extends a tenure only while its claim has not lapsed.

// claimEnd is until when leadership may be claimed; Always if not at all.
func (m *Machine) claimEnd() protocol.Instant {
	switch {
	case m.cfg.Dialect == ZooKeeper:
		return m.holdEnd
	case m.cfg.Hold > 0:
		return min(m.leaseEnd, m.holdEnd)
	}
	return m.leaseEnd
}

// claim is until when a promise of d that was asked for at sent may be claimed.
func (m *Machine) claim(sent, now protocol.Instant, d time.Duration) protocol.Instant {
	margin := m.cfg.margin()
	if m.cfg.mutants.Has("deadline-from-answer") {
		sent = now
	}
	if m.cfg.mutants.Has("ignore-drift") {
		return sent.Add(d - margin.Guard)
	}
	return sent.Add(margin.Claim(d))
}

// sessionSeen extends the claim on the session (Q5): at some time after sent the store said that
// the session lives for ttl.
func (m *Machine) sessionSeen(sent protocol.Instant, ttl time.Duration, now protocol.Instant) {
	m.leaseEnd = max(m.leaseEnd, m.claim(sent, now, min(ttl, m.granted)))
	if m.cfg.mutants.Has("renewals-extend-the-hold") && m.marked {
		m.entrySeen(sent, now)
	}
}

// entrySeen extends the claim on the entry (Q6): it existed, visible to all, at some time after
// sent. A successor's hold-off begins later than that.
func (m *Machine) entrySeen(sent, now protocol.Instant) {
	if m.cfg.Hold > 0 {
		m.holdEnd = max(m.holdEnd, m.claim(sent, now, m.cfg.Hold))
	}
}

// renewed handles the answer to KeepAlive (Q5) or Touch (Q6).
func (m *Machine) renewed(p pending, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	switch a := &in.Answer; {
	case a.Status == protocol.StatusGone && p.op == protocol.Touch:
		m.lost(EntryGone, in, fx)
		return
	case a.Status == protocol.StatusGone,
		a.Status == protocol.StatusDone && p.op == protocol.KeepAlive && a.TTL <= 0 && m.cfg.Dialect == Etcd:
		m.lost(SessionGone, in, fx)
		return
	case a.Status != protocol.StatusDone:
		m.renewAt = now.Add(m.delay(0, in.Rand))
		return
	case m.cfg.Dialect == Etcd:
		m.sessionSeen(p.sent, a.TTL, now)
	default: // Touch; or the mutant's ping
		m.entrySeen(p.sent, now)
		m.confirmedBy(&m.renewAt, now)
	}
	if m.phase == renewing {
		m.renewedFirst(p, in)
	}
}

// checkClaim ends for good what depends on a lapsed claim.
func (m *Machine) checkClaim(in *protocol.Input, fx *protocol.Effects) {
	if m.phase != leading && m.phase != fencing || m.over || in.Now.Boot < m.claimEnd() {
		return
	}
	if m.cfg.mutants.Has("late-answer-revives") && in.Kind == protocol.Replied {
		return
	}
	m.lost(Expired, in, fx)
}

// checkClocks voids what was measured before the machine slept or a clock was set: claims, and the
// times at which the asks in flight were sent. The hold-off begins again.
func (m *Machine) checkClocks(in *protocol.Input, fx *protocol.Effects) {
	if !in.Now.Jumped(m.base) {
		return
	}
	m.base = in.Now
	if m.cfg.mutants.Has("jump-ignored") {
		return
	}
	now := in.Now.Boot
	if m.phase == leading || m.phase == fencing && !m.over {
		m.lost(ClockJump, in, fx)
	}
	m.leaseEnd, m.holdEnd = protocol.Always, protocol.Always
	for _, p := range [...]*pending{&m.main, &m.renew, &m.probe} {
		if p.number != 0 {
			p.sent = protocol.Always
		}
	}
	if m.firstView != protocol.Never {
		m.firstView = now
	}
	if m.seenAt != protocol.Never {
		m.seenAt = now
	}
	if m.deaf != protocol.Never {
		m.deaf = now
	}
	// Instants of the old clock may lie far ahead.
	m.retryAt, m.renewAt, m.pollAt = now, now, now.Add(m.delay(0, in.Rand))
	if m.phase == fencing && m.over {
		m.retryAt = now.Add(m.grace())
	}
}
