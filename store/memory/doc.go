// Package memory is a back end that lives in one process, for tests and
// examples: a [Store] that grants leases, and participants that campaign for
// them over a connection that can be made to fail.
//
// It is faithful where that matters. The store and its participants share
// nothing but requests and answers; a request may be refused, its answer lost
// or late; a participant may be cut off, frozen or crash; the store may be out
// of reach, restart, or lose everything. Deadlines are counted from before a
// request was sent, and a lease that lapsed while its answer was under way is
// no victory. All waiting is on timers and channels, so that a
// testing/synctest bubble runs it in fake time.
//
// All types may be used by any number of goroutines. Nothing is written
// anywhere, and a leader does not outlive its process: it is not for production.
package memory
