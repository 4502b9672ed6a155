//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package clock

import "golang.org/x/sys/unix"

// Now reads CLOCK_MONOTONIC, which may stand still while the machine sleeps.
func Now() Boot {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock: CLOCK_MONOTONIC: " + err.Error()) // POSIX requires it, and all these systems have it
	}
	return Boot(ts.Nano())
}
