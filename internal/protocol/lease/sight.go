package lease

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// note records what counts of a record even if it is stale.
func (m *Machine) note(version uint64, r *protocol.Record) {
	m.top = max(m.top, r.Count, r.Free.Count)
	m.newest = max(m.newest, version)
	m.floor.raise(m.store, version, r)
	if m.stage == acquiring && !m.mine(r) && max(r.Count, r.Free.Count) >= m.own.count {
		m.own.passed = true
	}
	if r.Duration <= longest { // no participant may have more: the value is invalid
		m.longest = max(m.longest, r.Duration)
	}
	if r.Holder != "" && r.Count >= m.held.Count {
		m.held = protocol.FreeMark{Holder: r.Holder, Nonce: r.Nonce, Count: r.Count}
	}
}

// see is L3: a version that differs from the last one is a new sight, from now, which is after the
// receipt. So is another record under the same version, because a store that lost versions may give
// them out again. It reports whether the sight is new.
func (m *Machine) see(version uint64, r *protocol.Record, now protocol.Instant) bool {
	if version != 0 {
		m.note(version, r)
	}
	s := &m.seen
	if s.any && s.version == version && (version == 0 || s.record == *r) && (s.store == m.store || m.c.mutants.Has("store-change-ignored")) {
		return false
	}
	if !(m.c.mutants.Has("no-sight-on-change") && s.any && s.record.Nonce == r.Nonce) {
		s.at = now
	}
	s.any, s.version, s.store, s.record = true, version, m.store, protocol.Record{}
	if version != 0 {
		s.record = *r
	}
	m.lapsed = false
	return true
}

// sameStore reports whether the store has not changed between the write and the sight of the record
// (L5).
func (m *Machine) sameStore() bool {
	return m.seen.record.Store == m.seen.store || m.c.mutants.Has("store-change-ignored")
}

// wait is W, how long the record that was seen may still be held (L4). It is the longest lease
// possible where the record does not tell whose lease may be left: it has no holder, or a duration
// that no participant may have, or is older than one that was seen, or the store has lost what came
// after it.
func (m *Machine) wait() time.Duration {
	r := &m.seen.record
	if m.c.mutants.Has("wait-own-duration") {
		return m.c.Duration
	}
	if r.Holder != "" && (r.Duration <= 0 || r.Duration > longest) {
		return m.unknown()
	}
	w := max(r.Duration, m.c.Duration)
	if r.Holder == "" || m.old() || !m.sameStore() {
		w = max(w, m.unknown())
	}
	return w
}

// unknown is the longest lease possible (L5).
func (m *Machine) unknown() time.Duration { return max(m.c.Duration, m.c.MaxDuration, m.longest) }

// lapse is when the record that was seen has lapsed.
//
// Proof (L4): let the last write that landed on this tenure have been sent at s. It landed before
// this version was first seen here, at t. Its claim ends by s + D/(1+ρ) in true time, the wait not
// before t + W/(1+ρ), and W ≥ D. Later writes fail by their version once this participant's write
// has landed; one that lands before makes this write fail.
func (m *Machine) lapse() protocol.Instant { return after(m.seen.at, m.wait()) }

// isFree is L5: the record is free at once only if it has no holder, its mark names the last tenure
// of this record and the last one that was seen, and the store is not known to have lost anything
// since. A release by another program leaves no such mark.
func (m *Machine) isFree() bool {
	r := &m.seen.record
	if r.Holder != "" {
		return false
	}
	if m.c.mutants.Has("empty-without-mark") {
		return true
	}
	if r.Free.Holder == "" || !m.sameStore() {
		return false
	}
	if m.c.mutants.Has("mark-of-another") {
		return true
	}
	return !m.old() && r.Free.Count == r.Count && (r.Free.Count > m.held.Count || r.Free == m.held)
}

// isEnded is L5: the record shows an attempt of this incarnation, no work runs under it any more,
// and no later tenure was ever seen: a later one may go on although somebody has put the old record
// back.
func (m *Machine) isEnded() bool {
	r := &m.seen.record
	if m.c.mutants.Has("own-name-is-mine") && r.Holder == m.c.Self {
		return true
	}
	return isTenure(r, m.ended) && m.held == m.ended && m.top == m.ended.Count && m.sameStore() && !m.old()
}

// isTenure reports whether that tenure holds a record. A record without a holder shows none.
func isTenure(r *protocol.Record, t protocol.FreeMark) bool {
	return t.Holder != "" && r.Holder == t.Holder && r.Nonce == t.Nonce && r.Count == t.Count
}

// entitled reports whether the version that was seen may be replaced now.
func (m *Machine) entitled(now protocol.Instant) bool {
	return m.isEnded() || m.isFree() || now >= m.lapse()
}

// absent reports whether the record has to be created first.
func (m *Machine) absent() bool { return m.seen.version == 0 && !m.c.mutants.Has("create-held") }

// assess sets when to write, if nothing changes, and when to read again.
func (m *Machine) assess(now protocol.Instant, rand uint64) {
	m.writeAt = protocol.Never
	if m.eligible() && m.seen.any {
		delay := herd(m.c.spread(), draw(rand, forHerd))
		switch {
		case m.absent():
			m.writeAt = after(now, delay)
		case m.isEnded():
			m.writeAt = now
		case m.isFree():
			if m.yield && m.seen.record.Free.Nonce == m.ended.Nonce {
				delay += 2 * m.c.Poll // all others have read by then
			}
			m.writeAt = after(now, delay)
		default:
			m.writeAt = after(max(now, m.lapse()), delay)
		}
	}
	m.poll(now, rand)
}

// poll sets when to read again (L10). A read that might still be in flight when the write is due is
// skipped: the write finds out the same.
func (m *Machine) poll(now protocol.Instant, rand uint64) {
	m.readAt = after(now, around(m.c.Poll, draw(rand, forPoll)))
	if m.writeAt != protocol.Never && m.readAt >= after(m.writeAt, -m.c.RenewEvery) {
		m.readAt = protocol.Never
	}
}

// later is a random pause from now.
func (m *Machine) later(now protocol.Instant, rand uint64) protocol.Instant {
	return after(now, around(m.c.pause(), draw(rand, forPause)))
}
