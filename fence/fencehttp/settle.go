package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// settledSuffix is what the name of a second mark has more than that of its resource.
const settledSuffix = "@settled"

// settledPatience is how long that mark may take to be written. A guard waits for it once a
// token, and it is not needed.
const settledPatience = 5 * time.Second

// Settle returns a mark that lets nobody raise a resource's for a time from now, unless it
// was never claimed. A proxy that starts needs it: the upstream may still be at
// work on requests of a process that was killed before, and a greater token has to wait
// for them as it waits for those in flight. Let the time d be that of the longest request;
// 0 and less is no time at all.
//
// The token that the mark is at waits likewise, unless the process before had let it in: it
// may have been killed while the token still waited for smaller ones. A [fence.Guard]
// tells when that is over ([fence.Clearer]), and it is kept in a second mark, of the
// resource's name with "@settled" after it, which is added if the mark has a method Add. Where that cannot be kept (the name would be too
// long, the mark's own place refuses it), the token waits after each start.
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

var _ fence.Clearer = (*settling)(nil)

// Raise implements [fence.Mark].
func (s *settling) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if strings.HasSuffix(string(resource), settledSuffix) {
		return fmt.Errorf("%w: %s: names that end with %s are those of the marks beside", fence.ErrResource, resource, settledSuffix)
	}
	if left := time.Until(s.until); left > 0 {
		highest, err := s.Highest(ctx, resource)
		if err != nil {
			return err
		}
		if highest != 0 && token >= highest && !(token == highest && s.settled(ctx, resource) == token) {
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

// Cleared implements [fence.Clearer].
func (s *settling) Cleared(ctx context.Context, resource fence.Resource, token fence.Token) {
	// Once a token, for all of its requests: not for as long as the first of them lasts.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settledPatience)
	defer cancel()
	if s.settled(ctx, resource) == token {
		return
	}
	beside := resource + settledSuffix
	err := s.Mark.Raise(ctx, beside, token) // if it fails the next process waits
	if adder, ok := s.Mark.(interface {
		Add(context.Context, fence.Resource) error
	}); ok && errors.Is(err, fence.ErrResource) && adder.Add(ctx, beside) == nil {
		_ = s.Mark.Raise(ctx, beside, token)
	}
}

// settled is the token that was let in last, 0 if that is not known.
func (s *settling) settled(ctx context.Context, resource fence.Resource) fence.Token {
	token, err := s.Highest(ctx, resource+settledSuffix)
	if err != nil {
		return 0
	}
	return token
}
