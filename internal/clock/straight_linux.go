//go:build !chaos

package clock

import "golang.org/x/sys/unix"

func boot() Boot { return kernel(unix.CLOCK_BOOTTIME) }
func mono() Boot { return kernel(unix.CLOCK_MONOTONIC) }

// bent is constant: nobody bends clocks in this build.
func bent() uint64 { return 0 }
