// Package check goes through every interleaving of a small world: a few
// machines of the quorum protocol, the very code that runs in production, and
// all that a network, a disk and an operator may do to them.
//
// A [World] says how small: how many nodes, terms, messages in flight, crashes,
// fires of timers. [Explore] visits everything that can be reached in it,
// breadth first, and so what it finds has the shortest way there.
//
// # Two modes of time
//
// In mode [Async] every node has a clock of its own, which moves only when one
// of its timers fires, or when it is idle for so long that all that it waited
// for is over. So any relative speed of clocks is explored, and what holds must
// hold without clocks: one winner a term, one durable vote, tokens that rise.
//
// In mode [Timed] there is true time in ticks. In each, every clock advances by
// an amount out of a small alphabet within the bound on drift, messages take
// any number of ticks, timers that are due may be held up, and at each instant
// no two works may run, and no two leases be proven.
//
// # How it is made small
//
// Machines are pure, so that every distinct state of a node and every distinct
// message gets a number, and a step of a node is computed once and then looked
// up. A state of the world is a handful of numbers, and what is remembered of it
// is a fingerprint of 64 bits and the way there. See state.go for what is taken
// for the same, and why that is sound.
//
// # Use and failure
//
// [Explore] uses all the cores that it is given and returns when it is done; its
// counts and its counterexamples do not depend on how many there are. A machine
// that panics is a violation of [NoPanic], not a panic of this package. Nothing
// here reads a clock or writes anything.
package check
