package warp

// Function maps the kernel's clocks to those of a node. All times are nanoseconds.
type Function struct {
	Rate float64 // of both, above 0; 1 is true
	Boot Line    // of CLOCK_BOOTTIME
	Mono Line    // of CLOCK_MONOTONIC
}

// Line is one clock: it shows To where the kernel's shows From.
type Line struct{ From, To int64 }

// Straight is the function that changes nothing.
func Straight() Function { return Function{Rate: 1} }

// At is the reading of the clock when the kernel's is t.
func (l Line) At(t int64, rate float64) int64 {
	if rate == 1 { // exact, however far from its origin
		return l.To + (t - l.From)
	}
	return l.To + int64(float64(t-l.From)*rate)
}
