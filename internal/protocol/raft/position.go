package raft

import "github.com/electd/elect/internal/protocol"

// PositionPolicy says what a candidate's position counts for.
type PositionPolicy string

// The policies.
const (
	// IgnorePosition: nothing. It is the default.
	IgnorePosition PositionPolicy = ""
	// RequirePosition: nobody votes for one who is behind it, as in Raft nobody
	// votes for one whose log lacks what the own has (5.4.1). A leader is then at
	// least as far as a majority; where those who are ahead cannot be reached by a
	// majority, nobody leads.
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

// behind is what speaks against one at that position.
func (m *Machine) behind(position string) protocol.Reason {
	switch {
	case m.unplaced():
		return Unplaced
	case m.cfg.Position == RequirePosition && protocol.CompareNumbers(position, m.position) < 0:
		return BehindPosition
	}
	return ""
}
