package doctor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// syncData is how a node makes a ballot durable.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// clockOf is the clock that leases are counted on here.
func clockOf() Clock {
	c := Clock{Name: "CLOCK_BOOTTIME"}
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_BOOTTIME, &ts); err != nil {
		c.Resolution = Millis(time.Second) // no clock that a lease could be counted on
	} else {
		c.Resolution = Millis(ts.Nano())
	}
	return c
}
