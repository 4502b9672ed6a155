// Package lives is the ledger in which workers record their own lives: from
// when to when a process of a leader's family was alive, or a program that embeds
// the library was told by Check that it leads. It is an array in a file that all
// of them map. A life claims a slot by one atomic addition and then stamps it
// again and again, so that no process waits for another, and the last stamp of a
// killed process stays.
//
// # What a stamp says
//
// A life is the time from Start to Last, and it is never longer than the truth.
// So two lives that overlap, of two leaders, are a proof that two led at once, and
// not an artefact of how it was measured:
//
//   - A process of a family reads the clock while it is alive, by the fact that it
//     reads it: at its birth for Start, and then again and again for Last.
//   - A program asks Check for Start, and reads the clock after the answer: the
//     answer was given at some instant before. For Last it reads the clock first
//     and asks then: the answer is given at some instant after. What lies between
//     the two instants is one term, which has not ended and is not another's.
//
// Between two stamps a life is taken for granted up to the first of them only. An
// overlap that is shorter than the time between two stamps goes unseen.
//
// # Times
//
// All times are nanoseconds of CLOCK_BOOTTIME as the machine's first time namespace
// has it, read from the kernel and never through the clocks that a test may have
// bent (package skew). So lives of processes in different time namespaces, with
// whatever clocks they lead by, can be compared.
//
// # Concurrency and failure
//
// A [Ledger] may be used by any number of goroutines and processes; a [Slot]
// belongs to one goroutine. A file that is no ledger is refused. A process that is
// killed between two stores leaves a life that ends with its last whole stamp.
// Linux only.
package lives
