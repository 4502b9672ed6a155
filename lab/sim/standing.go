package sim

import "github.com/electd/elect/internal/protocol"

// Standing is the state of one process as a leader, by true time, which no participant sees.
type Standing struct {
	Node  protocol.NodeID
	Place int // of the process; a twin has one of its own
	// Token is that of its term while Elected. A frozen process may be Elected, too.
	Token   uint64
	Elected bool
	Frozen  bool
	// Its lease was last proven from Since on, with the token Proved (0 if never), and until Until,
	// if nothing changes.
	Proved       uint64
	Since, Until Time
}

// AppendStandings appends the state of every participant that is elected now, or whose lease was
// ever proven.
func (w *World) AppendStandings(dst []Standing) []Standing {
	for i := range w.oracle.processes {
		s := &w.oracle.processes[i]
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
