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
	// The last readings of its clock, for its rate: now, and two before that
	// are some time apart.
	now, mid, old sample
	activeSince   int64
	lapsed        bool // its lapse was told
}

// sample is a reading of a node's clock.
type sample struct {
	at   int64
	read protocol.Reading
	ok   bool
}

// apart is the least distance of two samples that give a rate, in nanoseconds.
const apart = 50_000_000

func (l *lane) sampled(at int64, r protocol.Reading) {
	now := sample{at, r, true}
	if l.now.ok && (r.Boot < l.now.read.Boot || r.Jumped(l.now.read)) {
		l.mid, l.old = now, now // it slept, or was set
	}
	if !l.mid.ok || at-l.mid.at >= apart {
		l.old, l.mid = l.mid, now
	}
	l.now = now
}

// time is when the node's clock shows, or showed, i: by its recent rate.
func (l *lane) time(i protocol.Instant) int64 {
	left := i.Sub(l.now.read.Boot)
	ref := l.old
	if !ref.ok || ref.at >= l.now.at {
		ref = l.mid
	}
	passed, shown := l.now.at-ref.at, l.now.read.Boot.Sub(ref.read.Boot)
	if ref.ok && passed >= apart/2 && shown > 0 {
		return l.now.at + int64(float64(left)*(float64(passed)/float64(shown)))
	}
	return l.now.at + int64(left)
}

// until is when its proof ends, and whether it has one that ends.
func (l *lane) until() (int64, bool) {
	if !l.view.Active || l.view.LeaseEnd == protocol.Never {
		return 0, false
	}
	return l.time(l.view.LeaseEnd), true
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
