package story

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// lane is a node as its column shows it.
type lane struct {
	id     protocol.NodeID
	up     map[uint64]bool // its incarnations that run; two for a twin
	view   protocol.View
	frozen bool
	Clock
	activeSince int64
	lapsed      bool // its lapse was told
}

// until is when its proof ends, and whether it has one that ends.
func (l *lane) until() (int64, bool) {
	if !l.view.Active || l.view.LeaseEnd == protocol.Never {
		return 0, false
	}
	return l.Time(l.view.LeaseEnd), true
}

// proven reports whether its lease is proven at that time.
func (l *lane) proven(at int64) bool {
	if len(l.up) == 0 || !l.view.Active {
		return false
	}
	end, ends := l.until()
	return !ends || at < end
}

// line is its column while nothing happens to it.
func (l *lane) line(at int64) string {
	switch {
	case len(l.up) == 0:
		return " "
	case l.proven(at):
		return "█"
	case l.frozen:
		return "┆"
	case l.view.Elected:
		return "║"
	}
	return "│"
}

// mark is its column when something happens to it.
func (l *lane) mark(at int64) string {
	letter := "·"
	switch {
	case len(l.up) == 0:
		return "X"
	case l.proven(at):
		letter = "L"
	case l.view.Elected:
		letter = "E"
	case l.view.Role == protocol.Follower:
		letter = "F"
	case l.view.Role == protocol.PreCandidate:
		letter = "P"
	case l.view.Role == protocol.Candidate:
		letter = "C"
	case l.view.Role == protocol.Observer:
		letter = "O"
	case l.view.Role == protocol.Fencing:
		letter = "S"
	case l.view.Role == protocol.Releasing:
		letter = "R"
	case l.view.Role == protocol.Halted:
		letter = "H"
	}
	if l.view.Term > 0 {
		return fmt.Sprintf("%s%d", letter, l.view.Term)
	}
	return letter
}

const legend = "│ up  ┆ frozen  ║ elected  █ proven   F follower  P pre-candidate  C candidate  E elected  L leads, proven  S stopping  R releasing  O observer  H halted  X down"
