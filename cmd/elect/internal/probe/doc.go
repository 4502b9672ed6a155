// Package probe is the node that the benchmarks measure: a process that embeds the library as a user's program does,
// and reports when it was elected, when it could first prove that it leads, and for how long it believed so.
//
// [Run] is one such process: it may be called once in a process. It writes one
// line for each [Report], and ends when its input ends, so that none outlives
// the benchmark. [Read] is the other side, for one goroutine at a time. A probe that cannot write its output ends
// with an error: a missing figure must not look like a good one.
package probe
