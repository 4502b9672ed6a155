package register

import "github.com/electd/elect/fence"

// Op says what is asked for.
type Op string

// The operations.
const (
	Write  Op = "write"  // a value, with a token; both registers
	Read   Op = "read"   // what the register behind the fence holds
	Peek   Op = "peek"   // what its twin holds
	Stream Op = "stream" // a sequence
)

// Result is the result of an operation.
type Result string

// The results.
const (
	OK    Result = "ok"
	Stale Result = "stale" // the fence has refused it
	// Failed is what a client notes that got no answer: a broken connection, or
	// too long a wait. Its outcome is unknown, and the operation may be carried out
	// later.
	Failed Result = "error"

	// Unknown and Never are for calls without an answer, and stand in no file.
	// An unknown one may have been carried out or not; of one that never was, the
	// server knows it.
	Unknown Result = "unknown"
	Never   Result = "never"
)

// Operation is one operation, as [ReadDir] reads it from the records.
type Operation struct {
	Client string // a process's connection: one operation at a time
	N      int64  // its number with that client, from 1
	Op     Op

	Key      int64  // of a group: each has a register of its own
	Token    int64  // of a write, and of a stream's sequence
	Value    string // of a write; each is written once only
	Position uint64 // of a stream's sequence, from 1

	// Call is when it was called. Return is when its end was seen: by the client, or
	// for want of that (Resolved) by the server. 0 means that neither saw it: it may
	// be carried out at any time after Call, or not at all.
	Call, Return int64
	Resolved     bool

	Result Result
	// Highest is the highest token that the server had seen when it had carried the
	// operation out; Seen, of a read or a peek, is the value, and empty before the
	// first one was written. Last, of a stream, is the last sequence it has accepted.
	Highest int64
	Seen    string
	Last    fence.Sequence
}
