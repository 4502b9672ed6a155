//go:build !linux

package doctor

import (
	"os"
	"time"

	"github.com/electd/elect/internal/clock"
)

// syncData is how a node makes a ballot durable.
func syncData(f *os.File) error { return f.Sync() }

// clockOf is the clock that leases are counted on here. Its steps are the least
// that two readings differed by.
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
