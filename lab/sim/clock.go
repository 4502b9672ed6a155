package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// million is the unit of a clock's rate: parts per million.
const million = 1_000_000

// Clock is a participant's two clocks, for worlds of other packages.
type Clock = clock

// NewClock returns clocks that show zero at the beginning of a run, and run fast by rate parts per million.
func NewClock(zero protocol.Instant, rate int64) Clock {
	return clock{boot: zero, mono: zero, rate: rate}
}

// clock is a participant's two clocks. From at on they show boot and mono and run at one rate; a
// change of the rate begins a new segment. All of it is integers, so that equal runs are equal on
// every computer.
type clock struct {
	at         Time
	boot, mono protocol.Instant
	rate       int64 // parts per million that it is fast
	asleep     bool  // mono stands still
}

// elapsed is how much a clock advances in d of true time, rounded down.
func elapsed(d Time, rate int64) protocol.Instant {
	whole, rest := int64(d)/million, int64(d)%million
	return protocol.Instant(whole*(million+rate) + rest*(million+rate)/million)
}

// takes is the least true time in which a clock advances by d.
func takes(d protocol.Instant, rate int64) Time {
	den := million + rate
	whole, rest := int64(d)/den, int64(d)%den
	return Time(whole*million + (rest*million+den-1)/den)
}

// Read is what the clocks show now.
func (c *clock) Read(now Time) protocol.Reading {
	by := elapsed(now-c.at, c.rate)
	r := protocol.Reading{Boot: c.boot + by, Mono: c.mono + by}
	if c.asleep {
		r.Mono = c.mono
	}
	return r
}

// settle begins a new segment with what the clocks show now.
func (c *clock) settle(now Time) {
	r := c.Read(now)
	c.at, c.boot, c.mono = now, r.Boot, r.Mono
}

// reading is what n's clocks show now.
func (w *World) reading(n *node) protocol.Reading { return n.clock.Read(w.now) }

// When is when the boot clock will show i, at its present rate; now if it already does.
func (c *clock) When(i protocol.Instant, now Time) Time {
	if i == protocol.Never {
		return never
	}
	if i <= c.boot+elapsed(now-c.at, c.rate) {
		return now
	}
	if i-c.boot < 0 { // farther away than an Instant can represent
		return never
	}
	return c.at + takes(i-c.boot, c.rate)
}

// Step sets the boot clock, and the other one too if both is true, forward by that much.
func (c *clock) Step(now Time, by time.Duration, both bool) {
	c.settle(now)
	c.boot = c.boot.Add(by)
	if both {
		c.mono = c.mono.Add(by)
	}
}

// Sleep makes the clocks show that the machine has slept for that long, until now: the mono clock has stood still.
func (c *clock) Sleep(now Time, slept time.Duration) {
	c.settle(now)
	c.mono = c.mono.Add(-slept)
}

// Run changes the rate.
func (c *clock) Run(now Time, rate int64) {
	c.settle(now)
	c.rate = rate
}

// trueAt is when n's boot clock will show i, at its present rate; now if it already does.
func (w *World) trueAt(n *node, i protocol.Instant) Time { return n.clock.When(i, w.now) }

// setClock changes n's clock, and updates all that depends on it.
func (w *World) setClock(n *node, change func(c *clock)) {
	n.clock.settle(w.now)
	change(&n.clock)
	if n.up {
		w.oracle.clock(w, n)
		w.arm(n)
	}
}
