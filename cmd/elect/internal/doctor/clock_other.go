//go:build !linux

package doctor

import (
	"os"
	"time"

	"github.com/electd/elect/internal/clock"
)

// syncData makes a file durable as a node does with a ballot.
func syncData(f *os.File) error { return f.Sync() }

// clockOf describes the clock for leases on this system. Its resolution is the least difference of two readings.
func clockOf() Clock {
	c := Clock{Name: "the monotonic clock", Suspends: true, Resolution: Millis(time.Second)}
	last := clock.Now()
	for range 10_000 {
		now := clock.Now()
		if d := Millis(now.Sub(last)); d > 0 {
			c.Resolution = min(c.Resolution, d)
		}
		last = now
	}
	return c
}
