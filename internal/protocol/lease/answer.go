package lease

import "github.com/electd/elect/internal/protocol"

// replied takes an answer: that of the one operation in flight, or the watch's.
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
		m.note(a.Version, &a.Record) // of a watch that has ended: no sight, and yet it was seen
	}
}

// looked takes the answer to a read.
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
	case doubt: // the write failed, and yet nothing else is there
		m.assess(now, in.Rand)
		if m.writeAt != protocol.Never {
			m.writeAt = max(m.writeAt, m.later(now, in.Rand))
		}
	default:
		m.poll(now, in.Rand)
	}
}

// mine says whether a record shows the own tenure.
func (m *Machine) mine(r *protocol.Record) bool {
	return r.Holder == m.c.Self && r.Nonce == m.own.nonce && r.Count == m.own.count
}

// resolve is L2: what was read says what became of the writes before.
func (m *Machine) resolve(in *protocol.Input, fx *protocol.Effects) {
	a, now := &in.Answer, in.Now.Boot
	there := a.Version != 0
	switch {
	case there && m.mine(&a.Record):
		m.landed(a.Version, a.Record.Attempt, in, fx)
	case there && m.stage == releasing && m.c.mutants.Has("release-without-nonce-check") && a.Record.Holder != "":
		m.doubt, m.own.version, m.own.landed, m.writeAt = false, a.Version, true, now
	case there && !m.own.landed && a.Version == m.own.version && a.Record == m.own.base && m.store == m.own.store:
		// Undecided: one of the attempts may land yet. Another one does no
		// harm: whichever lands first makes the others fail.
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

// unclear is told that the outcome of a write is not known, or that the store
// says it conflicts, which proves nothing either: libraries repeat requests.
func (m *Machine) unclear(now protocol.Instant) {
	m.doubt, m.readAt = true, now
	if m.stage == fencing && m.claimEnd == protocol.Always {
		m.readAt = protocol.Never // it is read when the work has returned
	}
}

// created takes the answer to the making of the record.
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

// taken takes the answer to an acquisition or a renewal.
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

// refused is told that a write of the own tenure was never made.
func (m *Machine) refused(f *flight, in *protocol.Input) {
	m.tried.remove(f.record.Attempt)
	now := in.Now.Boot
	switch {
	case m.stage == releasing && !m.own.landed && m.tried.n == 0:
		m.abandon(now, in.Rand) // there is nothing to set free
	case m.stage == fencing && m.claimEnd == protocol.Always:
	default:
		m.writeAt = m.later(now, in.Rand)
	}
}

// freed takes the answer to a release.
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

// watched takes what a watch tells. It may be late, so it is a sight for one
// that waits (L3) and no more than a hint for a holder. What is older than what
// was seen is a hint for both: it is late, or the store has gone back.
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
	there := a.Version != 0 // otherwise it was deleted, or this is a mere wake-up
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
		// It is from before, or our own.
	case m.stage == holding:
		m.readAt = now
	}
}
