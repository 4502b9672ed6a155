package bully

import "github.com/electd/elect/internal/protocol"

// Name is the name of the protocol.
const Name = "bully"

// The messages.
const (
	Election    protocol.MessageType = "election"    // the sender stands; to all above it
	OK          protocol.MessageType = "ok"          // a participant with a higher id is alive
	Coordinator protocol.MessageType = "coordinator" // the sender has won; to all below it
	Alive       protocol.MessageType = "alive"       // the sender still leads; to all others
)

// The reasons of orders.
const (
	Bullied   protocol.Reason = "bullied"          // a participant with a higher id leads
	Outdated  protocol.Reason = "outdated"         // another epoch is not below its own
	Resigned                  = protocol.Recalled  // asked for
	Withdrawn                 = protocol.Withdrawn // asked for
	Paused                    = protocol.Paused    // the operator's wish
	Unhealthy                 = protocol.Unhealthy // its owner says so
)
