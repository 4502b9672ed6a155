package queue

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// to enters a phase whose ask is due at once.
func (m *Machine) to(p phase, in *protocol.Input) { m.phase, m.retryAt = p, in.Now.Boot }

// retry repeats the phase's ask after a while.
func (m *Machine) retry(in *protocol.Input) {
	m.retryAt = in.Now.Boot.Add(m.delay(m.fails, in.Rand))
	m.fails++
}

// delay is the n-th pause between attempts.
func (m *Machine) delay(n, rand uint64) time.Duration {
	return around(m.cfg.Backoff<<min(n, 4), rand)
}

// around is U(0.5, 1.5) of d.
func around(d time.Duration, rand uint64) time.Duration {
	// The same word may be half of a nonce: a pause must not reveal the rest of it.
	rand = (rand ^ rand>>31) * 0x9e3779b97f4a7c15
	return d/2 + time.Duration((rand>>1)%uint64(d))
}

// checkAt is when the entry is checked again, d after from. In etcd's dialect it is up to a quarter of
// KeepAliveEvery earlier, so that the checks of all elections of a process come at the same instants, and a
// back end can make them with one request.
func (m *Machine) checkAt(from protocol.Instant, d time.Duration) protocol.Instant {
	at := from.Add(d)
	if step := min(m.cfg.KeepAliveEvery, m.cfg.Poll/2) / 4; m.cfg.Dialect == Etcd && step > 0 {
		at -= at % protocol.Instant(step)
	}
	return at
}

// run does what is due.
func (m *Machine) run(in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	m.checkHearing(in)
	if m.phase == idle && m.stands() && now >= m.retryAt {
		m.begin(in)
	}
	m.lead(now, fx)
	if op, at := m.next(); op != 0 && now >= at {
		m.main = pending{op: op, session: m.session, sent: now}
		m.main.number = m.ask(fx, m.form(op))
	}
	if m.renews() && (m.renew.number == 0 || m.cfg.mutants.Has("deadline-across-streams")) && now >= m.renewAt {
		op := protocol.KeepAlive
		if m.cfg.Dialect == ZooKeeper && !m.cfg.mutants.Has("deadline-from-pings") {
			op, m.covers = protocol.Touch, m.asksConfirm
		}
		m.renewAt = now.Add(m.cfg.renewEvery(m.phase))
		m.renew = pending{op: op, session: m.session, sent: now}
		m.renew.number = m.ask(fx, m.form(op))
	}
	if m.probes() && m.probe.number == 0 && now >= m.pollAt {
		op := protocol.Verify
		if m.phase != waiting {
			m.covers = m.asksConfirm
			m.pollAt = m.checkAt(now, m.cfg.KeepAliveEvery) // if Hold is set; otherwise the answer says when
			switch {
			case !m.marked || m.cfg.Hold == 0 || m.cfg.mutants.Has(olderRelease):
			case now >= m.touchAt:
				if m.touchAt == protocol.Always || !m.cfg.mutants.Has("reads-extend-a-touched-claim") {
					op = protocol.Touch
				}
				m.touchAt = m.pollAt
			default:
				m.pollAt = min(m.pollAt, m.touchAt)
			}
		}
		m.probe = pending{op: op, session: m.session, sent: now}
		m.probe.number = m.ask(fx, m.form(op))
	}
}

// next is the phase's next ask, if none is in flight, and when it is due.
func (m *Machine) next() (protocol.Op, protocol.Instant) {
	if m.main.number != 0 {
		return 0, protocol.Never
	}
	switch m.phase {
	case opening:
		return protocol.OpenSession, m.retryAt
	case entering:
		return protocol.Enter, m.retryAt
	case syncing:
		return protocol.Sync, m.retryAt
	case scanning, listing:
		return protocol.List, m.retryAt
	case touching:
		return protocol.Touch, m.retryAt
	case verifying:
		if m.cfg.Dialect == ZooKeeper {
			return protocol.List, m.retryAt
		}
		return protocol.Verify, m.retryAt
	case leading:
		if from, need := m.needsMark(); need {
			return protocol.Mark, from
		}
	case freeing:
		return protocol.Leave, m.retryAt
	case fencing:
		if m.over && m.session != 0 && m.cfg.Dialect == ZooKeeper {
			return protocol.CloseSession, m.retryAt
		}
	case closing:
		if m.session != 0 {
			return protocol.CloseSession, m.retryAt
		}
	}
	return 0, protocol.Never
}

// renews reports whether KeepAlive or Touch go on. The runtime keeps ZooKeeper's session alive, so
// there is nothing to renew before a claim.
func (m *Machine) renews() bool {
	switch {
	case m.phase == leading, m.phase == fencing && (!m.over || m.cfg.mutants.Has("renewing-after-deadline")):
		return true
	case m.cfg.Dialect == ZooKeeper:
		return false
	}
	return m.phase >= entering && m.phase < leading
}

// probes reports whether the entry is checked from time to time. With a hold etcd's claim counts from these checks,
// which are touches once the mark is written, so they go on until the work has returned.
func (m *Machine) probes() bool {
	switch {
	case m.phase == waiting:
		return true
	case m.cfg.Dialect != Etcd:
		return false
	}
	return m.phase == leading || m.phase == fencing && !m.over && m.cfg.Hold > 0
}

// form fills in an ask of the phase.
func (m *Machine) form(op protocol.Op) protocol.Ask {
	a := protocol.Ask{Op: op}
	switch op {
	case protocol.OpenSession:
		a.TTL = m.cfg.TTL
	case protocol.Enter:
		a.Nonce = m.nonce
		a.Entry = protocol.Entry{Session: m.session, Holder: m.cfg.Self, Nonce: m.nonce}
	case protocol.Verify, protocol.Touch:
		a.Entry = m.own
	case protocol.Mark:
		a.Entry, a.SetMark, a.Mark = m.own, true, m.held()
		m.marking = true
	case protocol.Leave:
		a.Entry = m.own
		if m.cfg.Hold > 0 && !m.cfg.mutants.Has("free-outside-the-delete") {
			a.SetMark, a.Mark = true, m.free()
		}
	}
	return a
}

// ask appends an ask and returns its number.
func (m *Machine) ask(fx *protocol.Effects, a protocol.Ask) uint64 {
	m.asked++
	a.Number, a.Session = m.asked, m.session
	fx.Asks = append(fx.Asks, a)
	return a.Number
}

// NextFire implements protocol.Machine.
func (m *Machine) NextFire() protocol.Instant {
	at := m.hearingEnd()
	switch m.phase {
	case idle:
		if m.stands() {
			at = m.retryAt
		}
	case leading:
		at = m.claimEnd()
		if !m.active && (m.cfg.Hold == 0 || m.marked) {
			at = min(at, m.notBefore)
		}
	case fencing:
		if !m.over {
			at = m.claimEnd()
		}
	}
	if op, when := m.next(); op != 0 {
		at = min(at, when)
	}
	if m.renews() && m.renew.number == 0 {
		at = min(at, m.renewAt)
	}
	if m.probes() && m.probe.number == 0 {
		at = min(at, m.pollAt)
	}
	return at
}
