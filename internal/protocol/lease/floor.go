package lease

import "github.com/electd/elect/internal/protocol"

// floor is the latest record seen of one incarnation of the store. A store that shows less in a
// later answer has gone back: it was restored from a backup, or an asynchronous replica has taken
// over.
type floor struct {
	store   string
	count   uint64
	version uint64 // the greatest with that count
	nonce   protocol.Nonce
	attempt uint64 // the greatest with that count and nonce
}

// raise takes a record that was seen into account. A greater count is later whatever its version,
// so that a store which has gone back is accepted again when it goes on.
func (f *floor) raise(store string, version uint64, r *protocol.Record) {
	if f.store != store || r.Count > f.count {
		*f = floor{store: store, count: r.Count}
	}
	if r.Count < f.count {
		return
	}
	f.version = max(f.version, version)
	if r.Nonce != f.nonce {
		f.nonce, f.attempt = r.Nonce, 0
	}
	f.attempt = max(f.attempt, r.Attempt)
}

// above reports whether the floor is later than a record. It does not apply to another incarnation.
// global is Config.GlobalVersions.
func (f *floor) above(store string, version uint64, r *protocol.Record, global bool) bool {
	switch {
	case version == 0 || store != f.store:
		return false
	case r.Count != f.count:
		return r.Count < f.count
	default:
		return global && version < f.version || r.Nonce == f.nonce && r.Attempt < f.attempt
	}
}

// wentBack reports whether the answer to an ask, for a tenure that has landed, shows that the store
// has gone back. It compares with what had been seen when the ask was sent: a watch may overtake an
// answer.
func (m *Machine) wentBack(f *flight, version uint64, r *protocol.Record) bool {
	if m.stage == watching || m.stage == acquiring && !m.own.landed || m.c.mutants.Has("gone-back-ignored") {
		return false
	}
	return f.floor.above(m.store, version, r, m.c.GlobalVersions)
}

// old reports whether the record that was seen is older than an earlier one: somebody has put it
// back, or the store has gone back. It does not show what was lost.
func (m *Machine) old() bool {
	s := &m.seen
	if s.version == 0 {
		return false
	}
	if s.record.Count < m.top {
		return !m.c.mutants.Has("put-back-is-current")
	}
	return m.floor.above(s.store, s.version, &s.record, m.c.GlobalVersions) && !m.c.mutants.Has("older-renewal-is-current")
}
