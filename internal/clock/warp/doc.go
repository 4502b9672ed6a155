// Package warp lets a test give the processes of one node clocks that are not those of the machine: a page of shared
// memory holds a function, and every reading passes through it. It is a page and not a socket because reading a clock
// must never wait.
//
// Only builds of package clock with the tag chaos use such a page. The harness has the one [Page] that writes. Any
// number of goroutines in any number of processes read, and none of them waits, even if the writer dies.
package warp

// Env is the environment variable that names the page's file, by its absolute
// path.
const Env = "ELECT_CHAOS_CLOCK"
