package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
)

// TestGuardModel: whatever comes and goes, only one token is at work at a time, never
// a smaller one after a greater, and never one above what the mark keeps; when a claim has
// returned nothing smaller is at work, or ever will be. Marks fail before and after they have
// done what they were asked, and work panics.
func TestGuardModel(t *testing.T) {
	admitted := map[string]int{"sound": 0, "failing": 0, "shared": 0, "shared and failing": 0}
	for seed := range uint64(120) {
		for kind := range admitted {
			t.Run(fmt.Sprintf("%d/%s", seed, kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { admitted[kind] += play(t, seed, kind) })
			})
		}
	}
	for kind, n := range admitted {
		if n < 500 && !t.Failed() {
			t.Errorf("%s: %d were admitted in all: this has shown little", kind, n)
		}
	}
}

var errDisk = errors.New("the disk is full")

// unreliable is a mark that fails, every now and then, before or after it has done its work.
type unreliable struct {
	fence.Mark
	mu     sync.Mutex
	random *rand.Rand
}

func (u *unreliable) roll(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.random.IntN(n)
}

func (u *unreliable) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	if u.roll(6) == 0 {
		return errDisk
	}
	time.Sleep(time.Duration(u.roll(10)) * time.Millisecond)
	err := u.Mark.Raise(ctx, r, token)
	if u.roll(6) == 0 {
		return errDisk
	}
	return err
}

// unreliableSharer is the same of a mark that guards share. A hold that has failed is none.
type unreliableSharer struct{ unreliable }

func (u *unreliableSharer) Highest(ctx context.Context, r fence.Resource) (fence.Token, error) {
	if u.roll(6) == 0 {
		return 0, errDisk
	}
	return u.Mark.Highest(ctx, r)
}

func (u *unreliableSharer) Share(ctx context.Context, r fence.Resource, token fence.Token) (func() error, error) {
	if u.roll(6) == 0 {
		return nil, errDisk
	}
	select {
	case <-time.After(time.Duration(u.roll(10)) * time.Millisecond):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return u.Mark.(fence.Sharer).Share(ctx, r, token)
}

// play reports how many were admitted.
func play(t *testing.T, seed uint64, kind string) (admitted int) {
	random := rand.New(rand.NewPCG(seed, 0))
	var kept fence.Mark = new(fence.Memory)
	guards, shared := 1, false
	if kind == "shared" || kind == "shared and failing" {
		kept, guards, shared = newHolder(), 3, true
	}
	mark := kept
	chance := rand.New(rand.NewPCG(seed, 1))
	switch kind {
	case "failing":
		mark = &unreliable{Mark: kept, random: chance}
	case "shared and failing":
		mark = &unreliableSharer{unreliable{Mark: kept, random: chance}}
	}
	var at []*fence.Guard
	for range guards {
		at = append(at, newGuard(t, mark, fence.GuardConfig{Drain: []time.Duration{0, 20 * time.Millisecond, -1}[random.IntN(3)]}))
	}
	var mu sync.Mutex
	working, newest := map[fence.Token]int{}, fence.Token(0)
	// enter is told of what a token may do from now on, by the guard's word.
	enter := func(ctx context.Context, token fence.Token, what string) {
		stands, err := kept.Highest(ctx, "r")
		smaller := false
		for other := range working {
			smaller = smaller || other < token
		}
		// A mark may be raised already for one that waits; one that is held may not.
		if err != nil || stands < token || shared && stands > token || smaller || token < newest {
			t.Errorf("%v %s beside %v, after %v, and the mark is %v, %v", token, what, working, newest, stands, err)
		}
	}
	var all sync.WaitGroup
	for range 60 {
		token, starts := fence.Token(1+random.IntN(8)), time.Duration(random.IntN(300))*time.Millisecond
		takes, g := time.Duration(random.IntN(50))*time.Millisecond, at[random.IntN(guards)]
		claims, panics := random.IntN(4) == 0, random.IntN(6) == 0
		all.Go(func() {
			time.Sleep(starts)
			if claims {
				err := g.Claim(t.Context(), "r", token)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					// Others may have claimed since; nothing smaller may be at work all the same.
					for other := range working {
						if other < token {
							t.Errorf("%v has claimed, and %v is at work", token, other)
						}
					}
					newest = max(newest, token)
				case errors.Is(err, fence.ErrStale):
				case !errors.Is(err, errDisk) || !errors.Is(err, fence.ErrUnknownOutcome):
					t.Errorf("a claim of %v: %v", token, err)
				}
				return
			}
			defer func() {
				if r := recover(); r != nil && r != "of the work" {
					panic(r)
				}
			}()
			err := g.Do(t.Context(), "r", token, func(ctx context.Context) error {
				mu.Lock()
				enter(t.Context(), token, "is at work")
				working[token]++
				admitted++
				newest = max(newest, token)
				mu.Unlock()
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				mu.Lock()
				if working[token]--; working[token] == 0 {
					delete(working, token)
				}
				mu.Unlock()
				if panics {
					panic("of the work")
				}
				return nil
			})
			if err != nil && !errors.Is(err, fence.ErrStale) && !errors.Is(err, errDisk) {
				t.Errorf("%v: %v", token, err)
			}
		})
	}
	all.Wait()
	for _, g := range at {
		if n := g.InFlight("r"); n != 0 {
			t.Errorf("%d are in flight when all is over", n)
		}
	}
	return admitted
}

// holder is a mark that several guards share.
type holder struct {
	mu      sync.Mutex
	changed chan struct{}
	mark    fence.Token
	held    int
}

func newHolder() *holder { return &holder{changed: make(chan struct{})} }

func (h *holder) change() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *holder) Raise(ctx context.Context, _ fence.Resource, token fence.Token) error {
	for {
		h.mu.Lock()
		switch {
		case token < h.mark:
			defer h.mu.Unlock()
			return &fence.StaleError{Shown: token, Highest: h.mark}
		case token == h.mark, h.held == 0:
			defer h.mu.Unlock()
			h.mark = token
			return nil
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

func (h *holder) Highest(context.Context, fence.Resource) (fence.Token, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mark, nil
}

func (h *holder) Share(_ context.Context, _ fence.Resource, token fence.Token) (func() error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if token < h.mark {
		return nil, &fence.StaleError{Shown: token, Highest: h.mark}
	}
	h.held++
	return func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held--
		h.change()
		return nil
	}, nil
}
