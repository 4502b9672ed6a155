// Package protocol defines what all election protocols of this repository have in common: a
// [Machine] takes one [Input] at a time and answers with [Effects].
//
// A machine decides and does nothing else. It has no goroutine, clock, randomness, I/O or log: time
// and chance come with each input, and it hands back what is to be done. The same inputs in the
// same order give the same effects on every computer, for ever. So the code that runs in production
// also runs in the simulator, in a checker and in a test with a fake clock.
//
// The driver of a machine (a runtime among peers, the runner over a store, the simulator) owns it:
// two goroutines must not use a machine at once. A machine never fails. If it cannot go on, because
// it cannot read its durable state, it says so in [View].Fault, and only refuses from then on.
//
// The shape is that of etcd-io/raft: (state, input) → (messages, writes, next
// state), with the order of effects written at each of them.
package protocol
