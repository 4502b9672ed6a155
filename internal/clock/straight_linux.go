//go:build !chaos

package clock

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

func boot() Boot { return kernel(unix.CLOCK_BOOTTIME) }
func mono() Boot { return kernel(unix.CLOCK_MONOTONIC) }

// start is an instant on Go's clock, and the same on CLOCK_MONOTONIC.
var start = func() (s struct {
	goes time.Time
	mono Boot
}) {
	best := Boot(math.MaxInt64)
	for range 9 { // as in ReadPair
		before := mono()
		now := time.Now()
		apart := mono() - before
		if apart < best {
			s.goes, s.mono, best = now, before+apart/2, apart
		}
		if best <= tight {
			break
		}
	}
	return s
}()

// glimpse reads CLOCK_MONOTONIC as Go's runtime does, through the vDSO and without a system call. In a bubble of
// testing/synctest it reads the bubble's clock.
func glimpse() Boot { return start.mono + Boot(time.Since(start.goes)) }

// bent is constant: this build has no bent clocks.
func bent() uint64 { return 0 }
