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

// Settled is the name of the second mark that [Settle] keeps for a resource: the resource with "@settled" appended.
func Settled(resource fence.Resource) fence.Resource { return resource + settledSuffix }

// IsSettled reports whether the name is one that [Settled] returns, which no resource behind [Settle] may have.
func IsSettled(resource fence.Resource) bool {
	return strings.HasSuffix(string(resource), settledSuffix)
}

// settledPatience bounds the writing of the second mark. A guard waits for it once for each token, and works without
// it.
const settledPatience = 5 * time.Second

// Settle returns the mark with a delay for the start of a proxy: for the time d from now a Raise waits, unless the
// resource was never claimed, because the upstream may still work on requests of a process that was killed. d should be
// the time of the longest request; 0 or less is no delay.
//
// The token of the mark waits too, unless the earlier process had admitted it. To know that, the [fence.Guard] stores
// each token that it admits in a second mark ([fence.Clearer]), under the name that [Settled] returns, which Settle
// installs if the mark has a method Install. If there can be no such mark, because the name is too long or the store
// refuses it, the token waits after each start.
//
// It is for a mark that one process uses at a time: the returned mark is no [fence.Sharer].
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
