//go:build linux

package skew

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock/warp"
)

// Clock sets the clocks of one node relative to those of the machine. At first they are the same.
// Only programs that were built with the tag chaos use it.
type Clock struct {
	path string

	mu   sync.Mutex
	page *warp.Page // nil when closed
	f    warp.Function
}

// New makes the clock, in a new file at path.
func New(path string) (*Clock, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	page, err := warp.Create(path)
	if err != nil {
		return nil, fmt.Errorf("skew: %w", err)
	}
	return &Clock{path: path, page: page, f: warp.Straight()}, nil
}

// Env is the environment variable that each of the node's processes needs, NAME=VALUE.
func (c *Clock) Env() string { return warp.Env + "=" + c.path }

// Rate sets how fast both clocks run from now on: 1 is true, and 1.002 gains 2 ms a second. It
// steps nothing. It panics if the clocks would stop or run backwards. Beyond the drift that the
// product allows for, the product promises nothing.
func (c *Clock) Rate(r float64) {
	if !(r > 0) {
		panic(fmt.Sprintf("skew: a rate of %v; want more than 0", r))
	}
	c.change(func() { c.f.Rate = r })
}

// StepBoth moves both clocks by d, which may be negative. No kernel does that to a running machine,
// and no process can notice it by these clocks alone: a voter whose clock leaps ahead forgets its
// promises early, and a leader whose clock falls back claims its lease for longer. So the product
// promises nothing then, except where a leader's clock leaps ahead or a voter's falls back.
func (c *Clock) StepBoth(d time.Duration) {
	c.change(func() {
		c.f.Boot.To += int64(d)
		c.f.Mono.To += int64(d)
	})
}

// Suspend shows the clocks of a machine that has slept for d until now: CLOCK_BOOTTIME went on,
// which it does here, and CLOCK_MONOTONIC was stopped. A process that uses the clock must have been
// stopped for at least d, and resume after the call, or it sees CLOCK_MONOTONIC run backwards.
func (c *Clock) Suspend(d time.Duration) {
	c.change(func() { c.f.Mono.To -= int64(d) })
}

// Reset makes both clocks show what those of the machine do, which may be a step.
func (c *Clock) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(warp.Straight())
}

// Ahead is how far the clocks are ahead of those of the machine now.
func (c *Clock) Ahead() (boottime, monotonic time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot, mono := kernel(unix.CLOCK_BOOTTIME), kernel(unix.CLOCK_MONOTONIC)
	return time.Duration(c.f.Boot.At(boot, c.f.Rate) - boot), time.Duration(c.f.Mono.At(mono, c.f.Rate) - mono)
}

// Close ends it. Its reading stays, as do the file and its users.
func (c *Clock) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page == nil {
		return nil
	}
	page := c.page
	c.page = nil
	return page.Close()
}

// change makes a change from now on.
func (c *Clock) change(how func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot, mono := kernel(unix.CLOCK_BOOTTIME), kernel(unix.CLOCK_MONOTONIC)
	c.f.Boot = warp.Line{From: boot, To: c.f.Boot.At(boot, c.f.Rate)}
	c.f.Mono = warp.Line{From: mono, To: c.f.Mono.At(mono, c.f.Rate)}
	how()
	c.set(c.f)
}

func (c *Clock) set(f warp.Function) {
	c.f = f
	if c.page != nil {
		c.page.Set(f)
	}
}

// kernel reads a clock of the machine, wherever this process's starts: in the
// page are times of the first time namespace.
func kernel(clock int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic("skew: clock_gettime: " + err.Error()) // both clocks are always there
	}
	boot, mono := offsets()
	if clock == unix.CLOCK_BOOTTIME {
		return ts.Nano() - int64(boot)
	}
	return ts.Nano() - int64(mono)
}
