package fencehttp

import (
	"context"
	"time"

	"github.com/electd/elect/fence"
)

// Settle returns a mark that lets nobody raise a resource's for a time from now, unless it
// was never claimed. A proxy that starts needs it: the upstream may still be at
// work on requests of a process that was killed before, and a greater token has to wait
// for them as it waits for those in flight. The token that the mark is at passes
// meanwhile. Let the time be that of the longest request.
//
// It is for a mark that one process has at a time. Where several share one
// ([fence.Sharer]), the others are not told that one has died; what is returned is not a
// Sharer.
func Settle(mark fence.Mark, d time.Duration) fence.Mark {
	return &settling{Mark: mark, until: time.Now().Add(d)}
}

type settling struct {
	fence.Mark
	until time.Time
}

// Raise implements [fence.Mark].
func (s *settling) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if left := time.Until(s.until); left > 0 {
		highest, err := s.Highest(ctx, resource)
		if err != nil {
			return err
		}
		if highest != 0 && token > highest {
			timer := time.NewTimer(left)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return s.Mark.Raise(ctx, resource, token)
}
