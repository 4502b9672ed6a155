package flight

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// entry is a queued step, a state, or a step and the state after it. Its memory is reused.
type entry struct {
	boots   bool   // the machine's life begins with the step
	stepped bool   // in, fx and view are those of a step
	missing uint64 // how many steps before it were left out
	state   []byte // the machine's after the step; nil if no segment begins here

	turn *trace.GroupTurn // of a group; of in only Now is set then
	in   protocol.Input
	fx   protocol.Effects
	view protocol.View

	durable []byte
	entries []protocol.Entry
	data    []byte // of the saves
}

// set copies a step. Memberships and rankings are immutable, and shared.
func (e *entry) set(in *protocol.Input, fx *protocol.Effects, v *protocol.View) {
	e.in, e.view, e.turn = *in, *v, nil
	if in.Durable != nil {
		e.durable = append(e.durable[:0], in.Durable...)
		e.in.Durable = e.durable
	}
	if in.Answer.Entries != nil {
		e.entries = append(e.entries[:0], in.Answer.Entries...)
		e.in.Answer.Entries = e.entries
	}
	e.fx.Orders = append(e.fx.Orders[:0], fx.Orders...)
	e.fx.Saves = append(e.fx.Saves[:0], fx.Saves...)
	e.fx.Sends = append(e.fx.Sends[:0], fx.Sends...)
	e.fx.Asks = append(e.fx.Asks[:0], fx.Asks...)
	e.data = e.data[:0]
	for i := range e.fx.Saves {
		e.data = append(e.data, fx.Saves[i].Data...)
	}
	rest := e.data
	for i := range e.fx.Saves {
		n := len(fx.Saves[i].Data)
		e.fx.Saves[i].Data, rest = rest[:n:n], rest[n:]
	}
}
