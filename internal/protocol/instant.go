package protocol

import (
	"math"
	"time"
)

// Instant is a reading of one participant's own clock, in nanoseconds since an instant of its own.
// Instants of two participants are never compared.
type Instant int64

const (
	// Never is later than every instant.
	Never Instant = math.MaxInt64
	// Always is earlier than every instant.
	Always Instant = math.MinInt64
)

// Add returns i plus d. Never and Always do not change.
func (i Instant) Add(d time.Duration) Instant {
	if i == Never || i == Always {
		return i
	}
	return i + Instant(d)
}

// Sub returns the time from o to i. Neither may be Never or Always.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// String returns the time since the clock's zero, such as 1.5s.
func (i Instant) String() string {
	switch i {
	case Never:
		return "never"
	case Always:
		return "always"
	}
	return time.Duration(i).String()
}

// Reading is what a participant's two clocks show at one moment: Boot counts on while the machine
// sleeps (CLOCK_BOOTTIME), Mono stands still (CLOCK_MONOTONIC). The instants in a machine's outputs
// are of Boot.
//
// A reading is taken before a request is sent and after an answer has arrived, never the other way
// round: the deadline of a lease counts from before its request left.
type Reading struct {
	Boot Instant `json:"boot"`
	Mono Instant `json:"mono"`
}

// Offset is the difference of the two clocks. It changes when the machine sleeps or a clock is set.
func (r Reading) Offset() time.Duration { return r.Boot.Sub(r.Mono) }

// JumpTolerance is the greatest difference of two offsets that counts as none: the two clocks
// cannot be read in the same nanosecond. Until it notices a jump, a machine compares with one
// reading, its anchor, so that small jumps do not add up. Then any two readings without a noticed
// jump differ from true time by at most 2·JumpTolerance. The same holds at the other end of a
// promise, so the least guard of a lease is four times JumpTolerance.
const JumpTolerance = 500 * time.Microsecond

// Jumped reports whether the machine slept, or a clock was set, between two readings.
func (r Reading) Jumped(since Reading) bool {
	d := r.Offset() - since.Offset()
	return d > JumpTolerance || d < -JumpTolerance
}
