package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// settledSuffix is appended to the name of a resource for its second mark.
const settledSuffix = "@settled"

// Settled is the name of the second mark that [Settle] keeps for a resource.
func Settled(resource fence.Resource) fence.Resource { return resource + settledSuffix }

// IsSettled reports whether the name is one that [Settled] returns. No resource behind [Settle] may have such a name.
func IsSettled(resource fence.Resource) bool {
	return strings.HasSuffix(string(resource), settledSuffix)
}

// settledPatience bounds the writing of the second mark. A guard waits for it once for each token, and works without
// it.
const settledPatience = 5 * time.Second

// Settle returns the mark with a delay: for the time d from now a Raise waits, unless the resource was never claimed.
// A proxy needs that at its start: the upstream may still be working on requests of a process that was killed before,
// and a greater token has to wait for them as it waits for those in flight. d should be the time of the longest
// request; 0 or less is no delay.
//
// The token of the mark waits too, unless the earlier process had admitted it: that process may have been killed
// while the token still waited for smaller ones. A [fence.Guard] reports each token that it admits ([fence.Clearer]),
// and a second mark stores that. Its name is that of the resource with "@settled" appended. If the mark has a method
// Install, as those of fencefile and fenceetcd do, Settle installs the second mark by it. If there can be no such
// mark (the name would be too long, or the store refuses it), the token waits after each start.
//
// It is for a mark that one process uses at a time. If several share one ([fence.Sharer]), the others do not learn
// that one has died; the returned mark is not a Sharer.
func Settle(mark fence.Mark, d time.Duration) fence.Mark {
	return &settling{Mark: mark, until: time.Now().Add(d)}
}

type settling struct {
	fence.Mark
	until time.Time
}

var _ fence.Clearer = (*settling)(nil)

// installer is a mark whose resources must be installed before they can be claimed.
type installer interface {
	Install(ctx context.Context, resource fence.Resource) error
}

// Raise implements [fence.Mark].
func (s *settling) Raise(ctx context.Context, resource fence.Resource, token fence.Token) error {
	if IsSettled(resource) {
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
	// Once for each token and all of its requests, so not bounded by the context of the first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settledPatience)
	defer cancel()
	if s.settled(ctx, resource) == token {
		return
	}
	second := Settled(resource)
	err := s.Mark.Raise(ctx, second, token) // if it fails the next process waits
	if to, ok := s.Mark.(installer); ok && errors.Is(err, fence.ErrResource) && to.Install(ctx, second) == nil {
		_ = s.Mark.Raise(ctx, second, token)
	}
}

// settled is the last admitted token, 0 if not known.
func (s *settling) settled(ctx context.Context, resource fence.Resource) fence.Token {
	token, err := s.Highest(ctx, Settled(resource))
	if err != nil {
		return 0
	}
	return token
}
