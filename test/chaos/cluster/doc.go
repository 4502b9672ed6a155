// Package cluster runs the nodes of one election as real processes, each in its own
// place of a network and with a disk of its own, and does to them what a chaos run
// wants: kills, stops, starves, restarts and upgrades them, or a part of them. It
// also asks the election how it is, from outside and past all faults.
//
// The processes of a cluster carry marks in their environment, which all that they
// start inherits, so a node is found with its keeper, its command and whatever that
// left behind. Nothing without the marks of the own cluster is ever signalled, and
// what is signalled is held by a descriptor first, so that a process id that was
// given to somebody else since is never meant.
//
// The methods of a Cluster may be called by any number of goroutines. A node that ends
// unasked is started again, unless it is held. When the harness itself dies, the
// kernel kills the nodes, and their keepers the rest; what is left all the same is
// killed by the next cluster on the machine.
package cluster
