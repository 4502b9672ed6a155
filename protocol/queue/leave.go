package queue

import "github.com/electd/elect/protocol"

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
	m.retryAt = in.Now.Boot
	switch {
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
	case m.session != 0:
		m.phase = closing
	default:
		m.rest(in)
	}
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
