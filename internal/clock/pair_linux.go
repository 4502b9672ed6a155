package clock

import "math"

// readPair reads the clocks, and returns how long that took.
func readPair() (p Pair, apart Boot) {
	version := bent()
	before := mono()
	p.Boot = Now()
	after := mono()
	p.Mono = before + (after-before)/2
	if bent() != version {
		return p, math.MaxInt64 // the two readings passed through two functions
	}
	return p, after - before
}
