package sim

import "github.com/electd/elect/internal/protocol"

// These functions are for a world of another package that this one is a part of, and whose time is that of this one.

// Next is when the next event is planned, which may turn out to have no effect; false if the run is over.
func (w *World) Next() (Time, bool) {
	if w.over {
		return 0, false
	}
	return w.agenda[0].at, true
}

// Advance executes the next event that has an effect, if it is due by to, and reports whether it did. When it returns
// false the time is to, unless the run is over.
func (w *World) Advance(to Time) bool {
	for !w.over && w.agenda[0].at <= to {
		if w.next() {
			return true
		}
	}
	if !w.over && to > w.now {
		w.now, w.burst = to, 0
	}
	return false
}

// Command gives a participant's machine a command now, or when its process runs again if it is frozen. Where there is no
// such process it has no effect.
func (w *World) Command(id protocol.NodeID, c protocol.Command) {
	if n := w.named(id); n != nil && !w.over {
		w.command(n, c)
	}
}
