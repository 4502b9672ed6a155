package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// promise is a voter's promise to let no participant but holder, in that incarnation, act before
// until.
type promise struct {
	holder      protocol.Voter
	incarnation uint64
	term, seq   uint64 // of the latest heartbeat that it was given for
	until       protocol.Instant
}

// promises are those of a voter, at most one to each incarnation. When there is no room, the one
// that ends first becomes part of floor, which is owed to no particular holder: it is reported, but
// cannot be released.
type promises struct {
	n     int
	all   [protocol.MaxVoters]promise
	floor protocol.Instant
}

func (p *promises) clear() { *p = promises{floor: protocol.Always} }

// to finds the promise to an incarnation, or nil.
func (p *promises) to(holder protocol.Voter, incarnation uint64) *promise {
	for i := range p.all[:p.n] {
		if w := &p.all[i]; w.incarnation == incarnation && w.holder == holder {
			return w
		}
	}
	return nil
}

// remove forgets the i-th promise.
func (p *promises) remove(i int) {
	p.n--
	p.all[i] = p.all[p.n]
	p.all[p.n] = promise{}
}

// room returns a free place.
func (p *promises) room(now protocol.Instant) *promise {
	if p.n == len(p.all) {
		first := 0
		for i := range p.all {
			if p.all[i].until < p.all[first].until {
				first = i
			}
		}
		if p.all[first].until > now {
			p.floor = max(p.floor, p.all[first].until)
		}
		p.remove(first)
	}
	p.n++
	return &p.all[p.n-1]
}

// promise extends the promise to a leader to d from now (R7). A promise never ends earlier than it
// did.
func (m *Machine) promise(holder protocol.Voter, msg *protocol.Message, d time.Duration) {
	now := m.now.Boot
	w := m.promises.to(holder, msg.Incarnation)
	if w == nil {
		w = m.promises.room(now)
		*w = promise{holder: holder, incarnation: msg.Incarnation, until: protocol.Always}
	}
	w.term, w.seq = msg.Term, msg.Seq
	w.until = max(w.until, now.Add(d))
	if m.cfg.mutants.Has("promise-not-saved") {
		return
	}
	m.given = max(m.given, d)
	if d > m.ballot.MaxPromise {
		m.ballot.MaxPromise = d
		m.promiseSave = m.touch()
	}
}

// owed is until when the voter is promised to others than a candidate's incarnation: earlier
// holders, the candidate's own earlier incarnations, and all holders from before its start.
func (m *Machine) owed(candidate protocol.Voter, incarnation uint64) protocol.Instant {
	until := max(m.bootUntil, m.promises.floor)
	latest := 0
	for i := range m.promises.all[:m.promises.n] {
		w := &m.promises.all[i]
		if w.holder == candidate && (w.incarnation == incarnation || m.cfg.mutants.Has("own-earlier-life-ignored")) {
			continue
		}
		if m.cfg.mutants.Has("residual-of-holder-only") {
			if w.term >= m.promises.all[latest].term {
				latest = i
			}
			continue
		}
		until = max(until, w.until)
	}
	if m.cfg.mutants.Has("residual-of-holder-only") && m.promises.n > 0 {
		if w := &m.promises.all[latest]; w.holder != candidate || w.incarnation != incarnation {
			until = max(until, w.until)
		}
	}
	return until
}

// residual is the time that is left of owed.
func (m *Machine) residual(candidate protocol.Voter, incarnation uint64) time.Duration {
	return left(m.owed(candidate, incarnation), m.now.Boot)
}

// left is the time from now to then, at least 0.
func left(then, now protocol.Instant) time.Duration {
	if then <= now {
		return 0
	}
	return min(then.Sub(now), LongestPromise)
}
