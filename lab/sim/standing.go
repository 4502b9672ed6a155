package sim

import "github.com/electd/elect/internal/protocol"

// Standing is how one process stands as a leader, by true time, which no
// participant sees.
type Standing struct {
	Node  protocol.NodeID
	Place int // of the process; a twin has one of its own
	// Token is that of its term while Elected, which a process that is frozen
	// may be, too.
	Token   uint64
	Elected bool
	Frozen  bool
	// Its lease was proven last from Since on, with the token Proved, 0 if it
	// never was, and is or was until Until, if nothing changes.
	Proved       uint64
	Since, Until Time
}

// AppendStandings appends how everybody stands who is elected now, or whose lease
// was ever proven.
func (w *World) AppendStandings(dst []Standing) []Standing {
	for i := range w.oracle.seats {
		s := &w.oracle.seats[i]
		if s.stage == stageNone && s.proved == 0 {
			continue
		}
		dst = append(dst, Standing{
			Node: w.nodes[i].id, Place: i, Token: s.token, Elected: s.stage != stageNone, Frozen: s.frozen,
			Proved: s.proved, Since: s.since, Until: s.until,
		})
	}
	return dst
}
