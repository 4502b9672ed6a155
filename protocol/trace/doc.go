// Package trace is the one schema in which runs of the machines of package
// protocol are written down: by the simulator, by tests with real processes and
// by a recorder in production. A trace is NDJSON: a [Header] on the first line,
// then one [Event] a line. Times and durations are in nanoseconds.
//
// What a machine did follows from what it was told, so a trace can be checked
// against the machines themselves: [Verify] replays it.
//
// As all below protocol, the package computes and does nothing else: it reads
// and writes through what it is handed, starts no goroutine and knows no clock.
// A [Decoder] and an [Encoder] belong to one goroutine each. Whatever is wrong
// with a trace is an [*Error], which names the line and the field.
package trace
