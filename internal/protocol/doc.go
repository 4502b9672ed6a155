// Package protocol is what every election protocol of this repository is made
// of: a [Machine] that is fed one [Input] at a time and answers with [Effects].
//
// A machine decides; it does nothing. It has no goroutine, clock, randomness,
// I/O or log: time and chance come with each input, and what is to be done is
// handed back. The same inputs in the same order give the same effects on
// every machine, for ever. So the very bytes that run in production run in the
// simulator, in a checker and in a test with a fake clock.
//
// Whoever drives a machine (a runtime among peers, the runner over a store,
// the simulator) owns it: a machine must not be used by two goroutines at once.
// A machine never fails: what it cannot go on from (durable state that it
// cannot read) is told in [View].Fault, and from then on it only refuses.
//
// The shape is that of etcd-io/raft: (state, input) → (messages, writes, next
// state), with the order of effects written at each of them.
package protocol
