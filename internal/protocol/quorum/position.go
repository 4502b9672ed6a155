package quorum

import (
	"cmp"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// PositionPolicy says what a candidate's position counts for (R13).
type PositionPolicy string

// The policies.
const (
	// IgnorePosition: positions do not count. It is the default, and so is "".
	IgnorePosition PositionPolicy = "ignore"
	// PreferPosition: candidates that are ahead stand first. A voter that is ahead of a candidate,
	// and would stand itself, refuses it for Config.Grace.
	PreferPosition PositionPolicy = "prefer"
	// RequirePosition: a voter refuses every candidate that is behind it. A leader is then at least
	// as far as a majority of the voters. While the voters that are ahead cannot win, because they
	// are paused or cut off from a majority, nobody leads until another has caught up.
	RequirePosition PositionPolicy = "require"
)

// compare orders positions; all are equal if positions do not count.
func (m *Machine) compare(a, b string) int {
	switch {
	case m.cfg.Position == IgnorePosition || a == b:
		return 0
	case a == "" || b == "":
		return cmp.Compare(len(a), len(b))
	}
	return m.cfg.Compare(a, b)
}

// locate sets this participant's position.
func (m *Machine) locate(position string) {
	if len(position) <= protocol.MaxPosition {
		m.position, m.located = position, true
	}
}

// behind reports whether a candidate is behind this voter and has to be refused, and for how long.
// Grace counts from the first refusal since a leader was heard. A voter that would not stand itself
// does not refuse on account of its position, unless it does not know it yet.
func (m *Machine) behind(position string) (time.Duration, bool) {
	unplaced := m.unplaced()
	if m.compare(position, m.position) >= 0 && !unplaced || m.cfg.mutants.Has("position-not-asked") {
		return 0, false
	}
	if m.cfg.Position == RequirePosition {
		return 0, true
	}
	if !m.fit() && !unplaced {
		return 0, false
	}
	now := m.now.Boot
	if m.graceUntil == protocol.Always {
		m.graceUntil = now.Add(m.cfg.Grace)
	}
	d := left(m.graceUntil, now)
	return d, d > 0
}

// unplaced reports whether positions count and this participant does not know its own yet: after a
// restart, the empty position would let any candidate lead. With PreferPosition it waits for a
// promise and Grace, and then goes on without one.
func (m *Machine) unplaced() bool {
	return m.cfg.AwaitPosition && m.cfg.Position != IgnorePosition && !m.located && m.now.Boot < m.placeBy && !m.cfg.mutants.Has("position-not-asked")
}

// heldBack records the furthest of the voters that refused because they are ahead.
func (m *Machine) heldBack(place int, position string) {
	r := &m.round
	if r.ahead == 0 || m.compare(position, r.position) > 0 {
		r.ahead, r.position = uint8(place+1), position
	}
}

// catchUp tells the work which voter to catch up from.
func (m *Machine) catchUp(fx *protocol.Effects) {
	if r := &m.round; r.ahead > 0 && m.compare(m.position, r.position) < 0 {
		fx.Orders = append(fx.Orders, protocol.Order{
			Kind: protocol.CatchUp, From: m.ballot.Membership.Voters[r.ahead-1].ID, Position: r.position, Reason: BehindPosition,
		})
	}
}
