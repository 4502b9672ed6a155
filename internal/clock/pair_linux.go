package clock

import "math"

// readPair reads the clocks, and returns how long that took. Most of that is one system call.
func readPair() (p Pair, apart Boot) {
	version := bent()
	before := glimpse()
	p.Boot = Now()
	after := glimpse()
	if before == after { // in a bubble of testing/synctest Go's clock stands still, and is not the kernel's
		before = mono()
		p.Boot = Now()
		after = mono()
	}
	p.Mono = before + (after-before)/2
	if bent() != version {
		return p, math.MaxInt64 // the two readings passed through two functions
	}
	return p, after - before
}
