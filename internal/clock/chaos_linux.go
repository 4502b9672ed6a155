//go:build chaos

package clock

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock/warp"
)

// page is the page through which readings pass; nil if the environment names none. A page that is named and cannot be
// read ends the process: it must not run with other clocks than the test intends.
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

// glimpse is mono: Go's clock is never bent.
func glimpse() Boot { return mono() }

func read(clock warp.Clock, id uintptr) Boot {
	p := page()
	if p == nil {
		return kernel(id)
	}
	return Boot(p.Read(clock, func() int64 { return int64(kernel(id)) }))
}

// bent changes whenever the function does.
func bent() uint64 {
	if p := page(); p != nil {
		return p.Version()
	}
	return 0
}

// Bends reports whether these clocks may differ from those of the kernel's and the runtime's timers. That is so only
// in builds with the tag chaos, if a test asks for it.
func Bends() bool { return page() != nil }

// glance is the interval at which a waiting goroutine reads bent clocks again.
const glance = 2 * time.Millisecond

// Timer is the time to set a timer of the runtime for something that is due after d on the clock of Now, and is
// checked again then: short if the clocks are bent. The runtime's own clock runs on, and knows of no step.
func Timer(d time.Duration) time.Duration {
	if Bends() {
		return min(d, glance)
	}
	return d
}
