package raft

import "github.com/electd/elect/internal/protocol"

// PositionPolicy says what a candidate's position counts for.
type PositionPolicy string

// The policies.
const (
	// IgnorePosition: nothing. It is the default.
	IgnorePosition PositionPolicy = ""
	// RequirePosition: no voter votes for a candidate that is behind it, as in Raft for one whose
	// log lacks entries of its own (5.4.1). A leader is then at least as far as a majority; while
	// no majority reaches the participants that are ahead, nobody leads.
	RequirePosition PositionPolicy = "require"
)

// MaxPosition is the greatest length of a position, in bytes.
const MaxPosition = 256

// locate takes notice of the own position.
func (m *Machine) locate(position string) {
	if len(position) <= MaxPosition {
		m.position, m.located = position, true
	}
}

// unplaced reports whether it does not know its position yet, though it counts.
func (m *Machine) unplaced() bool { return m.cfg.Position == RequirePosition && !m.located }

// behind is the reason to refuse a candidate at that position.
func (m *Machine) behind(position string) protocol.Reason {
	switch {
	case m.unplaced():
		return Unplaced
	case m.cfg.Position == RequirePosition && protocol.CompareNumbers(position, m.position) < 0:
		return BehindPosition
	}
	return ""
}
