//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package clock

import "time"

var start = time.Now()

// Now reads Go's monotonic clock, which may stand still while the machine sleeps, and counts from the start of this
// process: on this system processes do not share a clock.
func Now() Boot { return Boot(time.Since(start)) }
