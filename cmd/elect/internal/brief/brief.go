// Package brief rounds times for people: to three digits, and to seconds once there are minutes. Output for programs
// is not rounded by it. Its functions are pure, and cannot fail.
package brief

import "time"

// Unit is the place of the third digit of d: a power of ten, a second at most.
func Unit(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for unit < time.Second && d.Abs() >= 1000*unit {
		unit *= 10
	}
	return unit
}

// Round rounds d to its [Unit].
func Round(d time.Duration) time.Duration { return d.Round(Unit(d)) }

// Up rounds a d of 0 or more up to its [Unit]: an upper bound must not be understated.
func Up(d time.Duration) time.Duration {
	unit := Unit(d)
	return (d + unit - 1).Truncate(unit)
}

// Down rounds a d of 0 or more down to its [Unit]: a lower bound must not be overstated.
func Down(d time.Duration) time.Duration { return d.Truncate(Unit(d)) }
