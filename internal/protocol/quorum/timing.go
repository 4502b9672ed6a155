package quorum

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The times of R11. A leader that was not heard for Promise counts as gone. Candidates then start
// by rank, a slot apart, so that one election is over before the next begins. The leader's
// heartbeats carry the ranking; without one, at a cold start, it is the order of priorities and
// ids.

// mostFailures bounds the back-off.
const mostFailures = 64

// mostDoubled bounds how often the time of a vote is doubled.
const mostDoubled = 20

// slowest is how many promises a vote may take on the slowest disk.
const slowest = 4

// firstTry: after the close of a leader's connection was seen, the first try that fails is repeated
// after 2^-(firstTry-1) of a slot, the next after twice that, until the delay is a slot.
const firstTry = 4

// rank is this participant's place among the successors, from 0.
func (m *Machine) rank() int {
	if len(m.ranking) > 0 {
		if i := slices.Index(m.ranking, m.cfg.Self.ID); i >= 0 {
			return i
		}
		return len(m.ranking)
	}
	return m.coldRank()
}

// stagger is the delay of this participant's rank. Rank 0 has none; the others add a random part,
// in case two of them see different rankings.
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

// hurry starts the election as early as the rank allows: the leader is gone, by its release or by a
// hint.
func (m *Machine) hurry(cause protocol.Reason) {
	if at := m.now.Boot.Add(m.stagger()); m.round.kind == idle && at < m.electAt {
		m.electAt, m.cause = at, cause
	}
}

// retry sets the timer after a round that failed. Where voters told how long they are still bound,
// it is set to when a quorum has become free; otherwise the back-off is linear.
func (m *Machine) retry() {
	now := m.now.Boot
	free := m.freeAt()
	switch {
	case m.seesDeath():
		// Other voters are about to see the same close: when a process dies, its kernel tells all
		// of them within about a millisecond, and a candidate that asks in between is refused. So
		// the first tries come soon.
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

// seesDeath reports whether the leader's last connection was closed, so recently that some others
// may not have seen it yet.
func (m *Machine) seesDeath() bool {
	return m.heard.closed && m.failed < uint64(protocol.MaxVoters)
}

// prolong makes a round go on until the candidate's own vote is saved, or cannot be. The time of
// that save is an estimate for the votes of others, and the next round would begin with another
// save on the same disk. Nothing waits for this round: the candidate votes for another in a higher
// term, and follows a leader.
func (m *Machine) prolong() bool {
	if m.round.kind != voting || m.role == protocol.Leader || m.saved >= m.termSave {
		return false
	}
	m.round.ends = protocol.Never
	return true
}

// slowed gives an election the time that the own disk has shown to be needed. A candidate waits for
// the votes of others once more as long as its own vote took; a voter that has voted for another
// gives that one as long to win.
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

// awaited reports whether a vote for another candidate, given in this incarnation, is not durable
// yet.
func (m *Machine) awaited() bool {
	return m.saved < m.termSave && m.bootSave < m.termSave && m.ballot.VotedFor.ID != "" && m.ballot.VotedFor != m.cfg.Self
}

// took is how long a vote took that is durable now, at most patient.
func (m *Machine) took(since protocol.Instant) time.Duration {
	if since.Add(m.patient()) <= m.now.Boot {
		return m.patient()
	}
	return m.now.Boot.Sub(since)
}

// roundTime is how long answers are awaited. It grows with every failure: disks slower than a slot
// must not make elections fail for ever. The time for votes doubles, because the speed of the other
// disks is not known and each round that ends too soon makes them save once more.
func (m *Machine) roundTime(kind roundKind) time.Duration {
	if kind == asking || m.role == protocol.Leader { // no disk is involved, or a lease is running out
		return time.Duration(2+m.failed) * m.cfg.Slot
	}
	return m.doubled(1 + m.voted)
}

// doubled is a slot that was doubled times times, at most patient.
func (m *Machine) doubled(times uint64) time.Duration {
	return min(m.cfg.Slot<<min(times, mostDoubled), m.patient())
}

// patient is the longest wait for a vote.
func (m *Machine) patient() time.Duration { return slowest * m.cfg.Promise }
