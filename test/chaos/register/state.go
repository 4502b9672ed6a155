package register

import "github.com/electd/elect/fence"

// Stats counts what was offered.
type Stats struct {
	Writes, Refused    int64 // Refused: those with a token below the highest; the twin took them
	Streams, OutOfTurn int64 // OutOfTurn: those that were not above the last
	Reads              int64
}

// state is the state of the register of one key. Its method has all rules.
type state struct {
	highest int64  // token that was shown with a write
	value   string // behind the fence
	twin    string // the same without one
	last    fence.Sequence
	stats   Stats
}

// apply carries out a request that was checked, and returns the answer.
func (s *state) apply(r line) line {
	a := line{N: r.N, Result: OK}
	switch r.Op {
	case Write:
		s.stats.Writes++
		s.twin = r.Value
		if r.Token >= s.highest {
			s.highest, s.value = r.Token, r.Value
		} else {
			s.stats.Refused++
			a.Result = Stale
		}
	case Read:
		s.stats.Reads++
		a.Seen = s.value
	case Peek:
		s.stats.Reads++
		a.Seen = s.twin
	case Stream:
		s.stats.Streams++
		if q := (fence.Sequence{Token: fence.Token(r.Token), Position: r.Position}); q.Compare(s.last) > 0 {
			s.last = q
		} else {
			s.stats.OutOfTurn++
			a.Result = Stale
		}
		a.Last = s.last
	}
	a.Highest = s.highest
	return a
}
