// Package skew gives nodes clocks of their own: a page through which a node reads its clocks
// (builds with the tag chaos; rates, steps, suspends), and time namespaces, in which the kernel's
// own clocks have an offset.
//
// A [Clock] may be used by any number of goroutines. It does not change the machine's clocks; a
// harness that died leaves a file behind.
package skew
