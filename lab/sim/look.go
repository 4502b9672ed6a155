package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Events is the number of events so far.
func (w *World) Events() uint64 { return w.events }

// View is the view of a participant's machine; false if there is no such participant, or its
// process is down. Of twins it is the original's.
func (w *World) View(id protocol.NodeID) (protocol.View, bool) {
	n := w.named(id)
	if n == nil || !n.up {
		return protocol.View{}, false
	}
	return n.view, true
}

// AppendState appends the state of all participants, and of the store: for each its incarnation,
// whether it runs, the state of its machine and the content of its disk. Equal bytes and an equal
// Hash mean that two worlds of one schedule and build are the same; messages in flight are in the
// Hash alone.
func (w *World) AppendState(dst []byte) []byte {
	dst = protocol.AppendUint(protocol.AppendUint(dst, w.events), uint64(w.now))
	for _, n := range w.nodes {
		dst = protocol.AppendUint(dst, uint64(n.life))
		dst = protocol.AppendBool(protocol.AppendBool(dst, n.up), n.frozen)
		for _, s := range n.disk.slots {
			dst = protocol.AppendBool(protocol.AppendUint(protocol.AppendString(dst, s.data), s.number), s.bad)
		}
		if n.machine != nil {
			dst = n.machine.AppendState(dst)
		}
	}
	if w.store != nil {
		dst = w.store.appendState(dst)
	}
	return dst
}

// ProcessState is the state of one process and its computer, by true time.
type ProcessState struct {
	Node     protocol.NodeID
	Place    int // of the process; a twin has one of its own
	Observer bool
	Spare    bool   // no membership listed it at the beginning
	Life     uint32 // of the process, from 1
	Up       bool
	Frozen   bool // it is stopped, or its computer sleeps
	Waiting  int  // messages that have arrived while it was frozen
	Sick     bool
	Paused   bool // by its operator
	Idle     bool // it is no candidate

	View    protocol.View
	Reading protocol.Reading // what its clocks show now
	Rate    int64            // of its clock: parts per million that it is fast
	Next    Time             // when its machine wants to be called, in true time; 0 is never
	Armed   Time             // when its machine began to want that
	Lease   time.Duration    // how long the proof in View was when the machine last made it longer; 0 if it has none, or one for ever
}

// AppendProcesses appends the state of every process: of the participants in their order, and then
// of twins.
func (w *World) AppendProcesses(dst []ProcessState) []ProcessState {
	for _, n := range w.nodes {
		s := ProcessState{
			Node: n.id, Place: n.index, Observer: n.observer, Spare: n.spare, Life: n.life, Up: n.up, Frozen: n.frozen, Waiting: len(n.inbox),
			Sick: n.sick > 0, Paused: n.paused > 0, Idle: n.withdrawn > 0, Reading: w.reading(n), Rate: n.clock.rate,
		}
		if n.up {
			s.View = n.view
			if n.due != never {
				s.Next, s.Armed = n.due, n.armed
			}
			if n.view.Active && n.view.LeaseEnd != protocol.Never {
				s.Lease = n.lease
			}
		}
		dst = append(dst, s)
	}
	return dst
}

// LinkState is the present state of a link in one direction.
type LinkState struct {
	Cut     bool          // nothing gets through
	Clogged bool          // it holds all messages
	Loss    float64       // the part of the messages that is lost
	Slow    time.Duration // how much longer a message takes
}

// Link is the link between two participants by their place. Those that a store elects have none,
// and false is returned; but where the store is replicated, it is the link between their servers.
func (w *World) Link(from, to int) (LinkState, bool) {
	if len(w.shapes) == 0 || from == to || from < 0 || to < 0 || from >= w.width || to >= w.width {
		return LinkState{}, false
	}
	s := &w.shapes[from*w.width+to]
	return LinkState{Cut: s.cut, Clogged: s.clogged, Loss: float64(s.loss) / (1 << 53), Slow: s.slow}, true
}

// Resource is the greatest token that the guarded resource has accepted.
func (w *World) Resource() uint64 { return w.resource.highest }

// Over reports whether the run is over.
func (w *World) Over() bool { return w.over }
