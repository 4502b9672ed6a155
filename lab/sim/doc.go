// Package sim is a deterministic simulator. It runs the machines of package protocol, the same code
// as in production, with faults of networks, clocks, disks, stores and processes.
//
// A [Schedule] describes a whole run as data: the number of participants, the properties of links,
// disks and clocks, and which faults occur when. It is drawn from a seed by [Generate], written by
// hand, or read from a file. [New] makes a [World] of it. The world executes one event after the
// other, in true time that no participant sees. After each event an oracle checks the [Invariant]s.
// The [Result] describes the outcome.
//
// The same schedule gives the same run, to the bit, with the same build on any computer: time is
// integer nanoseconds, simultaneous events happen in the order in which they were planned, and
// random numbers come from streams that are named after their purpose, so that a run without one of
// its faults is the same in all that does not depend on it. [World.Hash] tells whether two runs
// were equal.
//
// The world assumes: messages may be lost, doubled, late and out of order, but are never invented
// or changed; each of a participant's two clocks runs at one rate, which may change; a disk keeps
// what it reports as durable, and a message comes from its stated sender, unless an operation
// beyond the model breaks that; a frozen process does nothing, and receives what has arrived before
// it looks at its timer.
//
// A World is driven by one goroutine. It is plain data: [World.Fork] copies it, and copies share
// nothing that is written, so that each may have a goroutine of its own. A [History], made by
// [Keep], goes through a run in both directions.
//
// A World fails in two ways: New refuses a schedule, naming the field, and a run ends early with a
// [Violation]. A panic of a machine is a Violation, too.
package sim
