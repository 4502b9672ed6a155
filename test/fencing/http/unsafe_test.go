//go:build linux

package http_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/zombie"
)

// TestWithoutWaiting: a proxy that compares tokens and forwards, and does not know what is
// in flight, lets the second half of an older upload land after the newer leader's write.
func TestWithoutWaiting(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	upstream := startUpstream(t)
	at, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	var mark fence.Memory
	forward := httputil.NewSingleHostReverseProxy(at)
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, err := fencehttp.FromHeader(r.Header)
		if err != nil && r.Method == http.MethodGet {
			forward.ServeHTTP(w, r)
			return
		}
		if err == nil {
			err = mark.Raise(r.Context(), shown.Resource, shown.Token)
		}
		if stale, ok := errors.AsType[*fence.StaleError](err); ok {
			w.Header().Set(fencehttp.ResultHeader, string(fence.Stale))
			fencehttp.SetHeader(w.Header(), fence.Shown{Resource: shown.Resource, Token: stale.Highest})
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		if r.URL.Path == fencehttp.ClaimPath {
			fencehttp.SetHeader(w.Header(), shown)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		forward.ServeHTTP(w, r)
	})
	zombie.Disprove(t, zombie.Config{Opener: "upload", Where: serve(t, naive), Read: directly(upstream)})
}

// TestTwoMarks: two proxies with a mark each guard nothing.
func TestTwoMarks(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	upstream := startUpstream(t)
	one, other := serveProxy(t, upstream, new(fence.Memory), fence.GuardConfig{}), serveProxy(t, upstream, new(fence.Memory), fence.GuardConfig{})
	zombie.Disprove(t, zombie.Config{Opener: "http1", Where: one + "," + other, Read: directly(upstream)})
}

// TestMarkThatIsNotHeld: nor do two with one mark that each reads before it forwards: the one does
// not know the requests in flight at the other. A mark that is held while a request is at work is
// the cure.
func TestMarkThatIsNotHeld(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	t.Run("not held", func(t *testing.T) {
		upstream, mark := startUpstream(t), new(fence.Memory)
		one, other := serveProxy(t, upstream, mark, fence.GuardConfig{}), serveProxy(t, upstream, mark, fence.GuardConfig{})
		zombie.Disprove(t, zombie.Config{Opener: "upload", Where: one + "," + other, Read: directly(upstream)})
	})
	t.Run("held", func(t *testing.T) {
		upstream, mark := startUpstream(t), new(held)
		one, other := serveProxy(t, upstream, mark, fence.GuardConfig{}), serveProxy(t, upstream, mark, fence.GuardConfig{})
		zombie.Prove(t, zombie.Config{Opener: "upload", Where: one + "," + other, Read: directly(upstream), Wait: 300 * time.Millisecond})
	})
}

// held is a mark in memory that several guards may hold. The zero value is ready.
type held struct {
	fence.Memory
	mu      sync.Mutex
	holds   map[fence.Token]int
	changed chan struct{}
}

func (h *held) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	for {
		h.mu.Lock()
		below := false
		for t := range h.holds {
			below = below || t < token
		}
		if !below {
			defer h.mu.Unlock()
			return h.Memory.Raise(ctx, r, token)
		}
		if h.changed == nil {
			h.changed = make(chan struct{})
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *held) Share(ctx context.Context, r fence.Resource, token fence.Token) (func() error, error) {
	if err := h.Raise(ctx, r, token); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Memory.Raise(ctx, r, token); err != nil {
		return nil, err // another was quicker
	}
	if h.holds == nil {
		h.holds = map[fence.Token]int{}
	}
	h.holds[token]++
	return func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.holds[token]--; h.holds[token] == 0 {
			delete(h.holds, token)
		}
		if h.changed != nil {
			close(h.changed)
			h.changed = nil
		}
		return nil
	}, nil
}

// late is a mark that says that it is raised before it is durable.
type late struct {
	seen    fence.Memory
	durable *fence.Memory
}

func (l *late) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	if highest, _ := l.durable.Highest(ctx, r); token < highest {
		return &fence.StaleError{Shown: token, Highest: highest}
	}
	return l.seen.Raise(ctx, r, token) // it would become durable a little later
}

func (l *late) Highest(ctx context.Context, r fence.Resource) (fence.Token, error) {
	return l.durable.Highest(ctx, r)
}

// TestForwardedBeforeTheMark: a proxy that forwards before its mark is durable, and dies
// in between, has forgotten the newer leader, and lets the older one in.
func TestForwardedBeforeTheMark(t *testing.T) {
	upstream, disk, client := startUpstream(t), new(fence.Memory), leader(nil)
	older, newer := fence.NewContext(t.Context(), 5), fence.NewContext(t.Context(), 6)
	for _, c := range []struct {
		mark func() fence.Mark // of a proxy that starts
		want error
	}{
		{func() fence.Mark { return &late{durable: disk} }, nil},
		{func() fence.Mark { return disk }, fence.ErrStale},
	} {
		first := serveProxy(t, upstream, c.mark(), fence.GuardConfig{})
		if err := write(older, client, first+"/", 5, 0); err != nil {
			t.Fatal(err)
		}
		if err := write(newer, client, first+"/", 6, 0); err != nil {
			t.Fatal(err)
		}
		second := serveProxy(t, upstream, c.mark(), fence.GuardConfig{})
		if err := write(older, client, second+"/", 5, 0); !errors.Is(err, c.want) {
			t.Errorf("after a restart the older leader gets %v; want %v", err, c.want)
		}
	}
}

// TestCuttingIsNotEnough: an upstream that is at work on a request does not stop because
// its connection is closed. A proxy that cuts sooner than the longest request takes lets
// the older write land last; one that waits for it does not.
func TestCuttingIsNotEnough(t *testing.T) {
	t.Parallel()
	for drain, want := range map[time.Duration]int64{0: 5, patience: 6} {
		t.Run(drain.String(), func(t *testing.T) {
			upstream, client := startUpstream(t), leader(nil)
			at := serveProxy(t, upstream, new(fence.Memory), fence.GuardConfig{Drain: drain})
			done := make(chan error, 1)
			go func() { done <- write(fence.NewContext(t.Context(), 5), client, at+"/?after=2s", 5, 0) }()
			harness.Eventually(t, "the write is at the upstream", func() bool { return busy(t, upstream) == 1 })
			if err := claimBy(t.Context(), client, at, fencehttp.Secret{}, 6); err != nil {
				t.Fatal(err)
			}
			if err := write(fence.NewContext(t.Context(), 6), client, at+"/", 6, 0); err != nil {
				t.Fatal(err)
			}
			if err := <-done; errors.Is(err, fence.ErrStale) || (err == nil) != (drain > 0) || err != nil && !errors.Is(err, fence.ErrUnknownOutcome) {
				t.Errorf("the older leader is told %v", err)
			}
			harness.Eventually(t, "the older write has landed", func() bool { return busy(t, upstream) == 0 })
			if value, err := directly(upstream)(t.Context()); value != want || err != nil {
				t.Errorf("the register has %d, %v; want %d", value, err, want)
			}
		})
	}
}
