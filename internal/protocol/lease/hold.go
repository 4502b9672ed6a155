package lease

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The reasons why a term began or ended.
const (
	Acquired   protocol.Reason = "acquired"      // this participant holds the record
	Lapsed                     = protocol.Lapsed // the claim has passed without a renewal
	Superseded protocol.Reason = "superseded"    // another participant holds the record
	Deleted    protocol.Reason = "deleted"       // the record does not exist any more
	// WentBack: the store shows less than it had shown before. It was restored, or has lost
	// acknowledged writes: the operator has to raise the era.
	WentBack protocol.Reason = "store-went-back"

	Resigned  = protocol.Recalled  // by command
	Withdrawn = protocol.Withdrawn // no longer a candidate, by command
	Unhealthy = protocol.Unhealthy // its owner reported it
	ClockJump = protocol.ClockJump // the machine slept, or a clock was set
)

// renew writes this tenure again, or for the first time, with a new attempt (L1). The duration is
// the same for all of a tenure (L8).
func (m *Machine) renew(now protocol.Instant, fx *protocol.Effects) {
	if !(m.own.landed && m.c.mutants.Has("identical-renewal")) {
		m.attempt++
	}
	m.tried.add(attempt{number: m.attempt, sent: now, wanted: m.wanted})
	m.put(fx, take, m.own.version, protocol.Record{
		Holder: m.c.Self, Nonce: m.own.nonce, Count: m.own.count, Attempt: m.attempt,
		Duration: m.span(m.attempt), Store: m.own.store,
	})
}

// span is the duration that an attempt asks for.
func (m *Machine) span(number uint64) time.Duration {
	if number%2 == 0 && m.c.mutants.Has("duration-changes") {
		return m.c.Duration / 2
	}
	return m.c.Duration
}

// claim returns the time until which an attempt allows its holder to lead: D·(1−ρ)/(1+ρ) less the
// guard, counted from before it was sent. The holder subtracts the margin, because other programs
// wait for exactly D.
func (m *Machine) claim(a attempt) protocol.Instant {
	d := m.c.Drift
	if m.c.mutants.Has("ignore-drift") {
		d.PPM = 0
	}
	return after(a.sent, d.Claim(m.span(a.number)))
}

// landed applies L2 and L8. It is called when an acknowledgement or a read shows that the record is
// this participant's, and contains the attempt with that number.
func (m *Machine) landed(version, number uint64, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	if m.own.store != m.store && !m.c.mutants.Has("store-change-ignored") {
		switch {
		case now < m.claimEnd:
			// No other participant can have led before this write landed, so no leader exists that
			// the store has lost.
			m.own.store = m.store
		case m.stage == acquiring || m.stage == releasing:
			// The store may have lost the tenure of a leader that still leads. The record has the
			// old incarnation in it, so all participants wait.
			m.abandon(now, in.Rand)
			return
		}
	}
	a, open := m.tried.find(number)
	if m.c.mutants.Has("any-attempt-counts") && m.tried.n > 0 {
		a, open = m.tried.all[m.tried.n-1], true
	}
	if m.c.mutants.Has("deadline-from-answer") && open {
		a.sent = now
	}
	again := now
	switch {
	case open:
		m.tried = attempts{} // all other attempts have failed by their version
		again = after(a.sent, m.c.RenewEvery)
	case m.tried.n > 1:
		again = m.later(now, in.Rand) // several attempts, and the record still shows the old one
	}
	m.own.landed, m.own.version = true, version
	m.doubt, m.readAt, m.writeAt = false, protocol.Never, again
	end := m.claim(a)
	switch m.stage {
	case acquiring:
		if m.own.passed && !m.c.mutants.Has("seen-count-ignored") {
			// The holder of that count may still lead, so this record counts as old.
			m.top = max(m.top, m.own.count+1)
			m.abandon(now, in.Rand)
			return
		}
		if !m.win(now, end, fx) {
			m.writeAt = now
		}
	case holding:
		if now < m.claimEnd || m.c.mutants.Has("renew-after-deadline") || m.c.mutants.Has("late-answer-revives") {
			m.claimEnd = max(m.claimEnd, end)
			m.confirmed = max(m.confirmed, a.wanted)
		}
		if m.wanted > m.confirmed {
			m.writeAt = now
		}
	case fencing:
		// The work may still run: no other participant may take the record before it has returned,
		// as long as the lease can be renewed.
		if now < m.claimEnd {
			m.claimEnd = max(m.claimEnd, end)
		}
		if m.claimEnd == protocol.Always || m.c.mutants.Has("renewal-stops-at-drain") {
			m.writeAt = protocol.Never
		}
	case releasing:
		m.writeAt = now
	}
}

// expire is L8: at claimEnd a tenure is over for good.
func (m *Machine) expire(now protocol.Instant, fx *protocol.Effects) {
	switch {
	case m.stage == holding && now >= m.claimEnd:
		if m.c.mutants.Has("renew-after-deadline") {
			m.claimEnd = protocol.Always
		} else {
			m.stop(Lapsed, fx)
		}
	case m.stage == fencing && now >= m.claimEnd:
		m.unclaim()
	}
}

// unclaim ends the renewals of a term that is over.
func (m *Machine) unclaim() {
	m.claimEnd, m.readAt, m.writeAt = protocol.Always, protocol.Never, protocol.Never
}

// stop ends the term.
func (m *Machine) stop(why protocol.Reason, fx *protocol.Effects) {
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.own.count, Reason: why})
	m.stage, m.own.stop = fencing, why
	switch why {
	case Resigned, Withdrawn, Unhealthy:
		if m.c.mutants.Has("renewal-stops-at-drain") {
			m.writeAt = protocol.Never
		}
	default:
		m.unclaim()
	}
}

// lost handles a record that another participant holds, or none.
func (m *Machine) lost(why protocol.Reason, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	m.doubt, m.readAt, m.writeAt = false, protocol.Never, protocol.Never
	switch m.stage {
	case acquiring:
		m.abandon(now, in.Rand)
	case holding:
		m.stop(why, fx)
		m.own.gone = true
	case fencing:
		m.unclaim()
		m.own.gone = true
	case releasing:
		m.abandon(now, in.Rand)
	}
}
