package queue

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Q8: the machine asks to leave until the store says that it is done, or that nothing is left. The
// session ends with it, which undoes an Enter that is still on its way.

// leave gives up the entry and the session. Work that led has returned.
func (m *Machine) leave(in *protocol.Input) {
	if m.cfg.Dialect == ZooKeeper && m.main.op == protocol.Enter {
		m.stray = m.main.number
	}
	m.main, m.renew, m.probe, m.watch, m.ownWatch, m.watched, m.touches = pending{}, pending{}, pending{}, 0, 0, 0, 0
	m.leader = protocol.Leadership{}
	m.retryAt, m.deaf = in.Now.Boot, protocol.Never
	switch {
	case m.session == 0:
		m.rest(in)
	case m.cfg.mutants.Has("second-tenure-on-one-entry") && m.active != m.led && m.own.Order != 0 && m.stands():
		m.led, m.marked, m.over = false, false, false
		m.phase = listing
	case m.cfg.mutants.Has("free-without-tenure") && m.cfg.Hold > 0 && m.own.Order != 0:
		m.phase = freeing
	case m.cfg.mutants.Has("key-deleted-lease-kept") && m.own.Order != 0:
		m.phase = freeing
	case m.marking:
		// Q6: it waited for the hold before it wrote its mark, and its work has returned. So "free"
		// is true, if no other could act in between: one transaction with the delete.
		m.phase = freeing
	default:
		m.phase = closing
	}
}

// hear notes whether an ask was in vain: it was refused, or its answer came too late.
func (m *Machine) hear(p pending, in *protocol.Input) {
	switch in.Answer.Status {
	case protocol.StatusUnknown, protocol.StatusRefused:
		m.deaf = min(m.deaf, max(p.sent, m.base.Boot)) // a jump has voided what was before
	default:
		m.deaf = protocol.Never
	}
}

// patience is how long a candidate asks in vain before it leaves. Its requests may be carried out
// in the meantime, and the candidates behind it wait for it. Behind another entry it stays longer:
// the store itself may not answer, so that all are blocked, and it costs the store the more the
// more of them enter again.
func (m *Machine) patience() time.Duration {
	switch {
	case m.phase == freeing:
		return m.cfg.Hold // the next winner waits for no longer
	case m.phase < entering || m.phase >= leading:
		return 0
	case m.ahead:
		return MaxTTL
	}
	return m.cfg.TTL
}

// hearingEnd is when patience ends; Never if it has not begun, or needs no end.
func (m *Machine) hearingEnd() protocol.Instant {
	patience := m.patience()
	if patience == 0 || m.deaf == protocol.Never {
		return protocol.Never
	}
	return m.deaf.Add(patience)
}

// checkHearing leaves when patience has ended, by closing the session: the store ends that even if
// the request does not reach it.
func (m *Machine) checkHearing(in *protocol.Input) {
	switch {
	case in.Now.Boot < m.hearingEnd():
	case m.phase == freeing: // "free" is not written, so the next winner waits
		m.main = pending{}
		m.to(closing, in)
	default:
		m.leave(in)
	}
}

// grace is how long the entry stays after the claim has lapsed, so that work that returns meanwhile
// can write "free". The entry is gone a TTL after the last answer, as if the process had died.
func (m *Machine) grace() time.Duration { return m.cfg.TTL - m.cfg.Hold }

// lapse ends the claim for good while the work has not returned. ZooKeeper's session would live as
// long as the process: it is closed after a while, or work that never returns would block the
// election. The next winner waits for the hold, and no claim is left by then. An etcd lease ends by
// itself.
func (m *Machine) lapse(in *protocol.Input) {
	if !m.over && m.cfg.Dialect == ZooKeeper {
		m.retryAt = in.Now.Boot.Add(m.grace())
	}
	m.over, m.main, m.renew, m.probe = true, pending{}, pending{}, pending{}
	if m.leader.ID == m.cfg.Self {
		m.leader = protocol.Leadership{}
	}
}

// left handles the answer to Leave.
func (m *Machine) left(in *protocol.Input) {
	switch in.Answer.Status {
	case protocol.StatusDone, protocol.StatusGone:
		if m.cfg.mutants.Has("key-deleted-lease-kept") {
			m.rest(in)
			return
		}
		m.to(closing, in)
	default:
		m.retry(in)
	}
}

// closed handles the answer to CloseSession.
func (m *Machine) closed(p pending, in *protocol.Input) {
	if m.phase == fencing {
		switch in.Answer.Status {
		case protocol.StatusDone, protocol.StatusGone:
			m.session = 0 // the candidacy ends when the work has returned
		default:
			m.retry(in)
		}
		return
	}
	if p.session != m.session {
		m.to(closing, in) // the answer named another session
		return
	}
	switch in.Answer.Status {
	case protocol.StatusDone, protocol.StatusGone:
		if m.stray != 0 {
			m.session = 0 // nothing to ask; the Enter's answer ends the candidacy
			return
		}
		m.rest(in)
	default:
		m.retry(in)
	}
}

// strayed handles the answer to an Enter that was on its way when the candidacy was left: it may
// have been carried out in a session that the client has opened by itself, which then has to be
// closed too.
func (m *Machine) strayed(in *protocol.Input) {
	m.stray = 0
	a := &in.Answer
	switch {
	case m.phase != closing:
	case a.Status == protocol.StatusDone && a.Session != 0 && a.Session != m.session:
		m.session, m.main = a.Session, pending{}
		m.to(closing, in)
	case m.session == 0:
		m.rest(in)
	}
}

// rest ends the candidacy. A candidate enters again, after a while if this candidacy failed.
func (m *Machine) rest(in *protocol.Input) {
	led := m.led
	m.forget()
	m.phase, m.retryAt = idle, in.Now.Boot
	switch {
	case m.fault != "":
		m.phase = halted
	case !m.stands() || led:
		m.losses = 0
	default:
		m.retryAt = in.Now.Boot.Add(m.delay(m.losses, in.Rand))
		m.losses++
	}
}
