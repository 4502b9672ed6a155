//go:build mutants

package runtime

import (
	"time"

	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
)

// misread gives a step another reading than its own: that of the step before, or that of a coarse clock that rounds
// up.
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
func misorder(r *Runner) bool {
	switch {
	case mutation.Is(mutation.ViewAfterOrders):
		r.endTerms()
		r.carryOrders()
		r.publish()
		r.carrySaves()
		r.carrySends()
	case mutation.Is(mutation.ViewBeforeStop):
		r.publish()
		r.carryOrders()
		r.carrySaves()
		r.carrySends()
	case mutation.Is(mutation.SendsBeforeOrders):
		r.carrySaves()
		r.carrySends()
		r.endTerms()
		r.publish()
		r.carryOrders()
	default:
		return false
	}
	return true
}
