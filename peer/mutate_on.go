//go:build mutants

package peer

import (
	"time"

	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// mutate switches on the mutant of the machine that the environment chooses, if
// it chooses one of the machine's.
func mutate(c *quorum.Config) {
	switch {
	case mutation.Is(mutation.LeaseFromAck):
		c.Mutate("lease-from-ack-arrival")
	case mutation.Is(mutation.NoResidual):
		c.Mutate("no-residual-wait")
	}
}

// misread gives a step another reading than its own: that of before, or one of a
// coarse clock that is rounded up.
func misread(in *protocol.Input, before protocol.Reading) {
	switch {
	case mutation.Is(mutation.ReadBeforeReceive):
		in.Now = before
	case mutation.Is(mutation.ReadAfterSend):
		up := time.Millisecond - time.Duration(in.Now.Boot)%time.Millisecond
		in.Now = protocol.Reading{Boot: in.Now.Boot.Add(up), Mono: in.Now.Mono.Add(up)}
	}
}

// misorder carries out the effects of a step in a wrong order, and reports whether
// it did.
func misorder(n *Node) bool {
	switch {
	case mutation.Is(mutation.ViewAfterOrders):
		n.endTenures()
		n.carryOrders()
		n.publish()
		n.follow()
		n.carrySaves()
		n.carrySends()
	case mutation.Is(mutation.ViewBeforeStop):
		n.publish()
		n.follow()
		n.carryOrders()
		n.carrySaves()
		n.carrySends()
	case mutation.Is(mutation.SendsBeforeOrders):
		n.carrySaves()
		n.carrySends()
		n.endTenures()
		n.publish()
		n.follow()
		n.carryOrders()
	default:
		return false
	}
	return true
}
