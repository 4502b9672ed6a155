package clock

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/mutation"
)

// Now reads CLOCK_BOOTTIME. It takes about 0.3 µs: Go offers no way into the vDSO for this clock. See
// docs/figures.md.
func Now() Boot {
	if mutation.Is(mutation.StoppedClock) {
		return mono()
	}
	return boot() // Linux has had it since 2.6.39
}

// kernel makes the call without telling Go's scheduler, which would prepare for a call that may wait: this one does
// not, and is frequent.
func kernel(clock uintptr) Boot {
	var ts unix.Timespec
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic("clock: clock_gettime: " + err.Error()) // both clocks always exist
	}
	return Boot(ts.Nano())
}
