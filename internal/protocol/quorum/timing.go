package quorum

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The times of R11. A leader that was not heard for Promise is taken for gone;
// candidates then start by rank, a slot apart, so that one election is over
// before the next begins. The leader gossips the ranking; without one, at a
// cold start, it is the order of priorities and ids.

// mostFailures bounds the back-off.
const mostFailures = 64

// mostDoubled bounds how often the time of a vote is doubled.
const mostDoubled = 20

// slowest is how many promises a vote may take on the slowest disk.
const slowest = 4

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

// prolong has a round go on until the own vote is saved, or cannot be: how long that
// takes tells how long the votes of others may take, and the next round would begin
// with another save on the same disk. Nobody waits for this one meanwhile: it votes
// for who asks in a higher term, and follows who leads.
func (m *Machine) prolong() bool {
	if m.round.kind != voting || m.role == protocol.Leader || m.saved >= m.termSave {
		return false
	}
	m.round.ends = protocol.Never
	return true
}

// slowed gives an election the time that the own disk has shown to be needed: for
// as long as the own vote has taken a candidate waits once more for those of others,
// and who has voted for another lets that one win.
func (m *Machine) slowed() {
	now := m.now.Boot
	switch r := &m.round; {
	case m.role == protocol.Leader:
	case r.kind == voting:
		r.ends = now.Add(max(m.roundTime(voting), m.took(r.sent)))
	case r.kind == idle && m.awaited():
		m.electAt = max(m.electAt, now.Add(max(m.doubled(m.voted), m.took(m.votedAt))+m.stagger()))
	}
}

// awaited reports whether a vote for another, given in this life, is not durable yet.
func (m *Machine) awaited() bool {
	return m.saved < m.termSave && m.bootSave < m.termSave && m.ballot.VotedFor.ID != "" && m.ballot.VotedFor != m.cfg.Self
}

// took is how long a vote took that is durable now, or as long as patience goes.
func (m *Machine) took(since protocol.Instant) time.Duration {
	if since.Add(m.patient()) <= m.now.Boot {
		return m.patient()
	}
	return m.now.Boot.Sub(since)
}

// roundTime is how long answers are awaited. It grows with every failure: disks
// that are slower than the slot allows must not make elections fail for ever. That of
// votes doubles, because how slow the disks of others are is not known, and each
// round that ends too soon has them save once more.
func (m *Machine) roundTime(kind roundKind) time.Duration {
	if kind == asking || m.role == protocol.Leader { // no disk is in it, or a lease is running out
		return time.Duration(2+m.failed) * m.cfg.Slot
	}
	return m.doubled(1 + m.voted)
}

// doubled is a slot that was doubled so often, or as long as patience goes.
func (m *Machine) doubled(times uint64) time.Duration {
	return min(m.cfg.Slot<<min(times, mostDoubled), m.patient())
}

// patient is for how long a vote is waited for at most.
func (m *Machine) patient() time.Duration { return slowest * m.cfg.Promise }
