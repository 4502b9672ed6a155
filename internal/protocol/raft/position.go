package raft

import "github.com/electd/elect/internal/protocol"

// PositionPolicy says what a candidate's position decides.
type PositionPolicy string

// The policies.
const (
	// IgnorePosition ignores positions. It is the default.
	IgnorePosition PositionPolicy = ""
	// RequirePosition makes voters refuse a candidate that is behind them, as Raft's voters refuse
	// one whose log lacks entries of theirs (5.4.1). A leader is then at least as far as a
	// majority. While no majority reaches the participants that are ahead, there is no leader.
	RequirePosition PositionPolicy = "require"
)

// locate records its own position.
func (m *Machine) locate(position string) {
	if len(position) <= protocol.MaxPosition {
		m.position, m.located = position, true
	}
}

// unplaced reports whether positions count and it does not know its own yet.
func (m *Machine) unplaced() bool { return m.cfg.Position == RequirePosition && !m.located }

// behind returns the reason to refuse a candidate at that position, if there is one.
func (m *Machine) behind(position string) protocol.Reason {
	switch {
	case m.unplaced():
		return Unplaced
	case m.cfg.Position == RequirePosition && protocol.CompareNumbers(position, m.position) < 0:
		return BehindPosition
	}
	return ""
}
