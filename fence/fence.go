// Package fence holds what a resource needs to refuse the writes of a leader that has been replaced: the [Token] that
// a leader shows, the [Mark] that keeps the greatest token that a [Resource] has seen, and the [Guard] that admits
// requests by it. Each package below it guards one kind of resource, by the same rules:
//
//   - A new leader claims a resource before it reads from it, so that an earlier leader cannot change what it has read.
//   - The mark is durable, and the check and the write are one atomic step.
//   - Equal tokens pass. Smaller ones are refused, and so is a write without a token. Nothing of these is applied.
//
// A server that only checks tokens imports this package and no elector. Tokens and sequences are plain data. Parsing
// functions refuse whatever does not match exactly, with an error that says what would be right. The page
// docs/fencing.md compares the guards.
//
// The idea is Lampson's: a lock is only as safe as the number that the locked resource checks. See Kleppmann, "How to
// do distributed locking" (2016), and the sequencer in Burrows, "The Chubby lock service" (OSDI 2006).
package fence
