package protocol

import (
	"fmt"
	"time"
)

// Op is an operation on a store.
type Op uint8

// The operations on a register: one record with compare-and-set.
const (
	_ Op = iota
	// Read reads the record; linearizable.
	Read
	// Write replaces the record whose version is exactly Version, or, if Version is 0, creates it
	// where there is none. Otherwise it is a conflict.
	Write
	// Delete deletes the record whose version is exactly Version.
	Delete
	// Watch answers each change of the record with StatusEvent until it answers StatusClosed.
	// Events may be skipped, doubled and late.
	Watch
)

// The operations on a queue: sessions, and entries that live as long as their
// session, in the order of their creation.
const (
	// OpenSession opens a session (etcd: a lease) of TTL.
	OpenSession Op = 16 + iota
	// KeepAlive renews Session for its TTL, which the answer repeats.
	KeepAlive
	// CloseSession closes (etcd: revokes) Session, which deletes its entries.
	CloseSession
	// Enter creates an entry with Nonce bound to Session; if an entry with this key exists (etcd),
	// the answer has that one.
	Enter
	// List reads all entries and the mark; linearizable. In ZooKeeper's dialect it may lag behind
	// unless a Sync on the same session came before.
	List
	// Sync is a write by Session that the store's quorum commits.
	Sync
	// WatchEntry answers with StatusEvent when Entry is deleted or changed after Revision, and with
	// StatusClosed when the watch has ended for any reason.
	WatchEntry
	// Verify reads in one transaction whether Entry exists and belongs to Session, and which entry
	// is first.
	Verify
	// Touch commits a write if the participant's own Entry exists: in ZooKeeper to the entry (setData);
	// in etcd beside the queue, where the Mark of an answer shows it. There the answer is also that of Verify.
	Touch
	// Mark replaces the queue's mark if Entry exists, in one transaction.
	Mark
	// Leave deletes Entry; with a mark, both in one transaction.
	Leave
	// WatchTouch answers each Touch of Entry after Revision (etcd) with StatusEvent and a Mark that has
	// Order and Touched only, until it answers StatusClosed. Events may be skipped, doubled and late.
	WatchTouch
)

var opNames = [...]string{
	Read: "read", Write: "write", Delete: "delete", Watch: "watch",
	OpenSession: "open-session", KeepAlive: "keep-alive", CloseSession: "close-session", Enter: "enter", List: "list", Sync: "sync",
	WatchEntry: "watch-entry", Verify: "verify", Touch: "touch", Mark: "mark", Leave: "leave", WatchTouch: "watch-touch",
}

// Nonce is 128 random bits that distinguish one attempt from all others.
type Nonce [2]uint64

// String returns the nonce as hexadecimal digits.
func (n Nonce) String() string { return fmt.Sprintf("%016x%016x", n[0], n[1]) }

// Record is the content of a register. Every write changes it, because some stores drop identical
// writes.
type Record struct {
	Holder   NodeID        `json:"holder,omitzero"` // empty: free
	Nonce    Nonce         `json:"nonce,omitzero"`  // of the holder's attempt at a tenure
	Count    uint64        `json:"count,omitzero"`  // the token's count
	Attempt  uint64        `json:"attempt,omitzero"`
	Duration time.Duration `json:"duration,omitzero"`
	Free     FreeMark      `json:"free,omitzero"`
	Store    string        `json:"store,omitzero"` // the store's replication id or incarnation, where there is one
}

// FreeMark identifies the tenure that a release ended.
type FreeMark struct {
	Holder NodeID `json:"holder,omitzero"`
	Nonce  Nonce  `json:"nonce,omitzero"`
	Count  uint64 `json:"count,omitzero"`
}

// Entry is a place in a queue.
type Entry struct {
	Order   uint64 `json:"order,omitzero"` // create revision, czxid: unique, rises for ever
	Session uint64 `json:"session,omitzero"`
	Holder  NodeID `json:"holder,omitzero"`
	Nonce   Nonce  `json:"nonce,omitzero"`
}

// QueueMark is kept in the queue beside the entries. It says whether the tenure of the entry with
// that Order ended in good order (Held false), or may go on for Hold after the entry was last seen.
type QueueMark struct {
	Order uint64        `json:"order,omitzero"`
	Held  bool          `json:"held,omitzero"`
	Hold  time.Duration `json:"hold,omitzero"`
	// Touched is the revision of the last Touch by the entry with that Order, in what a store answers; 0
	// if there was none.
	Touched uint64 `json:"touched,omitzero"`
}

// Ask is one operation for the store. The clock reading of the step that asked counts as the time
// of sending.
type Ask struct {
	Number uint64 `json:"number"` // rises within an incarnation; the Answer repeats it
	Op     Op     `json:"op"`

	Version uint64 `json:"version,omitzero"` // Write, Delete
	Record  Record `json:"record,omitzero"`  // Write

	Session  uint64        `json:"session,omitzero"`
	TTL      time.Duration `json:"ttl,omitzero"`      // OpenSession
	Nonce    Nonce         `json:"nonce,omitzero"`    // Enter
	Entry    Entry         `json:"entry,omitzero"`    // WatchEntry, WatchTouch, Verify, Touch, Mark, Leave
	Revision uint64        `json:"revision,omitzero"` // WatchEntry, WatchTouch
	SetMark  bool          `json:"set_mark,omitzero"` // Mark, Leave
	Mark     QueueMark     `json:"mark,omitzero"`
}

// Status is the outcome of an [Ask].
type Status uint8

// The statuses.
const (
	_ Status = iota
	// StatusDone: it was done.
	StatusDone
	// StatusConflict: the store says that the condition did not hold. A client library may have
	// repeated a request that had succeeded, so it proves nothing about an earlier attempt.
	StatusConflict
	// StatusUnknown: no answer came; the operation may have been done, may be done later, or never.
	StatusUnknown
	// StatusRefused: it was not done and never will be (throttled, not sent).
	StatusRefused
	// StatusGone: the session or the entry does not exist any more.
	StatusGone
	// StatusEvent: a watch has seen something.
	StatusEvent
	// StatusClosed: a watch has ended: an error, a compaction, a reconnection.
	StatusClosed
)

var statusNames = [...]string{
	StatusDone: "done", StatusConflict: "conflict", StatusUnknown: "unknown", StatusRefused: "refused", StatusGone: "gone",
	StatusEvent: "event", StatusClosed: "closed",
}

// Answer is a store's answer to an [Ask].
type Answer struct {
	Number uint64 `json:"number"`
	Status Status `json:"status"`

	// Of a register. Version is 0 when there is no record; otherwise it differs for each content
	// that the record ever had.
	Version uint64 `json:"version,omitzero"`
	Record  Record `json:"record,omitzero"`
	Store   string `json:"store,omitzero"` // the store's own incarnation now

	// Of a queue.
	Session  uint64        `json:"session,omitzero"`
	TTL      time.Duration `json:"ttl,omitzero"`
	Entry    Entry         `json:"entry,omitzero"`   // Enter: the own; Verify: the first
	Entries  []Entry       `json:"entries,omitzero"` // List: by rising Order; valid during the Step only
	Revision uint64        `json:"revision,omitzero"`
	Mark     QueueMark     `json:"mark,omitzero"`
}
