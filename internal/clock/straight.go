//go:build !chaos || !linux

package clock

import "time"

// Bends reports whether these clocks may differ from those of the kernel's and the runtime's timers. That is so only
// in builds with the tag chaos, if a test asks for it.
func Bends() bool { return false }

// Timer is the time to set a timer of the runtime for something that is due after d on the clock of Now, and is
// checked again then: d, in every build except those with the tag chaos.
func Timer(d time.Duration) time.Duration { return d }
