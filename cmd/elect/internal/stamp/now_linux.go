package stamp

import (
	"time"

	"github.com/electd/elect/internal/clock"
)

// Clock names what records are made with.
const Clock = "CLOCK_BOOTTIME"

// Now reads the clock that records are made with.
func Now() time.Duration { return time.Duration(clock.Now()) }
