// Package fence holds what a resource needs in order to refuse the writes of a leader that has been replaced: the
// [Token] that a leader shows, the [Sequence] that orders one leader's messages, [StaleError], the refusal, the
// [Mark] that keeps the greatest token that a [Resource] has seen, and the [Guard] that admits requests by it. The
// packages below it each guard one kind of resource.
//
// The rules are the same for all of them. A new leader claims a resource before it reads from it, so that an earlier
// leader cannot change what it has read. The mark is durable, and the check and the write are one atomic step. Equal
// tokens pass. Smaller ones are refused, and nothing of their writes is applied. A guarded resource refuses a write
// without a token.
//
// It is a leaf of the import graph. A server that only checks tokens imports this package and no elector. Tokens and
// sequences are plain data and safe to copy. Parsing functions never guess: they refuse whatever does not match
// exactly, with an error that says what would be right.
//
// The idea is that a lock is only as safe as the number that the locked resource checks. It is Lampson's. The best
// explanations are Kleppmann, "How to do distributed locking" (2016), and the sequencer in Burrows, "The Chubby lock
// service" (OSDI 2006).
package fence
