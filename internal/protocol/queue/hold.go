package queue

import "github.com/electd/elect/internal/protocol"

// Q6: the hold-off. A tenure whose entry went without a release may go on for its hold after the
// entry was last known to exist. So the next winner waits that long from its first view without an
// entry before its own, unless the queue's mark says that the last tenure's work had returned.
// Holds may differ, so the mark tells the last tenure's; where it does not, MaxHold is the longest
// possible.

// holdOff is when the tenure may begin.
func (m *Machine) holdOff() protocol.Instant {
	if m.cfg.Hold == 0 || m.cfg.mutants.Has("no-hold-off") {
		return protocol.Always
	}
	hold := m.cfg.Hold
	switch {
	case m.mark.Held && m.mark.Hold > 0:
		if !m.cfg.mutants.Has("wait-own-hold") {
			hold = max(hold, min(m.mark.Hold, MaxTTL))
		}
		return m.lastSight().Add(hold)
	case m.mark.Held:
	case m.mark.Order == 0 && m.cfg.mutants.Has("unmarked-is-free"):
		return protocol.Always
	case m.mark.Order != 0 && m.mark.Order < m.own.Order:
		return protocol.Always
	}
	// The mark was never written, or was lost with the queue, or is of an entry that cannot have
	// led yet. Then the hold is unknown.
	if !m.cfg.mutants.Has("unmarked-waits-own-hold") {
		hold = max(hold, m.cfg.MaxHold)
	}
	return m.firstView.Add(hold)
}

// lastSight is when the hold-off begins: when the last touch of the last tenure was first seen, if it was
// seen before the entry was missed.
func (m *Machine) lastSight() protocol.Instant {
	touched := m.mark.Touched != 0 || m.cfg.mutants.Has("untouched-mark-is-seen")
	if touched && !m.cfg.mutants.Has(olderRelease) && m.seen.Order == m.mark.Order && m.seen.Touched == m.mark.Touched {
		return min(m.firstView, m.seenAt)
	}
	return m.firstView
}

// sight notes when a touch was first seen, after the receipt.
func (m *Machine) sight(mark *protocol.QueueMark, now protocol.Instant) {
	switch {
	case mark.Order > m.seen.Order:
		m.seenAt = now
	case mark.Order < m.seen.Order || mark.Touched <= m.seen.Touched:
		return
	case !m.cfg.mutants.Has("sight-of-an-older-touch"):
		m.seenAt = now
	}
	m.seen = protocol.QueueMark{Order: mark.Order, Touched: mark.Touched}
}

// watchTouches watches the touches of the first entry, if that is the one before the own (etcd). The
// candidates behind it are not woken by them.
func (m *Machine) watchTouches(first *protocol.Entry, fx *protocol.Effects) {
	if m.cfg.Dialect == Etcd && m.cfg.Hold > 0 && m.touches == 0 && first.Order == m.watched {
		m.touches = m.ask(fx, protocol.Ask{Op: protocol.WatchTouch, Entry: *first, Revision: m.revision})
	}
}

// touchSaid handles an event of that watch. When it ends, the next check begins another.
func (m *Machine) touchSaid(in *protocol.Input) {
	if in.Answer.Status == protocol.StatusEvent {
		m.sight(&in.Answer.Mark, in.Now.Boot)
		return
	}
	m.touches = 0
	m.pollAt = min(m.pollAt, in.Now.Boot.Add(around(m.cfg.KeepAliveEvery, in.Rand)))
}

// dropProbe drops the answer to a check that is under way. If that is a touch, another one is due.
func (m *Machine) dropProbe(in *protocol.Input) {
	if m.probe.op == protocol.Touch {
		m.touchAt, m.pollAt = in.Now.Boot, in.Now.Boot
	}
	m.probe = pending{}
}

// needsMark reports whether the mark has to be written before the tenure, and from when on it may
// be.
func (m *Machine) needsMark() (from protocol.Instant, need bool) {
	if m.phase != leading || m.cfg.Hold == 0 || m.marked {
		return 0, false
	}
	if m.cfg.mutants.Has("mark-before-hold-off") {
		return m.retryAt, true
	}
	return max(m.retryAt, m.notBefore), true
}

// held and free are the marks that this tenure writes.
func (m *Machine) held() protocol.QueueMark {
	return protocol.QueueMark{Order: m.own.Order, Held: true, Hold: m.cfg.Hold}
}

func (m *Machine) free() protocol.QueueMark { return protocol.QueueMark{Order: m.own.Order} }

// markWritten handles the answer to Mark. It counts like a Touch: its condition was that the entry
// exists.
func (m *Machine) markWritten(p pending, in *protocol.Input, fx *protocol.Effects) {
	switch in.Answer.Status {
	case protocol.StatusDone:
		m.marked = true
		m.entrySeen(p.sent, in.Now.Boot)
		if m.cfg.Dialect == Etcd {
			m.pollAt = in.Now.Boot // the first Touch
		}
	case protocol.StatusGone:
		m.lost(EntryGone, in, fx)
	default:
		m.retry(in)
	}
}
