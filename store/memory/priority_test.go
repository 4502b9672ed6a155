package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// A waiter of a greater priority that has gone silently delays others for a moment, once, and for
// no longer.
func TestDeferenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		holder, gone, low := open(t, store, "a"), open(t, store, "b"), open(t, store, "c")
		m := win(t, holder)
		go func() {
			if _, err := gone.Campaign(t.Context(), driver.Candidacy{Priority: driver.MaxPriority}); !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrClosed) {
				t.Errorf("the campaign of one that crashed returned %v", err)
			}
		}()
		synctest.Wait()
		gone.Crash()
		for _, want := range []time.Duration{10 * time.Millisecond, 0} {
			won := make(chan driver.Mandate)
			go func() {
				n, err := low.Campaign(t.Context(), driver.Candidacy{Priority: 1})
				if err != nil {
					t.Error(err)
				}
				won <- n
			}()
			synctest.Wait()
			start := time.Now()
			if err := m.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			m = <-won
			if took := time.Since(start); took != want {
				t.Errorf("the other was elected after %v; want %v", took, want)
			}
			if err := m.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			m = win(t, holder)
		}
	})
}

// A waiter that gives up delays no other.
func TestWithdrawnWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		m := win(t, open(t, store, "a"))
		ctx, cancel := context.WithCancel(t.Context())
		high, low := open(t, store, "b"), open(t, store, "c")
		go func() { _, _ = high.Campaign(ctx, driver.Candidacy{Priority: 2}) }()
		won := make(chan driver.Mandate)
		go func() {
			n, _ := low.Campaign(t.Context(), driver.Candidacy{Priority: 1})
			won <- n
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		start := time.Now()
		if err := m.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-won
		if took := time.Since(start); took != 0 {
			t.Errorf("the other was elected after %v; want at once", took)
		}
	})
}
