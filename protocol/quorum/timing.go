package quorum

import (
	"slices"
	"time"

	"github.com/electd/elect/protocol"
)

// The times of R11. A leader that was not heard for Promise is taken for gone;
// candidates then start by rank, a slot apart, so that one election is over
// before the next begins. The leader gossips the ranking; without one, at a
// cold start, it is the order of priorities and ids.

// mostFailures bounds the back-off.
const mostFailures = 64

// firstTry: after a connection's end was seen, the first try that fails is
// repeated after a 2^-(firstTry-1)th of a slot, the next after twice that, until
// it is a slot.
const firstTry = 4

// rank is the own place among the successors, from 0.
func (m *Machine) rank() int {
	if len(m.ranking) > 0 {
		if i := slices.Index(m.ranking, m.cfg.Self.ID); i >= 0 {
			return i
		}
		return len(m.ranking)
	}
	return m.coldRank()
}

// stagger is the delay of the own rank. The first starts without any; others
// add a random part, for ranks that two of them see differently.
func (m *Machine) stagger() time.Duration {
	r := m.rank()
	if r == 0 {
		return 0
	}
	return time.Duration(r)*m.cfg.Slot + m.jitter()
}

// jitter is a random time below a quarter of a slot.
func (m *Machine) jitter() time.Duration {
	return time.Duration(m.rand % uint64(m.cfg.Slot/4+1))
}

// electIn sets the election timer.
func (m *Machine) electIn(d time.Duration, cause protocol.Reason) {
	m.electAt, m.cause = m.now.Boot.Add(d), cause
}

// hurry starts the election as early as the own rank allows: the leader is
// gone, by its word or by what was seen.
func (m *Machine) hurry(cause protocol.Reason) {
	if at := m.now.Boot.Add(m.stagger()); m.round.kind == idle && at < m.electAt {
		m.electAt, m.cause = at, cause
	}
}

// retry sets the timer after a round that failed. Where voters told how long
// they are still bound, it is for when a quorum has become free; otherwise the
// back-off is linear.
func (m *Machine) retry() {
	now := m.now.Boot
	free := m.freeAt()
	switch {
	case m.seesDeath():
		// Others are about to see what this one saw: the kernel of a process that
		// died tells all of them within a millisecond or so, and one who asks
		// between two of these is refused. So the first tries come soon.
		m.failed++
		if soon := firstTry - int(m.failed); soon > 0 {
			m.electIn(m.cfg.Slot>>soon+m.jitter()/4, Again)
		} else {
			m.electIn(time.Duration(1-soon)*m.cfg.Slot+m.jitter(), Again)
		}
	case free > now && free != protocol.Never:
		m.failed = 0
		m.electIn(free.Sub(now)+m.stagger(), Again)
	default:
		m.failed = min(m.failed+1, mostFailures)
		m.electIn(time.Duration(m.failed+uint64(m.rank()))*m.cfg.Slot+m.jitter(), Again)
	}
}

// seesDeath reports whether the leader's last connection was closed, and not so
// long ago that the others must have seen it too.
func (m *Machine) seesDeath() bool {
	return m.heard.closed && m.failed < uint64(protocol.MaxVoters)
}

// prolong has a round go on while the own vote is being saved: how long that takes
// tells how long the votes of others may take, and the next round would begin with
// another save on the same disk.
func (m *Machine) prolong() bool {
	limit := m.round.sent.Add(m.cfg.Promise)
	if m.round.kind != voting || m.role == protocol.Leader || m.saved >= m.termSave || m.now.Boot >= limit {
		return false
	}
	m.round.ends = limit
	return true
}

// slowed gives an election the time that the own disk has shown to be needed: a
// candidate waits for the votes of others once more for as long as its own has
// taken, a promise at most, and who has voted for another gives that one a slot
// from then on.
func (m *Machine) slowed() {
	now := m.now.Boot
	switch r := &m.round; {
	case m.role == protocol.Leader:
	case r.kind == voting:
		took := m.cfg.Promise
		if r.sent.Add(took) > now {
			took = now.Sub(r.sent)
		}
		r.ends = now.Add(max(m.roundTime(), took))
	case r.kind == idle && m.ballot.VotedFor.ID != "" && m.ballot.VotedFor != m.cfg.Self:
		m.electAt = max(m.electAt, now.Add(time.Duration(1+m.failed)*m.cfg.Slot+m.stagger()))
	}
}

// roundTime is how long answers are awaited. It grows with every failure: a
// disk that is slower than the slot allows must not make elections fail for ever.
func (m *Machine) roundTime() time.Duration {
	return time.Duration(2+m.failed) * m.cfg.Slot
}
