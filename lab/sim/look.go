package sim

import "github.com/electd/elect/internal/protocol"

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
