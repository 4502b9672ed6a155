package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/fence"
)

// settledSuffix follows the name of the resource in that of its second mark.
const settledSuffix = "@settled"

// Settled is the name of the second mark that [Settle] keeps beside that of a resource.
func Settled(resource fence.Resource) fence.Resource { return resource + settledSuffix }

// IsSettled reports whether the name is one that [Settled] makes. No resource behind
// [Settle] may have it.
func IsSettled(resource fence.Resource) bool {
	return strings.HasSuffix(string(resource), settledSuffix)
}

// settledPatience is how long the second mark may take to be written. A guard waits for it
// once a token, and can do without it.
const settledPatience = 5 * time.Second

// Settle returns the mark with a delay: for the time d from now a Raise waits, unless the
// resource was never claimed. A proxy that starts needs it: the upstream may still be at
// work on requests of a process that was killed before, and a greater token has to wait
// for them as it waits for those in flight. Let d be the time of the longest request; 0
// and less is no delay.
//
// The token that the mark is at waits likewise, unless the process before had let it in:
// that one may have been killed while the token still waited for smaller ones. A
// [fence.Guard] tells when it lets a token in ([fence.Clearer]), and a second mark keeps
// that, named as the resource with "@settled" after it. If the mark has a method Install, as
// those of fencefile and fenceetcd, the second one is installed by it. Where there can be no
// such mark (the name would be too long, or the place refuses it), the token waits after
// each start.
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

// installer is a mark whose resources have to be installed before they can be claimed.
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
	// Once a token, for all of its requests: not for as long as the first of them lasts.
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

// settled is the token that was let in last, 0 if that is not known.
func (s *settling) settled(ctx context.Context, resource fence.Resource) fence.Token {
	token, err := s.Highest(ctx, Settled(resource))
	if err != nil {
		return 0
	}
	return token
}
