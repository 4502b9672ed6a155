package lease

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// note takes from a record what is worth knowing even if it is stale.
func (m *Machine) note(version uint64, r *protocol.Record) {
	m.top = max(m.top, r.Count, r.Free.Count)
	m.newest = max(m.newest, version)
	m.floor.raise(m.store, version, r)
	if m.stage == acquiring && !m.mine(r) && max(r.Count, r.Free.Count) >= m.own.count {
		m.own.passed = true
	}
	if r.Duration <= longest { // no participant may have more: it is garbage
		m.longest = max(m.longest, r.Duration)
	}
	if r.Holder != "" && r.Count >= m.held.Count {
		m.held = protocol.FreeMark{Holder: r.Holder, Nonce: r.Nonce, Count: r.Count}
	}
}

// see is L3: a version that differs from the last one is a new sight, from now,
// which is after the receipt. So is another record under the same version, which
// a store that lost some may give again. It says whether it was one.
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

// sameStore says whether the store has not changed between the writing of what
// was seen and the seeing (L5).
func (m *Machine) sameStore() bool {
	return m.seen.record.Store == m.seen.store || m.c.mutants.Has("store-change-ignored")
}

// wait is W, how long what was seen may still be somebody's (L4). Where the
// record does not tell whose lease may be left, because it has no holder, or a
// duration that no participant may have, or is older than one that was seen, or
// because the store has lost what came after it, it is the longest there may be.
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

// unknown is how long a lease may be of which nothing is known (L5).
func (m *Machine) unknown() time.Duration { return max(m.c.Duration, m.c.MaxDuration, m.longest) }

// lapse is when what was seen has lapsed.
//
// Proof (L4): let the last write that landed on this tenure have been sent at s.
// It landed before this version was first seen here, at t. Its claim ends by
// s + D/(1+ρ) in true time, the wait not before t + W/(1+ρ), and W ≥ D. Whatever
// was sent later fails by its version once our own write has landed, and before
// that it makes ours fail.
func (m *Machine) lapse() protocol.Instant { return after(m.seen.at, m.wait()) }

// isFree is L5: free at once only if there is no holder, the mark is about the
// last tenure of this very record and of the last one that was seen, and the
// store has not lost anything since, as far as that can be seen. A foreign release leaves no such mark.
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

// isEnded is L5: the record shows an own attempt at a tenure of this very life,
// under which nothing runs any more, and no later tenure was ever seen: one that
// was may go on though somebody has put the old record back.
func (m *Machine) isEnded() bool {
	r := &m.seen.record
	if m.c.mutants.Has("own-name-is-mine") && r.Holder == m.c.Self {
		return true
	}
	return isTenure(r, m.ended) && m.held == m.ended && m.top == m.ended.Count && m.sameStore() && !m.old()
}

// isTenure says whether a record is held by that tenure. Nobody's is none.
func isTenure(r *protocol.Record, t protocol.FreeMark) bool {
	return t.Holder != "" && r.Holder == t.Holder && r.Nonce == t.Nonce && r.Count == t.Count
}

// entitled says whether the version that was seen may be replaced now.
func (m *Machine) entitled(now protocol.Instant) bool {
	return m.isEnded() || m.isFree() || now >= m.lapse()
}

// absent says whether the record has to be made first.
func (m *Machine) absent() bool { return m.seen.version == 0 && !m.c.mutants.Has("create-held") }

// assess says when to write, if nothing changes, and when to look again.
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
				delay += 2 * m.c.Poll // all others have looked by then
			}
			m.writeAt = after(now, delay)
		default:
			m.writeAt = after(max(now, m.lapse()), delay)
		}
	}
	m.poll(now, rand)
}

// poll says when to look again (L10). A look that might still be under way
// when the write is due is left out: the write finds out as much.
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
