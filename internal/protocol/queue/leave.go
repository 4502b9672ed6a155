package queue

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Q8: leaving is asked for until the store says that it is done, or that there
// is nothing left. It ends with the session, and that undoes an Enter that is
// still under way.

// leave gives the entry and the session up. Work that led has returned.
func (m *Machine) leave(in *protocol.Input) {
	if m.cfg.Dialect == ZooKeeper && m.main.op == protocol.Enter {
		m.stray = m.main.number
	}
	m.main, m.renew, m.probe, m.watch, m.ownWatch, m.watched = pending{}, pending{}, pending{}, 0, 0, 0
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
		// Q6: it has waited for the hold before it marked, and its work has
		// returned. So "free" is true, if nobody could act in between: one
		// transaction with the delete.
		m.phase = freeing
	default:
		m.phase = closing
	}
}

// hear notes whether an ask was in vain: it was refused, or its answer came too
// late.
func (m *Machine) hear(p pending, in *protocol.Input) {
	switch in.Answer.Status {
	case protocol.StatusUnknown, protocol.StatusRefused:
		m.deaf = min(m.deaf, max(p.sent, m.base.Boot)) // a jump has voided what was before
	default:
		m.deaf = protocol.Never
	}
}

// patience is how long a candidate asks in vain before it leaves. Its requests
// may be carried out all the while, and those behind it wait for it. If it is
// behind another it stays longer: all stand still then, the store may be what
// does not answer, and to enter anew is the more work for it the more do so.
func (m *Machine) patience() time.Duration {
	switch {
	case m.phase == freeing:
		return m.cfg.Hold // the next one waits for no longer
	case m.phase < entering || m.phase >= leading:
		return 0
	case m.ahead:
		return MaxTTL
	}
	return m.cfg.TTL
}

// hearingEnd is when patience ends. Never: it has not begun, or needs no end.
func (m *Machine) hearingEnd() protocol.Instant {
	patience := m.patience()
	if patience == 0 || m.deaf == protocol.Never {
		return protocol.Never
	}
	return m.deaf.Add(patience)
}

// checkHearing leaves when patience has ended, by way of the session: the store
// ends that in the end even if it is not asked to.
func (m *Machine) checkHearing(in *protocol.Input) {
	switch {
	case in.Now.Boot < m.hearingEnd():
	case m.phase == freeing: // "free" is not said, so that the next one waits
		m.main = pending{}
		m.to(closing, in)
	default:
		m.leave(in)
	}
}

// grace is how long the entry stays after the claim has lapsed, so that work
// which returns meanwhile can say "free". The session's TTL after the last
// answer the entry is gone, as if the process had died.
func (m *Machine) grace() time.Duration { return m.cfg.TTL - m.cfg.Hold }

// lapse ends the claim for good while the work is still to return. ZooKeeper's
// session would live as long as the process: it is closed after a while, or work
// that never returns would keep everybody out. Whoever is next waits for the
// hold, and no claim is left by then. An etcd lease ends by itself.
func (m *Machine) lapse(in *protocol.Input) {
	if !m.over && m.cfg.Dialect == ZooKeeper {
		m.retryAt = in.Now.Boot.Add(m.grace())
	}
	m.over, m.main, m.renew = true, pending{}, pending{}
}

// left takes the answer to Leave.
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

// closed takes the answer to CloseSession.
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
		m.to(closing, in) // the answer told of another one
		return
	}
	switch in.Answer.Status {
	case protocol.StatusDone, protocol.StatusGone:
		if m.stray != 0 {
			m.session = 0 // nothing to ask; its answer ends the candidacy
			return
		}
		m.rest(in)
	default:
		m.retry(in)
	}
}

// strayed takes the answer to an Enter that was under way when the candidacy
// was left: it may have been carried out in a session that the client has
// opened by itself, which is then to be closed too.
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

// rest ends the candidacy. Who stands enters anew, after a while if this
// candidacy came to nothing.
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
