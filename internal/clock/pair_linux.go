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

func mono() Boot {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock: CLOCK_MONOTONIC: " + err.Error()) // POSIX has it, and so has Linux
	}
	return Boot(ts.Nano())
}
