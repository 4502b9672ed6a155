package ring

import "github.com/electd/elect/internal/protocol"

// Name is the name of the protocol; NameChangRoberts is its name with [Config.ChangRoberts].
const (
	Name             = "ring"
	NameChangRoberts = "ring-chang-roberts"
)

// The messages.
const (
	Election    protocol.MessageType = "election"    // collects ids, or carries one; to the successor
	Coordinator protocol.MessageType = "coordinator" // carries the winner; to the successor
	Alive       protocol.MessageType = "alive"       // to the successor, to skipped participants, and to possible successors
	Ack         protocol.MessageType = "ack"         // answers an Alive
)

// The reasons of orders.
const (
	Superseded protocol.Reason = "superseded"       // another tenure is later
	Outdated   protocol.Reason = "outdated"         // another epoch is above its own
	Resigned                   = protocol.Recalled  // asked for
	Withdrawn                  = protocol.Withdrawn // asked for
	Paused                     = protocol.Paused    // the operator's wish
	Unhealthy                  = protocol.Unhealthy // its owner says so
)
