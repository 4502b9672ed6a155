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
	// IgnorePosition: nothing. It is the default, and so is "".
	IgnorePosition PositionPolicy = "ignore"
	// PreferPosition: who is ahead stands first, and a voter that is ahead of a
	// candidate, and would stand itself, refuses it for Config.Grace.
	PreferPosition PositionPolicy = "prefer"
	// RequirePosition: no voter helps a candidate that is behind it. A leader is
	// then at least as far as a majority of the voters. Where those who are
	// ahead cannot win, for they are paused, or cut off from a majority, nobody
	// leads until another has caught up.
	RequirePosition PositionPolicy = "require"
)

// MaxPosition is the greatest length of a position, in bytes.
const MaxPosition = 256

// compare orders positions, or none if they do not count.
func (m *Machine) compare(a, b string) int {
	switch {
	case m.cfg.Position == IgnorePosition || a == b:
		return 0
	case a == "" || b == "":
		return cmp.Compare(len(a), len(b))
	}
	return m.cfg.Compare(a, b)
}

// locate takes notice of the own position.
func (m *Machine) locate(position string) {
	if len(position) <= MaxPosition {
		m.position, m.located = position, true
	}
}

// behind reports whether a candidate is behind this voter, so that it is not to
// be helped, and for how long. Grace counts from the first refusal since a
// leader was heard; who would not stand itself holds nobody up for the sake of
// its own position, unless it does not know it yet.
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

// unplaced reports whether this participant does not know its position yet,
// though it counts: after a restart the empty one would let anybody lead. With
// PreferPosition it waits for a promise and Grace, and goes on without one.
func (m *Machine) unplaced() bool {
	return m.cfg.AwaitPosition && m.cfg.Position != IgnorePosition && !m.located && m.now.Boot < m.placeBy && !m.cfg.mutants.Has("position-not-asked")
}

// heldBack remembers, of those who refused for their position, the furthest.
func (m *Machine) heldBack(place int, position string) {
	r := &m.round
	if r.ahead == 0 || m.compare(position, r.position) > 0 {
		r.ahead, r.position = uint8(place+1), position
	}
}

// catchUp tells the work's owner whom to catch up from.
func (m *Machine) catchUp(fx *protocol.Effects) {
	if r := &m.round; r.ahead > 0 && m.compare(m.position, r.position) < 0 {
		fx.Orders = append(fx.Orders, protocol.Order{
			Kind: protocol.CatchUp, From: m.ballot.Membership.Voters[r.ahead-1].ID, Position: r.position, Reason: BehindPosition,
		})
	}
}
