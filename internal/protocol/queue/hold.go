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
		return m.firstView.Add(hold)
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
	case protocol.StatusGone:
		m.lost(EntryGone, in, fx)
	default:
		m.retry(in)
	}
}
