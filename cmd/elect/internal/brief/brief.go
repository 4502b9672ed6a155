// Package brief leaves of a time what a person wants to know: three digits, and
// nothing below a second once there are minutes. What programs read is not
// rounded by it. Its functions are pure, and cannot fail.
package brief

import "time"

// Unit is the third digit of d that matters: a power of ten, a second at most.
func Unit(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for unit < time.Second && d.Abs() >= 1000*unit {
		unit *= 10
	}
	return unit
}

// Round rounds d to its [Unit].
func Round(d time.Duration) time.Duration { return d.Round(Unit(d)) }

// Up rounds a d of 0 or more up to its [Unit]: what is said to be the most must
// not be less.
func Up(d time.Duration) time.Duration {
	unit := Unit(d)
	return (d + unit - 1).Truncate(unit)
}

// Down rounds a d of 0 or more down to its [Unit]: what is said to be the least
// must not be more.
func Down(d time.Duration) time.Duration { return d.Truncate(Unit(d)) }
