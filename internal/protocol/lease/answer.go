package lease

import "github.com/electd/elect/internal/protocol"

// replied handles the answer to the operation in flight, or one of the watch.
func (m *Machine) replied(in *protocol.Input, fx *protocol.Effects) {
	a := &in.Answer
	switch {
	case a.Number == 0:
	case a.Number == m.watch.number:
		m.watched(in)
	case a.Number == m.flight.number:
		f := m.flight
		m.flight = flight{}
		if a.Status == protocol.StatusDone && a.Store != "" {
			m.store = a.Store
		}
		switch f.kind {
		case look:
			m.looked(&f, in, fx)
		case create:
			m.created(&f, in)
		case take:
			m.taken(&f, in, fx)
		case free:
			m.freed(&f, in)
		}
	case a.Status == protocol.StatusEvent && a.Version != 0:
		m.note(a.Version, &a.Record) // of a watch that has ended: not a sight, but the record was seen
	}
}

// looked handles the answer to a read.
func (m *Machine) looked(f *flight, in *protocol.Input, fx *protocol.Effects) {
	a, now := &in.Answer, in.Now.Boot
	if a.Status != protocol.StatusDone {
		switch {
		case m.stage == fencing && m.claimEnd == protocol.Always:
		case m.stage == watching && !m.doubt && m.seen.any:
			m.poll(now, in.Rand)
		default:
			m.readAt = m.later(now, in.Rand)
		}
		return
	}
	changed := m.see(a.Version, &a.Record, now)
	switch {
	case m.stage == watching:
	case m.wentBack(f, a.Version, &a.Record):
		m.lost(WentBack, in, fx)
		return
	default:
		m.resolve(in, fx)
		return
	}
	doubt := m.doubt
	m.doubt = false
	switch {
	case changed:
		m.assess(now, in.Rand)
	case doubt: // the write failed, but nothing else is there
		m.assess(now, in.Rand)
		if m.writeAt != protocol.Never {
			m.writeAt = max(m.writeAt, m.later(now, in.Rand))
		}
	default:
		m.poll(now, in.Rand)
	}
}

// mine reports whether a record shows this participant's tenure.
func (m *Machine) mine(r *protocol.Record) bool {
	return r.Holder == m.c.Self && r.Nonce == m.own.nonce && r.Count == m.own.count
}

// resolve is L2: a read decides the outcome of the writes before.
func (m *Machine) resolve(in *protocol.Input, fx *protocol.Effects) {
	a, now := &in.Answer, in.Now.Boot
	there := a.Version != 0
	switch {
	case there && m.mine(&a.Record):
		m.landed(a.Version, a.Record.Attempt, in, fx)
	case there && m.stage == releasing && m.c.mutants.Has("release-without-nonce-check") && a.Record.Holder != "":
		m.doubt, m.own.version, m.own.landed, m.writeAt = false, a.Version, true, now
	case there && !m.own.landed && a.Version == m.own.version && a.Record == m.own.base && m.store == m.own.store:
		// Undecided: one of the attempts may land yet. Another one does no harm: the first to land
		// makes the others fail.
		m.doubt, m.readAt, m.writeAt = false, protocol.Never, now
		if m.tried.n > 1 {
			m.writeAt = m.later(now, in.Rand)
		}
	case there:
		m.lost(Superseded, in, fx)
	default:
		m.lost(Deleted, in, fx)
	}
}

// unclear handles a write whose outcome is not known, or which the store calls a conflict. A
// conflict proves nothing either: libraries repeat requests.
func (m *Machine) unclear(now protocol.Instant) {
	m.doubt, m.readAt = true, now
	if m.stage == fencing && m.claimEnd == protocol.Always {
		m.readAt = protocol.Never // the record is read when the work has returned
	}
}

