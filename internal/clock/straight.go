//go:build !chaos || !linux

package clock

import "time"

// Bends reports whether these clocks may be others than those that the kernel's
// and the runtime's timers run by: in builds with the tag chaos only, where a
// test asks for it.
func Bends() bool { return false }

// Timer is what a timer of the runtime is to be set to for something that is due
// after d on the clock of Now, and is looked at again then: d, in every build but
// those with the tag chaos.
func Timer(d time.Duration) time.Duration { return d }
