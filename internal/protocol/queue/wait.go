package queue

import "github.com/electd/elect/internal/protocol"

// Q3: wait for the entry just before this one to go. On any event of a watch, or without one for
// long, the queue is read again.

// listed handles the answer to List.
func (m *Machine) listed(p pending, in *protocol.Input, fx *protocol.Effects) {
	a := &in.Answer
	switch a.Status {
	case protocol.StatusDone:
	case protocol.StatusGone:
		m.leave(in)
		return
	default:
		if m.phase == verifying {
			m.phase = listing // the Touch before it has to be repeated
		}
		m.retry(in)
		return
	}
	now := in.Now.Boot
	own, missing := m.findOwn(a.Entries)
	switch {
	case own != nil && own.Order != m.own.Order:
		if !m.adopt(own, in) {
			return
		}
	case own == nil && m.phase == scanning:
		m.to(entering, in)
		return
	}
	if missing && !m.cfg.mutants.Has("no-verify") {
		m.leave(in)
		return
	}
	m.revision, m.mark = max(m.revision, a.Revision), a.Mark
	m.sight(&a.Mark, now)
	var first, before *protocol.Entry
	for i := range a.Entries {
		e := &a.Entries[i]
		if first == nil || e.Order < first.Order {
			first = e
		}
		if e.Order < m.own.Order && (before == nil || e.Order > before.Order) {
			before = e
		}
		// Q2: one Enter may have been carried out twice.
		if e.Order != m.own.Order && m.isOwn(e) && m.cfg.Dialect == ZooKeeper && !m.cfg.mutants.Has("own-predecessor") {
			m.ask(fx, protocol.Ask{Op: protocol.Leave, Entry: *e})
		}
	}
	if first != nil {
		m.say(first)
	}
	if m.ahead = before != nil; m.ahead {
		m.firstView = protocol.Never
		if m.cfg.mutants.Has("wrong-predecessor") {
			before = first
		}
		m.wait(first, before, in, fx)
		return
	}
	if m.firstView == protocol.Never {
		m.firstView = now // Q6: after the receipt
	}
	m.isFirst(p, in, fx)
}

// findOwn returns the lowest of this candidacy's entries, unless it is above the known one; and
// whether that one is missing.
func (m *Machine) findOwn(all []protocol.Entry) (own *protocol.Entry, missing bool) {
	missing = true
	for i := range all {
		e := &all[i]
		if e.Order == m.own.Order {
			missing = false
		}
		if m.isOwn(e) && e.Order != 0 && (own == nil || e.Order < own.Order) {
			own = e
		}
	}
	if own == nil {
		return nil, missing
	}
	switch {
	case m.own.Order == 0, own.Order < m.own.Order && !m.cfg.mutants.Has("own-predecessor"):
		return own, false
	}
	return nil, missing
}

// wait watches the predecessor and the own entry, and the touches of the predecessor if that is first.
func (m *Machine) wait(first, before *protocol.Entry, in *protocol.Input, fx *protocol.Effects) {
	m.phase = waiting
	if m.watch == 0 || m.watched != before.Order {
		m.watched = before.Order
		m.watch = m.ask(fx, protocol.Ask{Op: protocol.WatchEntry, Entry: *before, Revision: m.revision})
		m.touches = 0
	}
	m.watchTouches(first, fx)
	m.watchOwn(fx)
	m.pollAt = m.checkAt(in.Now.Boot, around(m.cfg.Poll, in.Rand))
}

// watchOwn watches the own entry, unless it is being watched.
func (m *Machine) watchOwn(fx *protocol.Effects) {
	if m.ownWatch == 0 {
		m.ownWatch = m.ask(fx, protocol.Ask{Op: protocol.WatchEntry, Entry: m.own, Revision: m.revision})
	}
}

// watchSaid handles an event of a watch. Only the first one counts: a driver may end a watch after
// its first event.
func (m *Machine) watchSaid(in *protocol.Input, fx *protocol.Effects) {
	a := &in.Answer
	own := a.Number == m.ownWatch
	if own {
		m.ownWatch = 0
	} else {
		m.watch, m.watched = 0, 0
	}
	seen := a.Status == protocol.StatusEvent || a.Status == protocol.StatusGone
	m.ahead = m.ahead && (own || !seen)
	switch {
	case m.phase == waiting && !own && m.cfg.mutants.Has("win-on-watch-event"):
		m.marked = true
		m.entrySeen(in.Now.Boot, in.Now.Boot)
		m.firstView = in.Now.Boot
		m.verifiedFirst(in, fx)
	case m.phase == waiting && seen:
		m.fails = 0
		m.to(listing, in)
	case m.phase == waiting:
		m.phase = listing
		m.retry(in)
	case m.phase == leading && m.cfg.Dialect == Etcd && seen:
		// Q7: is the entry gone? A new probe tells; one in flight may have been answered before.
		m.dropProbe(in)
		m.pollAt = in.Now.Boot
	case m.phase == leading && m.cfg.Dialect == Etcd:
		m.pollAt = min(m.pollAt, in.Now.Boot.Add(m.delay(0, in.Rand)))
	}
}

// probed handles the answer to a Verify or Touch beside the phase's own asks: of a waiter whose watches
// are silent, or of etcd's leader.
func (m *Machine) probed(p pending, in *protocol.Input, fx *protocol.Effects) {
	a, now := &in.Answer, in.Now.Boot
	gone := a.Status == protocol.StatusGone || a.Status == protocol.StatusConflict
	switch {
	case m.phase != waiting && m.phase != leading && m.phase != fencing:
	case !gone && a.Status != protocol.StatusDone:
		m.pollAt = now.Add(m.delay(0, in.Rand))
		if p.op == protocol.Touch {
			m.touchAt = m.pollAt
		}
	case m.phase == waiting:
		m.fails = 0
		if gone || a.Entry.Order == m.own.Order {
			m.ahead = false
			m.to(listing, in)
			return
		}
		m.say(&a.Entry)
		m.revision = max(m.revision, a.Revision) // what is older may be compacted
		m.watchTouches(&a.Entry, fx)
		m.pollAt = m.checkAt(now, around(m.cfg.Poll, in.Rand))
	case gone:
		m.lost(EntryGone, in, fx)
	case a.Entry.Order != m.own.Order:
		m.lost(Superseded, in, fx)
	default:
		m.revision = max(m.revision, a.Revision)
		if p.op == protocol.Touch || !m.marked || m.cfg.mutants.Has("reads-extend-a-touched-claim") || m.cfg.mutants.Has(olderRelease) {
			m.entrySeen(p.sent, now)
		}
		if m.cfg.Hold == 0 {
			m.pollAt = m.checkAt(now, around(m.cfg.Poll, in.Rand))
		}
		if m.phase == leading {
			m.confirmedBy(&m.pollAt, now)
			m.watchOwn(fx)
		}
	}
}
