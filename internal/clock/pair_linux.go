package clock

import "golang.org/x/sys/unix"

// readPair reads the clocks, and says how long that took.
func readPair() (p Pair, apart Boot) {
	before := mono()
	p.Boot = Now()
	after := mono()
	p.Mono = before + (after-before)/2
	return p, after - before
}

func mono() Boot { return read(unix.CLOCK_MONOTONIC) }
