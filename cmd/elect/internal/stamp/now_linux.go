package stamp

import (
	"time"

	"github.com/electd/elect/internal/clock"
)

// Clock names the clock of records.
const Clock = "CLOCK_BOOTTIME"

// Now reads the clock of records.
func Now() time.Duration { return time.Duration(clock.Now()) }
