package classictest

import "github.com/electd/elect/internal/protocol"

// Hand drives machines by hand, and allocates nothing for it.
type Hand struct {
	Now protocol.Instant

	in protocol.Input
	fx protocol.Effects
}

// Fire hands a Fire to a machine.
func (h *Hand) Fire(m protocol.Machine) {
	h.in.Kind = protocol.Fire
	h.step(m)
}

// Carry hands the first message of the latest step, which was that of from, to
// another machine.
func (h *Hand) Carry(from protocol.NodeID, to protocol.Machine) {
	h.in.Kind, h.in.From, h.in.Message = protocol.Receive, from, h.fx.Sends[0].Message
	h.step(to)
}

func (h *Hand) step(m protocol.Machine) {
	h.in.Now = protocol.Reading{Boot: h.Now, Mono: h.Now}
	h.fx.Reset()
	m.Step(&h.in, &h.fx)
}