// created handles the answer to the creation of the record.
func (m *Machine) created(f *flight, in *protocol.Input) {
	a, now := &in.Answer, in.Now.Boot
	switch {
	case a.Status == protocol.StatusDone && a.Version != 0:
		m.see(a.Version, &f.record, now)
		m.assess(now, in.Rand)
	case a.Status == protocol.StatusRefused:
		m.assess(now, in.Rand)
		if m.writeAt != protocol.Never {
			m.writeAt = max(m.writeAt, m.later(now, in.Rand))
		}
	default:
		m.unclear(now)
	}
}

// taken handles the answer to an acquisition or a renewal.
func (m *Machine) taken(f *flight, in *protocol.Input, fx *protocol.Effects) {
	a, now := &in.Answer, in.Now.Boot
	done := a.Status == protocol.StatusDone && a.Version != 0
	if done {
		m.see(a.Version, &f.record, now)
	}
	switch {
	case m.stage == watching: // the tenure ended in the meantime
		if done {
			m.assess(now, in.Rand)
		} else if a.Status != protocol.StatusRefused {
			m.unclear(now)
		}
	case done && m.wentBack(f, a.Version, &f.record):
		m.lost(WentBack, in, fx)
	case done:
		m.landed(a.Version, f.record.Attempt, in, fx)
	case a.Status == protocol.StatusConflict && m.c.mutants.Has("conflict-is-failure"):
		m.lost(Superseded, in, fx)
	case a.Status == protocol.StatusRefused:
		m.refused(f, in)
	default:
		if a.Status == protocol.StatusUnknown && m.c.mutants.Has("unknown-is-done") {
			m.landed(m.own.version, f.record.Attempt, in, fx)
		}
		m.unclear(now)
	}
}

// refused handles a write of this tenure that was never made.
func (m *Machine) refused(f *flight, in *protocol.Input) {
	m.tried.remove(f.record.Attempt)
	now := in.Now.Boot
	switch {
	case m.stage == releasing && !m.own.landed && m.tried.n == 0:
		m.abandon(now, in.Rand) // there is nothing to release
	case m.stage == fencing && m.claimEnd == protocol.Always:
	default:
		m.writeAt = m.later(now, in.Rand)
	}
}

// freed handles the answer to a release.
func (m *Machine) freed(f *flight, in *protocol.Input) {
	a, now := &in.Answer, in.Now.Boot
	switch {
	case a.Status == protocol.StatusDone:
		if a.Version != 0 {
			m.see(a.Version, &f.record, now)
		}
		m.abandon(now, in.Rand)
	case a.Status == protocol.StatusRefused:
		m.writeAt = m.later(now, in.Rand)
	default:
		m.unclear(now)
	}
}

// watched handles an event of the watch. It may be late, so it is a sight for a participant that
// waits (L3) and only a hint for a holder. A version older than the last one seen is a hint for
// both: the event is late, or the store has gone back.
func (m *Machine) watched(in *protocol.Input) {
	a, now := &in.Answer, in.Now.Boot
	if a.Status != protocol.StatusEvent {
		m.watch.number = 0
		m.watch.pause = min(max(2*m.watch.pause, m.c.pause()), 8*m.c.Poll)
		m.watch.at = after(now, around(m.watch.pause, draw(in.Rand, forWatch)))
		return
	}
	m.watch.pause = 0
	if a.Store != "" {
		m.store = a.Store
	}
	there := a.Version != 0 // otherwise it was deleted, or this is an event without a record
	if there {
		m.note(a.Version, &a.Record)
	}
	switch {
	case m.stage == watching && (!there || m.floor.above(m.store, a.Version, &a.Record, m.c.GlobalVersions)):
		m.readAt = now
	case m.stage == watching:
		if m.see(a.Version, &a.Record, now) && !m.doubt {
			m.assess(now, in.Rand)
		}
	case m.stage == holding && there && (a.Record.Count < m.own.count || m.mine(&a.Record)):
		// It is from before, or this participant's own.
	case m.stage == holding:
		m.readAt = now
	}
}
