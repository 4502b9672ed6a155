// Package picture draws a trace as a space-time diagram (Lamport: Time, Clocks,
// and the Ordering of Events in a Distributed System, 1978): a column for each
// node, time downwards, messages as arrows. It is an SVG that names itself to
// screen readers and follows the reader's light or dark setting.
//
//   - A thin line is a process that is up; there is none while it is down, and a
//     broken one while it is frozen.
//   - A light bar is a leader that is elected, a full one a proven lease.
//   - An arrow goes from where a message leaves, which may be after a save, to its
//     receipt. One that is lost ends in a cross, one of which the trace does not
//     say what became of it ends after a bit.
//   - Requests to a store go to a column of its own. When it has carried one out
//     is not in a trace: it is drawn halfway between question and answer.
//
// Time is not to scale: an election of milliseconds follows a silence of
// seconds, so that gaps are drawn by their logarithm. The times beside the
// columns are exact.
//
// A picture is the same to the byte for the same trace and options. Write may be called
// concurrently. A defective trace is an error, and nothing is written.
package picture
