package sim

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// called is a message at a process that waits to be told who takes part. If the
// message's membership lists it, it boots with that: the message itself is lost
// on it, as what a runtime hears before it has a machine is.
func (w *World) called(n *node, ms *protocol.Membership) {
	if ms == nil || ms.Version <= 1 || !ms.Has(n.self) && !slices.Contains(ms.Observers, n.id) {
		return
	}
	n.membership = ms
	w.start(n, nil)
}
