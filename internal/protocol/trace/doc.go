// Package trace is the one schema in which runs of the machines of package
// protocol are written down: by the simulator, by tests with real processes and
// by a recorder in production. A trace is NDJSON: a [Header] on the first line,
// then one [Event] a line. Times and durations are in nanoseconds.
//
// A machine is a pure function of its inputs, so a trace can be checked against the machines
// themselves: [Verify] replays it.
//
// An incarnation is in a trace from its [protocol.Boot] on, or from a [State] on: a line with the
// machine's whole state ([protocol.Machine]'s AppendState). The simulator and tests have their
// lives from the boot. A recorder keeps only the last minutes, in segments, each of which is a
// trace of its own: the first of a life begins with its boot, later ones with its state, which only
// the build that wrote it can be sure to read. It writes an [End] where it ends a segment in good
// order. Where its process was killed there is none, and the last line may be torn: that is no
// defect of a recorder's trace ([Decoder.Torn]), while it is one of all others.
//
// As all below protocol, the package computes and does nothing else: it reads and writes through
// what it is handed, starts no goroutine and knows no clock. A [Decoder] and an [Encoder] belong to
// one goroutine each. Every defect of a trace is an [*Error], which names the line and the field.
package trace
