// Package memory is a back end that lives in one process, for tests and
// examples: a [Store] that grants leases, and participants that campaign for
// them over a connection that can be made to fail.
//
// It behaves like a real store. The store and its participants exchange requests and answers only;
// a request may be refused, its answer lost or late; a participant may be cut off, frozen or crash;
// the store may be out of reach, restart, or lose everything. Deadlines count from before a request
// was sent, and a lease that lapsed before its answer came is not a victory. All waiting is on
// timers and channels, so that a testing/synctest bubble runs it in fake time.
//
// Any number of goroutines may use all types. Nothing is written to disk, and a leader does not
// outlive its process: the package is not for production.
package memory
