// Package naive has locks that textbooks and blog posts use to elect a leader: SET NX PX of Redis, Redlock over five
// Redis servers, the UPDATE of a row that has expired, and the advisory lock of PostgreSQL behind a pool. They are
// unsafe: docs/unsafe-locks.md has schedules that break each of them, which package scenario plays, also with the
// protocols of this repository. Nothing outside of the laboratory can use them.
//
// Each is a [protocol.Machine] that believes what the lock's users do. If the lock has a time to live, the holder
// counts it from the answer, by its own clock, but Redlock from before its question. The holder of an advisory lock
// believes that it has the lock for as long as the pool answers. A lock has no token: the resource gets the token 1
// from every holder, and cannot tell them apart. A machine releases the lock when its work has returned.
//
// A machine belongs to one goroutine, and never fails. Only a configuration can be wrong: see [New] and [NewRedlock].
package naive
