// Package flight is the flight recorder of a node: it keeps the last minutes of
// what its machine was told and what it did, in the schema of package trace, so
// that after an incident the very steps can be replayed and checked.
//
// The record is a row of segments, flight-00000001.ndjson and so on, each a
// trace of its own. The first of a life begins with the machine's boot, the
// others with its state. A new one begins when the last has grown to
// Config.MaxBytes or is older than Config.MaxAge; the oldest are removed, so that
// all together have at most three times MaxBytes, and are at most 16. Those of
// earlier lives go the same way, so that a crash can be looked at after the
// restart. Effects are written whole in steps that order, save or ask something;
// of the others, which are heartbeats and their like, there is the digest.
//
// # Concurrency
//
// [Recorder.Step] and [Recorder.Close] belong to the goroutine that owns the
// machine. Step copies what it is given into memory that is used again, and
// never waits: a goroutine of the recorder encodes, and writes all that is
// waiting with one write(2). It does so at once after a step that orders, saves or
// asks something, that was told of anything but a message and the time, that
// changed the role, the term or the leader, or that follows a silence. Ordinary
// heartbeats wait for others, for a quarter of a second at most: to wake a
// goroutine for each would cost a node that has nothing to do a fifth of its time.
// So a process that is killed loses at most the heartbeats of its last quarter
// second, as far as the machine has let that goroutine run, and at worst tears
// the last line. Close writes everything. There is no fsync: when the whole
// machine dies, more is lost.
//
// # Failure
//
// The record is worth nothing to the election, so nothing of it is ever an error
// there. When the queue is full, or the disk, steps are left out: a gap, which is
// counted. The record goes on with a new segment, from the machine's state. After
// an error of the disk it tries again with the first step that is a second or
// more later.
package flight
