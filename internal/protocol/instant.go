package protocol

import (
	"math"
	"time"
)

// Instant is a reading of one participant's own clock, in nanoseconds since
// some instant of its own. Two participants' instants are never compared.
type Instant int64

const (
	// Never is later than every instant.
	Never Instant = math.MaxInt64
	// Always is earlier than every instant.
	Always Instant = math.MinInt64
)

// Add returns i plus d. Never and Always stay what they are.
func (i Instant) Add(d time.Duration) Instant {
	if i == Never || i == Always {
		return i
	}
	return i + Instant(d)
}

// Sub returns the time from o to i. It is meant for instants that are neither
// Never nor Always.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// String is the time since the clock's zero, such as 1.5s.
func (i Instant) String() string {
	switch i {
	case Never:
		return "never"
	case Always:
		return "always"
	}
	return time.Duration(i).String()
}

// Reading is what a participant's two clocks show at one moment: Boot counts on
// while the machine sleeps (CLOCK_BOOTTIME), Mono stands still
// (CLOCK_MONOTONIC). Instants that a machine hands out are of Boot.
//
// A reading is taken before a request is sent and after an answer has arrived,
// never the other way round: the deadline of a lease counts from the moment
// before its request left.
type Reading struct {
	Boot Instant `json:"boot"`
	Mono Instant `json:"mono"`
}

// Offset is how far the two clocks are apart. It changes when the machine slept
// or a clock was set.
func (r Reading) Offset() time.Duration { return r.Boot.Sub(r.Mono) }

// JumpTolerance is how far two offsets may differ and still count as one: the
// two clocks cannot be read in the same nanosecond. A machine compares with one
// reading, its anchor, until a jump is noticed, so that small jumps do not add
// up: then any two readings that it took for good are at most 2·JumpTolerance
// further apart than true time. With the same on the other side of a promise,
// the least guard of a lease is four times it.
const JumpTolerance = 500 * time.Microsecond

// Jumped reports whether the machine slept, or a clock was set, between two
// readings.
func (r Reading) Jumped(since Reading) bool {
	d := r.Offset() - since.Offset()
	return d > JumpTolerance || d < -JumpTolerance
}
