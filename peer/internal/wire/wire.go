// Package wire defines the frames that peers, witnesses and clients send to each other: each is a protobuf message
// (wire.proto) after its length.
//
// It checks everything that arrives: sizes, numbers, ids, text. A value out of range is an error that names the
// field, and every accepted frame can be sent again. Package link decides whether a sender may send it.
//
// Append and Decode may be called by any number of goroutines; a Reader belongs
// to one.
package wire

//go:generate ./generate.sh

import (
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Sizes of a frame's payload, in bytes.
const (
	MaxFrame = 256 << 10 // after admission
	MaxHello = 16 << 10  // before admission; a Welcome is read after it
)

// Frame is one frame. Exactly one field is set.
type Frame struct {
	Hello    *Hello
	Welcome  *Welcome
	Refusal  *Refusal
	Letter   *Letter
	Request  *Request
	Response *Response
	Enter    *Enter
	Leave    *Leave
}

// Caller is the role of a caller.
type Caller string

// The callers.
const (
	Node      Caller = "node"    // a voter or an observer
	WitnessOf Caller = "witness" // a keeper, on behalf of the node with that id
	ClientOf  Caller = "client"  // asks, and takes no part
)

// Hello is the first frame of both sides. It identifies the host.
type Hello struct {
	// Version and Oldest are the greatest and the least version of this protocol that the sender knows; see
	// [Hello.Speaks].
	Version, Oldest uint32
	Caller          Caller
	// Cluster is the sender's cluster: 1 to 128 bytes.
	Cluster string
	// ID is "" for a client.
	ID protocol.NodeID
	// Dir is the identity of the host's data directory; zero for witnesses and
	// clients.
	Dir protocol.DirID
	// Starts counts how often the host was opened with that directory; 0 for
	// witnesses and clients.
	Starts uint64
	// Life is a random number that the process drew when it started. It tells whether two connections are with the same
	// process.
	Life uint64
	// Program is the version of the program, for people.
	Program string
}

// Enter says that the sender takes part in an election. A witness's says that it speaks for a node that did.
type Enter struct {
	// Number is chosen by the sender, and greater than its earlier ones on the same connection. Letters carry it instead
	// of the election's name.
	Number uint32
	// Election is the name: 1 to 128 bytes.
	Election string
	// Dir is the identity of the election's data directory.
	Dir protocol.DirID
	// Incarnation is the boot counter of that directory; 0 before it is known.
	Incarnation uint64
	// Voters are the voters as configured, ordered by id; nil for witnesses.
	Voters []protocol.NodeID
	// Era is that of the tokens, as configured; 0 for witnesses.
	Era uint64
	// Promise is the promise that the node asks for when it leads; 0 for witnesses.
	Promise time.Duration
	// Join means that the node waits for a membership that lists it, and founds nothing; false for witnesses.
	Join bool
	// Held is the node's newest membership; zero before it has one, and for witnesses.
	Held protocol.ConfigID
	// Protocol is that of the node's machine, such as raft; empty for quorum and
	// for witnesses.
	Protocol string
	// Answer means that this answers an Enter of the other side.
	Answer bool
}

// Leave says that the sender's part in an election has ended, as the end of its process would.
type Leave struct {
	Number uint32 // of its Enter
}

// Speaks returns the version that this build and the sender both know, or an error of type *VersionError.
func (h *Hello) Speaks() (uint32, error) {
	v := min(h.Version, Version)
	if v < max(h.Oldest, Oldest) {
		return 0, &VersionError{Version: h.Version, Oldest: h.Oldest}
	}
	return v, nil
}

// Welcome says that the other side is admitted to the connection, or to an election. In the latter case its directory
// is pinned durably.
type Welcome struct {
	Number     uint32               // of the Enter that it answers; 0: the connection
	Membership *protocol.Membership // nil: not founded yet
	Program    string               // the version of the program, for people
}

// Refusal says that the other side is not admitted.
type Refusal struct {
	Code  Code
	Says  string // for people; cut to 1 KiB
	Final bool   // another attempt will fail too
	// Number is that of the refused Enter; 0 is the connection, which closes.
	Number uint32
}

// Error implements error.
func (r *Refusal) Error() string { return r.Says }

// Code is the reason of a refusal in one word. Newer builds may have words that this one does not know.
type Code string

// The codes.
const (
	CodeVersion     Code = "version"     // no version of the protocol in common
	CodeCluster     Code = "cluster"     // another cluster
	CodeElection    Code = "election"    // another election
	CodeIdentity    Code = "identity"    // the id is not that of the certificate
	CodeDirectory   Code = "directory"   // not the pinned data directory
	CodeVoters      Code = "voters"      // other voters are configured
	CodeEra         Code = "era"         // another era of tokens is configured
	CodeProtocol    Code = "protocol"    // another protocol of election
	CodeDuplicate   Code = "duplicate"   // two processes with one id
	CodeUnknown     Code = "unknown"     // the id takes no part
	CodeRemoved     Code = "removed"     // the id is not in a newer membership than its own
	CodeUnfounded   Code = "unfounded"   // one side waits to join, the other to found
	CodeBusy        Code = "busy"        // too many connections
	CodeCertificate Code = "certificate" // none, or not of this authority
	CodeFrame       Code = "frame"       // a frame could not be read
)

// Letter carries a message of the protocol machine.
type Letter struct {
	// Number is that of the sender's Enter, and stands for the election. Package link sets it.
	Number uint32
	// Next is what the next version of this protocol adds: nothing, except in builds with the tag chaosnext.
	Next    Next
	Message protocol.Message
	// Since belongs to a heartbeat: when its sender was elected by its own wall clock, in nanoseconds since 1970-01-01
	// UTC; 0 is unknown.
	Since int64
	// Token belongs to a heartbeat: the count of its sender's token, which can be smaller than its term; 0 is unknown.
	Token uint64
}

// Request is a client's request to a node.
type Request struct {
	Call  uint64 // chosen by the client; the responses repeat it
	Verb  string // 1 to 64 bytes
	Token uint64 // a fencing token; 0 is none
	Body  []byte // JSON, by verb
	// Election is the name of the election in question; "" only in a cancellation of another request.
	Election string
}

// Response answers a request; the last one has More false.
type Response struct {
	Call uint64
	More bool
	Body []byte // JSON, by verb
	// Code is the reason of a failure in one word, and Error is for people, cut to 1 KiB. Both are "" on success.
	Code, Error string
}

// TooLarge is a frame that exceeds the allowed length.
type TooLarge struct {
	Size, Max int // bytes of the payload
}

// Error implements error.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("a frame of %d bytes; want at most %d", e.Size, e.Max)
}

// VersionError means that the sender has no version in common with this build.
type VersionError struct {
	Version, Oldest uint32 // of the sender
}

// Error implements error.
func (e *VersionError) Error() string {
	which := "a newer"
	if e.Version < Oldest {
		which = "an older"
	}
	return fmt.Sprintf("it speaks %s protocol, versions %d to %d; want one of %d to %d", which, e.Oldest, e.Version, Oldest, Version)
}
