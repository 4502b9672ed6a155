// Package group is the simulated world of groups: the machines of internal/protocol/group, many keys under one
// coordinator, on nodes with clocks of their own, over connections that are ordered, cut at any point and delayed
// without bound, under an abstract election E that keeps its contract, or under the machines of package quorum in a
// world of package sim.
//
// A world of package sim is one election with one machine a node. Here a process has two, that of a member and, while E
// has elected it, that of a coordinator; so this is a world of its own, with the clocks and the chance of package sim.
// A seed decides everything. The faults of a run are data, drawn first, so that a violation shrinks.
//
// After each event the invariants are checked in true time, which no machine sees. A World belongs to one goroutine.
package group
