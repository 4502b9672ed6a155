package quorum

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Priorities (R12) are delays, not vetoes: a veto would block all elections when the better voter
// is dead. The exception is protocol.NeverLead. A leader hands over to a voter with a higher
// priority without a command.

// mostYields bounds how often a failed handover doubles the next tenure.
const mostYields = 6

// standing is what is known of a voter that may stand.
type standing struct {
	priority int // 0: not known yet
	position string
	pace     pace
}

// note records what a message tells about its sender.
func (m *Machine) note(sender protocol.Voter, msg *protocol.Message) {
	if i := m.place(sender); i >= 0 && msg.Priority != 0 {
		m.known[i].priority, m.known[i].position = msg.Priority, msg.Position
	}
}

// priorityOf is the priority of the voter at a place; the default while it is not known.
func (m *Machine) priorityOf(i int) int {
	switch {
	case i == m.self:
		return m.priority
	case m.known[i].priority == 0:
		return protocol.DefaultPriority
	}
	return m.known[i].priority
}

// good reports whether the voter at a place answers and would stand.
func (m *Machine) good(i int) bool {
	f := &m.tenure.voters[i]
	return i != m.self && !f.idle && f.sent >= m.now.Boot.Add(-m.cfg.Promise/2)
}

// successors is the ranking that heartbeats carry: the named successor first, then the voters that
// answer and would stand, then the others; each group by position, if that counts, by priority and
// by id. It is recomputed only when it has changed.
func (m *Machine) successors() []protocol.NodeID {
	ms := m.ballot.Membership
	var order [protocol.MaxVoters]int
	n := 0
	for i := range ms.Voters {
		if i == m.self {
			continue
		}
		j := n
		for ; j > 0 && m.better(i, order[j-1]); j-- {
			order[j] = order[j-1]
		}
		order[j] = i
		n++
	}
	var ranking [protocol.MaxVoters]protocol.NodeID
	for j, i := range order[:n] {
		ranking[j] = ms.Voters[i].ID
	}
	if !slices.Equal(m.ranking, ranking[:n]) {
		m.ranking = slices.Clone(ranking[:n])
	}
	return m.ranking
}

// better reports whether the voter at place i comes before the one at place j, which has the
// smaller id, among the successors.
func (m *Machine) better(i, j int) bool {
	if named := m.tenure.target; named != "" {
		switch named {
		case m.ballot.Membership.Voters[i].ID:
			return true
		case m.ballot.Membership.Voters[j].ID:
			return false
		}
	}
	if a, b := m.good(i), m.good(j); a != b {
		return a
	}
	if c := m.compare(m.known[i].position, m.known[j].position); c != 0 {
		return c > 0
	}
	return m.priorityOf(i) > m.priorityOf(j)
}

// yield hands over to a better voter, once that one has been fit for Steady and the tenure has
// lasted for MinTenure.
func (m *Machine) yield(fx *protocol.Effects) {
	g := &m.tenure
	best := m.outranking()
	now := m.now.Boot
	if best != g.better {
		g.better, g.betterAt = best, now
	}
	if best != "" && g.active && m.cfg.mutants.Has("outranked-at-once") {
		m.transfer(best, Outranked, fx)
		return
	}
	if best == "" || !g.active || now < g.betterAt.Add(m.cfg.Steady) || now < g.activeAt.Add(m.patience(best)) {
		return
	}
	if best != m.yielded {
		m.yielded, m.yields = best, 0
	}
	m.yields = min(m.yields+1, mostYields)
	m.transfer(best, Outranked, fx)
}

// patience is how long the tenure lasts before a handover. It doubles each time the same voter did
// not win after a handover: a voter with too slow a disk must not end tenures for ever.
func (m *Machine) patience(best protocol.NodeID) time.Duration {
	if best != m.yielded {
		return m.cfg.MinTenure
	}
	return m.cfg.MinTenure << m.yields
}

// outranking is the first successor, if it is better than this leader: it answers, would stand, is
// not behind, and has a higher priority.
func (m *Machine) outranking() protocol.NodeID {
	best := -1
	for i := range m.ballot.Membership.Voters {
		if m.good(i) && m.priorityOf(i) > m.priority && m.compare(m.known[i].position, m.position) >= 0 &&
			(best < 0 || m.better(i, best)) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return m.ballot.Membership.Voters[best].ID
}

// coldRank is this participant's rank where no leader has told a ranking: by priority, then by id
// (R11). An unknown priority counts as the default, so at the very first start a voter of the
// default priority may win. One that outranks it takes over later.
func (m *Machine) coldRank() int {
	rank := 0
	for i := range m.ballot.Membership.Voters {
		if p := m.priorityOf(i); i != m.self && (p > m.priority || p == m.priority && i < m.self) {
			rank++
		}
	}
	return rank
}
