package doctor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// syncData makes a file durable as a node does with a ballot.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// clockOf describes the clock for leases on this system.
func clockOf() Clock {
	c := Clock{Name: "CLOCK_BOOTTIME"}
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_BOOTTIME, &ts); err != nil {
		c.Resolution = Millis(time.Second) // no clock that is fit for a lease
	} else {
		c.Resolution = Millis(ts.Nano())
	}
	return c
}
