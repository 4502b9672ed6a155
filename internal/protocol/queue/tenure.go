package queue

import "github.com/electd/elect/internal/protocol"

// The reasons why a tenure ended, in the order Stop.
const (
	Resigned                    = protocol.Recalled
	Withdrawn                   = protocol.Withdrawn
	Unhealthy                   = protocol.Unhealthy
	Expired     protocol.Reason = "expired"      // the claim's end came before a renewal's answer
	EntryGone   protocol.Reason = "entry-gone"   // its entry was deleted
	SessionGone protocol.Reason = "session-gone" // the store has ended the session, or the client has opened another
	Superseded  protocol.Reason = "superseded"   // another entry is first
	ClockJump   protocol.Reason = "clock-jump"   // the machine slept, or a clock was set
)

// elect begins the term; work that must be exclusive waits for lead.
func (m *Machine) elect(in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	m.phase, m.retryAt, m.notBefore = leading, now, m.holdOff()
	m.leader = protocol.Leadership{ID: m.cfg.Self, Term: m.own.Order}
	m.watch, m.watched, m.touches = 0, 0, 0
	m.probe = pending{} // asked during the wait: the answer may be from then
	m.renewAt = min(m.renewAt, now.Add(m.cfg.renewEvery(leading)))
	if m.cfg.Hold == 0 {
		m.pollAt = m.checkAt(now, around(m.cfg.Poll, in.Rand))
	}
	if m.cfg.Dialect == Etcd { // in ZooKeeper every Touch would fire it
		m.watchOwn(fx)
	}
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: m.own.Order})
}

// lead begins the tenure, once the hold-off is over and the mark is written.
// The claim has been checked in this step.
func (m *Machine) lead(now protocol.Instant, fx *protocol.Effects) {
	if m.phase != leading || m.active || now < m.notBefore || m.cfg.Hold > 0 && !m.marked {
		return
	}
	m.active, m.led, m.losses = true, true, 0
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Lead, Token: m.own.Order})
}

// lost ends the tenure or the candidacy.
func (m *Machine) lost(why protocol.Reason, in *protocol.Input, fx *protocol.Effects) {
	switch m.phase {
	case leading:
		m.end(why, in, fx)
	case fencing:
		m.lapse(in)
	case freeing, closing, idle, halted:
	default:
		m.leave(in)
	}
}

// end orders Stop. After a command the claim is renewed until the work has returned; otherwise it
// is over.
func (m *Machine) end(why protocol.Reason, in *protocol.Input, fx *protocol.Effects) {
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.own.Order, Reason: why})
	m.phase, m.active = fencing, false
	m.dropProbe(in)
	m.main = pending{}
	m.asksConfirm = m.done
	switch why {
	case Resigned, Withdrawn, Unhealthy:
	default:
		m.lapse(in)
	}
	if m.cfg.mutants.Has("free-outside-the-delete") && m.marking {
		m.ask(fx, protocol.Ask{Op: protocol.Mark, Entry: m.own, SetMark: true, Mark: m.free()})
	}
	if m.cfg.mutants.Has("release-before-join") {
		m.leave(in)
	}
}

// confirm asks for a proof by a round trip that begins now or later: Verify or Touch in etcd, Touch in
// ZooKeeper.
func (m *Machine) confirm(in *protocol.Input) {
	if m.phase != leading {
		return
	}
	m.asksConfirm++
	if m.cfg.Dialect == Etcd {
		m.pollAt = in.Now.Boot
	} else {
		m.renewAt = in.Now.Boot
	}
}

// confirmedBy counts the commands that the answered ask covers; for later ones, the next ask is
// due.
func (m *Machine) confirmedBy(at *protocol.Instant, now protocol.Instant) {
	if m.phase != leading {
		return
	}
	m.done = max(m.done, m.covers)
	if m.asksConfirm > m.done {
		*at = now
	}
}
