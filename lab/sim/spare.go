package sim

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// admit handles a message at a process that waits for a membership. If the message's membership
// lists it, it boots with that. It loses the message itself, like a runtime that has no machine
// yet.
func (w *World) admit(n *node, ms *protocol.Membership) {
	if ms == nil || ms.Version <= 1 || !ms.Has(n.self) && !slices.Contains(ms.Observers, n.id) {
		return
	}
	n.membership = ms
	w.start(n, nil)
}
