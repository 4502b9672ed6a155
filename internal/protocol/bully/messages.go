package bully

import "github.com/electd/elect/internal/protocol"

// Name is what the protocol is called.
const Name = "bully"

// The messages.
const (
	Election    protocol.MessageType = "election"    // the sender stands; to all above it
	OK          protocol.MessageType = "ok"          // somebody above the asker is alive
	Coordinator protocol.MessageType = "coordinator" // the sender has won; to all below it
	Alive       protocol.MessageType = "alive"       // the sender still leads; to all others
)

// The reasons of orders.
const (
	Bullied   protocol.Reason = "bullied"   // a higher one leads
	Outdated  protocol.Reason = "outdated"  // an epoch was heard of that is not below the own
	Resigned  protocol.Reason = "resigned"  // asked for
	Withdrawn protocol.Reason = "withdrawn" // asked for
	Paused    protocol.Reason = "paused"    // the operator's wish
	Unhealthy protocol.Reason = "unhealthy" // its owner says so
)
