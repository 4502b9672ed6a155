//go:build !linux

package stamp

import "time"

// Clock names the clock of records: the only clock that all Go processes on this system share. A figure is wrong by
// any change of the clock in between.
const Clock = "the wall clock"

// Now reads the clock of records.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }
