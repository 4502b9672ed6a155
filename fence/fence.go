// Package fence holds what a resource needs in order to refuse the writes of a
// leader that has been replaced: the [Token] that a leader shows, the
// [Sequence] that orders one leader's messages, and [StaleError], the refusal.
//
// It is a leaf of the import graph. A server that only checks tokens imports
// this package and no elector. All values are plain data and safe to copy; no
// function here blocks, keeps state or starts a goroutine. Parsing functions
// never guess: what they do not accept exactly, they refuse with an error that
// says what would be right.
//
// The idea, that a lock is only as safe as the number that the locked resource
// checks, is Lampson's and is told best in Kleppmann, "How to do distributed
// locking" (2016), and as the sequencer of Burrows, "The Chubby lock service"
// (OSDI 2006).
package fence
