package lease

import "github.com/electd/elect/internal/protocol"

// joined handles the return of a term's work: only now may another participant lead sooner than the
// lease says.
func (m *Machine) joined(token uint64, in *protocol.Input) {
	if m.stage != fencing || token != m.own.count {
		return
	}
	now := in.Now.Boot
	orderly := !m.eligible()
	switch m.own.stop {
	case Resigned:
		orderly, m.yield = true, true
	case Withdrawn, Unhealthy:
		orderly = true
	}
	if m.own.gone || !orderly {
		// If the record is still held it is taken again at once, under another count (L5).
		m.abandon(now, in.Rand)
		return
	}
	m.release(now)
}

// release begins L9.
func (m *Machine) release(now protocol.Instant) {
	m.stage, m.claimEnd = releasing, protocol.Always
	m.readAt = protocol.Never
	m.retry(now)
}

// setFree is L9: it writes the record free on the version that is known to be this participant's. A
// cancelled acquisition is written free too, and fails by that if it has not landed yet. What it
// would have replaced was free, or had lapsed, so the holder named there leads no more.
func (m *Machine) setFree(fx *protocol.Effects) {
	m.attempt++
	r := protocol.Record{Nonce: m.own.nonce, Count: m.own.count, Attempt: m.attempt, Duration: m.c.Duration, Store: m.own.store}
	r.Free = protocol.FreeMark{Holder: m.c.Self, Nonce: m.own.nonce, Count: m.own.count}
	if !m.own.landed {
		b := &m.own.base
		r.Count, r.Duration, r.Free = b.Count, b.Duration, b.Free
		if b.Holder != "" {
			r.Free = protocol.FreeMark{Holder: b.Holder, Nonce: b.Nonce, Count: b.Count}
		}
	}
	if m.c.mutants.Has("delete-on-release") {
		m.flight = flight{kind: free, record: r}
		m.flight.number = m.ask(fx, protocol.Ask{Op: protocol.Delete, Version: m.own.version})
		return
	}
	m.put(fx, free, m.own.version, r)
}
