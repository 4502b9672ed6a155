//go:build chaos

package clock

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock/warp"
)

// page is what readings pass through; nil where the environment names none. What
// it names and cannot be read ends the process: it must not run by other clocks
// than it was given.
var page = sync.OnceValue(func() *warp.Page {
	path := os.Getenv(warp.Env)
	if path == "" {
		return nil
	}
	p, err := warp.Open(path)
	if err != nil {
		panic("clock: " + warp.Env + ": " + err.Error())
	}
	return p
})

func boot() Boot { return read(warp.Boot, unix.CLOCK_BOOTTIME) }
func mono() Boot { return read(warp.Mono, unix.CLOCK_MONOTONIC) }

func read(clock warp.Clock, id uintptr) Boot {
	p := page()
	if p == nil {
		return kernel(id)
	}
	return Boot(p.Read(clock, func() int64 { return int64(kernel(id)) }))
}

// bent changes with the function.
func bent() uint64 {
	if p := page(); p != nil {
		return p.Version()
	}
	return 0
}

// Bends reports whether these clocks may be others than those that the kernel's
// and the runtime's timers run by: in builds with the tag chaos only, where a
// test asks for it.
func Bends() bool { return page() != nil }

// glance is how often whoever waits looks at bent clocks again.
const glance = 2 * time.Millisecond

// Timer is what a timer of the runtime is to be set to for something that is due
// after d on the clock of Now, and is looked at again then: not for long, if the
// clocks are bent. The runtime's own clock runs on, and knows of no step.
func Timer(d time.Duration) time.Duration {
	if Bends() {
		return min(d, glance)
	}
	return d
}
