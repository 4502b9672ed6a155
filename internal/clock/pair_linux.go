package clock

import "math"

// readPair reads the clocks, and says how long that took.
func readPair() (p Pair, apart Boot) {
	version := bent()
	before := mono()
	p.Boot = Now()
	after := mono()
	p.Mono = before + (after-before)/2
	if bent() != version {
		return p, math.MaxInt64 // of two functions
	}
	return p, after - before
}
