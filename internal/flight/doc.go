// Package flight is the flight recorder of a node: it keeps the last minutes of its machine's inputs and effects, in
// the schema of package trace, so that the same steps can be replayed and checked after an incident.
//
// The record is a series of segments, flight-00000001.ndjson and so on, each a trace of its own. The first of a life
// begins with the machine's boot, the others with its state. A new one begins when the last has grown to
// Config.MaxBytes or is older than Config.MaxAge. The oldest are removed, so that there are at most 16, with at most
// three times MaxBytes together. Segments of earlier lives are treated alike, so that a crash can be examined after
// the restart. Effects are written in full for steps that order, save or ask something. For the others, such as
// heartbeats, there is a digest.
//
// Of a machine of a group ([Recorder.Turn]) every step is written in full. The state with which a segment of it begins
// is not counted in MaxBytes, because that of a coordinator of many keys is longer. Each tenure begins a segment.
//
// # Concurrency
//
// Only the goroutine that owns the machine may call [Recorder.Step] and [Recorder.Close]. Step copies its arguments
// into reused memory, and never waits: a goroutine of the recorder encodes, and writes the queue with one write(2).
// It does so at once after a step that orders, saves or asks something, whose input is neither a message nor the
// time, that changes the role, the term or the leader, or that follows a silence. Ordinary heartbeats wait for
// others, for a second at most: a wake-up for each would take a fifth of an idle node's CPU time. So a
// killed process loses at most the heartbeats of its last second, as far as the machine has let that
// goroutine run, and may leave a torn last line. Close writes everything. There is no fsync: when the whole machine
// dies, more is lost.
//
// # Failure
//
// The election does not depend on the record, so a failure of the recorder is never an error there. When the queue or
// the disk is full, steps are left out: that is a gap, and it is counted. The record goes on with a new segment, from
// the machine's state. After an error of the disk the recorder tries again with the first step that is a second or
// more later.
package flight
