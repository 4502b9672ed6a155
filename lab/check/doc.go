// Package check explores every interleaving of a small world: a few machines of the quorum
// protocol, the same code as in production, and all that a network, a disk and an operator may do
// to them.
//
// A [World] sets the bounds: the numbers of nodes, terms, messages in flight, crashes and fires of
// timers. [Explore] visits all reachable states, breadth first, so a violation is found by a
// shortest path.
//
// # Two modes of time
//
// In mode [Async] every node has a clock of its own, which advances only when one of its timers
// fires, or when the node is idle until everything that it waited for is over. So any relative
// speed of clocks is explored, and the invariants must hold without clocks: one winner a term, one
// durable vote, tokens that rise.
//
// In mode [Timed] there is true time in ticks. In each tick, every clock advances by one of a few
// amounts within the bound on drift, messages take any number of ticks, and timers that are due may
// be delayed. At each instant no two works may run, and no two leases be proven.
//
// # How it is made small
//
// Machines are pure, so every distinct state of a node and every distinct message gets a number,
// and a step of a node is computed once and then looked up. A state of the world is a few numbers;
// only its fingerprint of 64 bits and the path to it are kept. See state.go for which states count
// as equal, and why that is sound.
//
// # Groups
//
// A [GroupWorld] has the two machines of package group, one key, and no clock: [ExploreGroup] explores it by the same
// means, for the rules about sessions, the registry and the account (G6 to G9).
//
// # Use and failure
//
// [Explore] uses the given number of cores and returns when it is done; its counts and
// counterexamples do not depend on that number. A machine that panics is a violation of [NoPanic],
// not a panic of this package. The package reads no clock and writes nothing.
package check
