// Package clock reads the clocks for leases. It keeps no state and its functions may be called by any number of
// goroutines.
//
// Go's own monotonic clock stands still while the machine sleeps. With it a leader would believe in a lease that has
// lapsed for all others. On Linux CLOCK_BOOTTIME goes on; other systems only have the monotonic clock.
//
// In builds with the tag chaos, which only tests make, readings may pass through a page that a test writes, see
// package warp. All other builds do not contain that code.
package clock

import "time"

// Boot is a reading of the clock that counts on while the machine sleeps: the
// time since some instant before this process started, the same instant for
// all processes of one running kernel (of one time namespace). Readings are
// compared only within one machine and one boot.
type Boot time.Duration

// Add returns b plus d.
func (b Boot) Add(d time.Duration) Boot { return b + Boot(d) }

// Sub returns the time from o to b.
func (b Boot) Sub(o Boot) time.Duration { return time.Duration(b - o) }
