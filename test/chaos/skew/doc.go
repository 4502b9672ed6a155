// Package skew gives nodes clocks of their own: a page that a node's readings
// pass through (builds with the tag chaos; rates, steps, suspends), and time
// namespaces, in which the kernel's own clocks start elsewhere.
//
// A [Clock] may be used by any number of goroutines. It changes nothing of the
// machine's clocks, and what a harness that died has left is a file.
package skew
