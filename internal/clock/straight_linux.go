//go:build !chaos

package clock

import "golang.org/x/sys/unix"

func boot() Boot { return kernel(unix.CLOCK_BOOTTIME) }
func mono() Boot { return kernel(unix.CLOCK_MONOTONIC) }

// bent is constant: this build has no bent clocks.
func bent() uint64 { return 0 }
