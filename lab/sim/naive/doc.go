// Package naive has locks as textbooks and blog posts have them, by which people elect a leader: SET NX PX of Redis,
// Redlock over five of them, the UPDATE of a row that has expired, and the advisory lock of PostgreSQL behind a pool.
// They are broken: docs/unsafe-locks.md has a schedule for each, which package scenario plays. They are here to be
// seen breaking, beside the protocols of this repository, and nothing outside of the laboratory can use them.
//
// Each is a [protocol.Machine] that believes what its users do. Where the lock has a time to live, the holder takes the
// answer for the beginning of that time, and counts by its own clock; the holder of an advisory lock believes that it
// has it for as long as the pool answers. A lock has no number: what it guards gets the token 1 from every holder, and
// can tell none from another. A machine releases the lock when its work has returned.
//
// A machine is owned by one goroutine, and never fails. A configuration is wrong if its time to live is.
package naive
