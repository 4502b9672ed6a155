// Package fence holds what a resource needs in order to refuse the writes of a
// leader that has been replaced: the [Token] that a leader shows, the
// [Sequence] that orders one leader's messages, [StaleError], the refusal, the
// [Mark] that keeps the greatest token a [Resource] has seen, and the [Guard] that
// admits requests by it. The packages beneath it guard resources of one kind.
//
// The rules are the same for all of them. A new leader claims a resource before it
// reads from it, so that what it reads cannot change under it by an old hand. The
// mark is durable, and the check and the write are one atomic step. Equal tokens
// pass, smaller ones are refused, and nothing of theirs is applied. A resource that
// is guarded refuses a write without a token.
//
// It is a leaf of the import graph. A server that only checks tokens imports
// this package and no elector. Tokens and sequences are plain data and safe to copy.
// Parsing functions never guess: what they do not accept exactly, they refuse with an
// error that says what would be right.
//
// The idea, that a lock is only as safe as the number that the locked resource
// checks, is Lampson's and is told best in Kleppmann, "How to do distributed
// locking" (2016), and as the sequencer of Burrows, "The Chubby lock service"
// (OSDI 2006).
package fence
