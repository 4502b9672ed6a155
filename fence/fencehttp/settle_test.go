package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// A token waits for what an earlier process may have left at the upstream, also that of
// the mark, unless it had been let in; the first of all does not.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := new(fence.Memory)
		start := time.Now()
		mark := fencehttp.Settle(memory, 10*time.Second)
		raise := func(r fence.Resource, token fence.Token, want time.Duration) {
			t.Helper()
			if err := mark.Raise(t.Context(), r, token); err != nil {
				t.Error(err)
			}
			if took := time.Since(start).Truncate(time.Second); took != want {
				t.Errorf("%s to %v after %v; want %v", r, token, took, want)
			}
		}
		waits := func(r fence.Resource, token fence.Token) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
			defer cancel()
			if err := mark.Raise(ctx, r, token); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s to %v: %v; want that it waits", r, token, err)
			}
		}
		_ = memory.Raise(t.Context(), "r", 5)
		raise("s", 5, 0)
		waits("r", 5) // it may have waited for smaller ones when the process was killed
		if err := mark.Raise(t.Context(), "r", 4); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a smaller one: %v", err)
		}
		mark.(fence.Clearer).Cleared(t.Context(), "r", 5)
		raise("r", 5, 0)
		waits("r", 6)
		_ = memory.Raise(t.Context(), "r", 6) // by the process before
		waits("r", 6)
		if err := mark.Raise(t.Context(), "r@settled", 7); !errors.Is(err, fence.ErrResource) {
			t.Errorf("the second mark itself: %v", err)
		}
		time.Sleep(10*time.Second - time.Since(start))
		raise("r", 6, 10*time.Second) // having asked before makes no difference
		raise("r", 7, 10*time.Second)
		long := fence.Resource(strings.Repeat("r", fence.MaxResource))
		raise(long, 7, 10*time.Second)
		mark.(fence.Clearer).Cleared(t.Context(), long, 7) // whose second name is too long
		mark = fencehttp.Settle(memory, 10*time.Second)
		waits(long, 7)
	})
}

// TestSettleModel: proxies of one mark are killed and started, leaders come and go, and the
// upstream finishes what was forwarded to it, even if the sender was killed. It is never at work
// for two tokens at once, nor for a smaller one after a greater was let in.
func TestSettleModel(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playSettle(t, seed) })
		})
	}
}

// longest is how long a request is at work at the upstream of the model at most.
const longest = 50 * time.Millisecond

// life is one process of the proxy.
type life struct {
	guard *fence.Guard
	ctx   context.Context // ends when it is killed
	kill  context.CancelFunc
}

// living is the mark as a process has it: one that was killed raises nothing.
type living struct {
	fence.Mark
	mu  *sync.Mutex // a process is killed under it
	ctx context.Context
}

func (l *living) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ctx.Err(); err != nil {
		return err
	}
	return l.Mark.Raise(ctx, r, token)
}

func playSettle(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	mark := new(fence.Memory)
	var mu sync.Mutex // of all that follows; a process is killed under it
	born := func(drain time.Duration) *life {
		l := new(life)
		l.ctx, l.kill = context.WithCancel(t.Context())
		kept := fencehttp.Settle(&living{Mark: mark, mu: &mu, ctx: l.ctx}, longest)
		l.guard = newGuard(t, kept, fence.GuardConfig{Drain: drain})
		return l
	}
	either := []time.Duration{longest, -1}
	now := born(either[random.IntN(2)])
	working, newest, admitted := map[fence.Token]int{}, fence.Token(0), 0
	enter := func(token fence.Token) {
		for other := range working {
			if other < token {
				t.Errorf("%v is let in, and the upstream is at work for %v", token, other)
			}
		}
		if token < newest {
			t.Errorf("%v is let in after %v", token, newest)
		}
		newest = max(newest, token)
		admitted++
	}
	var all sync.WaitGroup
	for range 60 {
		token, starts := fence.Token(1+random.IntN(4)), time.Duration(random.IntN(400))*time.Millisecond
		takes, claims := time.Duration(random.Int64N(int64(longest))), random.IntN(3) == 0
		all.Go(func() {
			time.Sleep(starts + time.Duration(token)*80*time.Millisecond)
			mu.Lock()
			l := now
			mu.Unlock()
			if claims {
				err := l.guard.Claim(l.ctx, "r", token)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && l.ctx.Err() == nil && token >= newest {
					enter(token)
				}
				return
			}
			p, err := l.guard.Begin(l.ctx, "r", token)
			if err != nil {
				return
			}
			mu.Lock()
			if l.ctx.Err() != nil {
				mu.Unlock()
				return // it was killed before it had forwarded anything
			}
			enter(token)
			working[token]++
			mu.Unlock()
			time.Sleep(takes) // at the upstream
			mu.Lock()
			if working[token]--; working[token] == 0 {
				delete(working, token)
			}
			mu.Unlock()
			if l.ctx.Err() == nil {
				_ = p.End()
			}
		})
	}
	for n := range 6 {
		dies, drain := time.Duration(n*120+random.IntN(120))*time.Millisecond, either[random.IntN(2)]
		all.Go(func() {
			time.Sleep(dies)
			mu.Lock()
			defer mu.Unlock()
			now.kill()
			now = born(drain)
		})
	}
	all.Wait()
	now.kill()
	if newest < 2 || admitted < 2 {
		t.Errorf("%d let in, up to %v: this has shown nothing", admitted, newest)
	}
}
