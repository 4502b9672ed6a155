package ring

import "github.com/electd/elect/internal/protocol"

// Name is what the protocol is called; NameChangRoberts what it is called with
// [Config.ChangRoberts].
const (
	Name             = "ring"
	NameChangRoberts = "ring-chang-roberts"
)

// The messages.
const (
	Election    protocol.MessageType = "election"    // collects ids, or carries one; to the successor
	Coordinator protocol.MessageType = "coordinator" // says who has won; to the successor
	Alive       protocol.MessageType = "alive"       // to the successor, to those who are skipped, and to those who may come next
	Ack         protocol.MessageType = "ack"         // answers an Alive
)

// The reasons of orders.
const (
	Superseded protocol.Reason = "superseded" // a later tenure was heard of
	Outdated   protocol.Reason = "outdated"   // an epoch was heard of that is above the own
	Resigned   protocol.Reason = "resigned"   // asked for
	Withdrawn  protocol.Reason = "withdrawn"  // asked for
	Paused     protocol.Reason = "paused"     // the operator's wish
	Unhealthy  protocol.Reason = "unhealthy"  // its owner says so
)
