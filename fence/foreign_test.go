package fence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/electd/elect/fence"
)

// What ends the context of somebody's work may be the refusal of a token by another guard, of
// another election. It says nothing about the mark of this one.
func TestContextThatAnotherGuardHasEnded(t *testing.T) {
	ended, end := context.WithCancelCause(t.Context())
	end(&fence.StaleError{Shown: 1000, Highest: 1001})
	for name, mark := range map[string]fence.Mark{"alone": waiting{new(fence.Memory)}, "shared": waitingShare{holder: newHolder()}} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, mark, fence.GuardConfig{Patience: time.Second})
			if err := g.Claim(t.Context(), "r", 4); err != nil {
				t.Fatal(err)
			}
			if name == "shared" { // else the mark is not asked for it
				if _, err := g.Begin(ended, "r", 4); fence.ResultOf(err) != fence.Failed {
					t.Errorf("got %v; want no refusal", err)
				}
			}
			if _, err := g.Begin(ended, "r", 5); fence.ResultOf(err) != fence.Failed || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v; want that the context has ended, and no refusal", err)
			}
			if err := g.Claim(ended, "r", 5); !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
				t.Errorf("a claim: %v; want an unknown outcome", err)
			}
			p := begin(t, g, 5)
			if err := p.End(); err != nil {
				t.Error(err)
			}
		})
	}
}

// waiting is a mark that heeds the context.
type waiting struct{ fence.Mark }

func (w waiting) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.Mark.Raise(ctx, r, token)
}

// waitingShare is one that is shared.
type waitingShare struct{ *holder }

func (w waitingShare) Share(ctx context.Context, r fence.Resource, token fence.Token) (func() error, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return w.holder.Share(ctx, r, token)
}

// panicking is a shared mark that panics when the test says so.
type panicking struct {
	fence.Memory
	raise, share bool
}

func (p *panicking) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	if p.raise {
		panic("of the driver")
	}
	return p.Memory.Raise(ctx, r, token)
}

func (p *panicking) Share(context.Context, fence.Resource, fence.Token) (func() error, error) {
	if p.share {
		panic("of the driver")
	}
	return func() error { return nil }, nil
}

// A mark that panics leaves nothing locked, and nothing in flight: a server that recovers,
// as that of net/http does, asks it again.
func TestMarkThatPanics(t *testing.T) {
	mark := &panicking{raise: true, share: true}
	g := newGuard(t, mark, fence.GuardConfig{})
	done := make(chan error, 1)
	go func() {
		for range 2 {
			func() {
				defer func() {
					if r := recover(); r != "of the driver" {
						t.Errorf("recovered %v", r)
					}
				}()
				_, _ = g.Begin(t.Context(), "r", 5)
			}()
			mark.raise = false
		}
		mark.share = false
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done <- g.Claim(ctx, "r", 6)
	}()
	select {
	case err := <-done:
		if err != nil || g.InFlight("r") != 0 {
			t.Errorf("%v, and %d are in flight", err, g.InFlight("r"))
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the guard is locked")
	}
}
