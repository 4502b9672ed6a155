// Package cluster runs the nodes of one election as real processes, each in its own place of a
// network and with its own disk. It applies the faults of a chaos run to them or to parts of them:
// it kills, stops, starves, restarts and upgrades them. It also asks the election for its state,
// from outside and unaffected by faults.
//
// The processes of a cluster have marks in their environment, which their descendants inherit, so
// that a node is found with its keeper, its command and whatever that has left. Only processes with
// the marks of this cluster are signalled. A signalled process is held by a descriptor first, so
// that a reused process id is never signalled.
//
// Any number of goroutines may call the methods of a Cluster. A node that ends unasked is
// restarted, unless it is held. When the harness itself dies, the kernel kills the nodes, and their
// keepers kill the rest; the next cluster on the computer kills what is left.
package cluster
