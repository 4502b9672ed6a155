package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/cmd/elect/internal/sdnotify"
)

// vigil has what the command has said of itself, and judges whether it is ill. It reads no clock.
type vigil struct {
	grace  time.Duration // after STOPPING=1
	limit  time.Duration // between two WATCHDOG=1; 0 is none
	ready  bool          // the command is active
	fed    time.Time     // when limit last began
	by     time.Time     // the deadline for READY=1 or, after STOPPING=1, for the end; zero is none
	within time.Duration // the time that by gave when it was set
	stops  bool          // it said STOPPING=1
	ill    bool          // it said WATCHDOG=trigger
	status string
}

// newVigil begins at the start of the command. wait is the time for READY=1; with 0 the command is active at once.
func newVigil(now time.Time, limit, wait, grace time.Duration) *vigil {
	v := &vigil{grace: grace, limit: limit, ready: wait == 0, fed: now}
	v.give(now, wait)
	return v
}

// give sets the deadline by; d of 0 removes it.
func (v *vigil) give(now time.Time, d time.Duration) {
	v.by, v.within = time.Time{}, d
	if d > 0 {
		v.by = now.Add(d)
	}
}

// hear takes a message.
func (v *vigil) hear(now time.Time, m sdnotify.Message) {
	if m.Status != nil {
		v.status = *m.Status
	}
	if m.Limit != nil {
		v.limit = *m.Limit
	}
	if m.Limit != nil || m.Alive {
		v.fed = now
	}
	if m.Ready && !v.ready {
		v.ready, v.fed = true, now
		if !v.stops {
			v.give(now, 0)
		}
	}
	if m.Stopping && !v.stops {
		if v.stops = true; v.limit > 0 || !v.ready {
			v.give(now, v.grace)
		}
	}
	if m.Extend > 0 && !v.by.IsZero() && now.Add(m.Extend).After(v.by) {
		v.give(now, m.Extend)
	}
	v.ill = v.ill || m.Ill
}

// resume restarts the time for WATCHDOG=1, because this process did not run: the command may not have run either.
func (v *vigil) resume(now time.Time) { v.fed = now }

// due is when the command becomes ill if no message comes; zero is never.
func (v *vigil) due() time.Time {
	switch {
	case v.stops || !v.ready:
		return v.by
	case v.limit > 0:
		return v.fed.Add(v.limit)
	}
	return time.Time{}
}

// why returns why the command is ill, or nil.
func (v *vigil) why(now time.Time) error {
	text := ""
	switch due := v.due(); {
	case v.ill:
		text = "it said WATCHDOG=trigger"
	case due.IsZero() || now.Before(due):
		return nil
	case v.stops:
		text = fmt.Sprintf("it said STOPPING=1, and has not ended within %v", v.within)
	case !v.ready:
		text = fmt.Sprintf("no READY=1 within %v", v.within)
	default:
		text = fmt.Sprintf("no WATCHDOG=1 for %v", v.limit)
	}
	if v.status != "" {
		text += fmt.Sprintf(" (its status: %s)", v.status)
	}
	return errors.New(text)
}
