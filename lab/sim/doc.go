// Package sim is a deterministic world in which the machines of package
// protocol, the very ones that run in production, live among broken networks,
// clocks, disks, stores and processes.
//
// A [Schedule] is a whole run as data: how many participants there are, what
// links, disks and clocks are like, and which faults befall them when. It is
// drawn from a seed by [Generate], written by hand, or read from a file. [New]
// makes a [World] of it, and the world makes one event happen after the other,
// in true time that no participant sees. After each event an oracle judges the
// [Invariant]s. The [Result] says what came of it.
//
// The same schedule gives the same run, to the bit, with the same build on any
// machine: time is integer nanoseconds, what happens at one time happens in the
// order in which it was planned, and chance comes from streams that are named
// after what they are for, so that a run without one of its faults is the same
// in all that does not depend on it. [World.Hash] says whether two runs were
// equal.
//
// What the world takes for true: messages may be lost, doubled, late and out of
// order, but are never made up or changed; a participant's two clocks run at one
// rate each, which may change; a disk keeps what it says is durable, and a message
// comes from whom it says it does, unless an operation beyond the model has it
// otherwise; a process that is frozen does
// nothing, and takes what has arrived before it looks at its timer.
//
// A World is driven by one goroutine. It is plain data: [World.Fork] copies it,
// and copies share nothing that is written, so that each may have a goroutine of
// its own. A [History], which [Keep] makes, goes through a run in both
// directions.
//
// A World fails in two ways: New refuses a schedule, naming the field, and a run ends
// early with a [Violation], which a panic of a machine is, too.
//
// The package is public, and makes no promise of stability yet.
package sim
