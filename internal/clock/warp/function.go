package warp

// Function is what clocks show, as a function of what the kernel's do. All
// times are nanoseconds.
type Function struct {
	Rate float64 // of both, above 0; 1 is true
	Boot Line    // of CLOCK_BOOTTIME
	Mono Line    // of CLOCK_MONOTONIC
}

// Line is one clock: it shows To where the kernel's shows From.
type Line struct{ From, To int64 }

// Straight is the function that changes nothing.
func Straight() Function { return Function{Rate: 1} }

// At is what the clock shows when the kernel's shows t.
func (l Line) At(t int64, rate float64) int64 {
	if rate == 1 { // exactly, however far from where it began
		return l.To + (t - l.From)
	}
	return l.To + int64(float64(t-l.From)*rate)
}
