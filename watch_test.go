package elect_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// view is one subscription of a test: what it has seen so far, and how it
// ended.
type view struct {
	states []elect.State
	end    error
	done   chan struct{}
}

func watch(ctx context.Context, e *elect.Election) *view {
	v := &view{done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for s, err := range e.Watch(ctx) {
			if err != nil {
				v.end = err
				continue // it is the last
			}
			v.states = append(v.states, s)
		}
	}()
	return v
}

// settles waits until nothing moves any more and returns the last state seen.
func (v *view) settles(t *testing.T) elect.State {
	t.Helper()
	synctest.Wait()
	if len(v.states) == 0 {
		t.Fatal("no state was seen")
	}
	return v.states[len(v.states)-1]
}

func token(s elect.State) elect.Token {
	if s.Leader == nil {
		return 0
	}
	return s.Leader.Token
}

func TestWatchShowsEachSettledState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		b, _ := stand(t, store, "b", elect.Config{})
		early := watch(t.Context(), b)
		if s := early.settles(t); token(s) != 0 || s.Stale {
			t.Errorf("the first state is %+v; want nobody", s)
		}
		for range 3 {
			term := win(t, a)
			late := watch(t.Context(), a) // its first state is the current one
			for _, v := range []*view{early, late} {
				if s := v.settles(t); token(s) != term.Token() || s.Leader.ID != "a" || s.Stale {
					t.Errorf("seen %+v; want a with %v", s, term.Token())
				}
			}
			if len(late.states) != 1 {
				t.Errorf("a late subscription has seen %+v", late.states)
			}
			_ = term.Release(t.Context())
			for _, v := range []*view{early, late} {
				if s := v.settles(t); token(s) != 0 || s.Stale {
					t.Errorf("seen %+v; want nobody", s)
				}
			}
		}
		_ = a.Close()
		_ = b.Close()
	})
}

// A reader that is slow skips what was overtaken, and sees the last.
func TestSlowReaderMissesOnlyWhatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes = 1000
		f := newFake()
		f.observe = func(ctx context.Context) iter.Seq2[driver.State, error] {
			return func(yield func(driver.State, error) bool) {
				for i := range changes {
					if !yield(driver.State{Leader: &driver.Leader{Token: elect.Token(i + 1)}}, nil) {
						return
					}
				}
				<-ctx.Done()
			}
		}
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		seen, last := 0, elect.Token(0)
		for s, err := range e.Watch(ctx) {
			if err != nil {
				if !errors.Is(err, errWork) {
					t.Errorf("it ended with %v", err)
				}
				break
			}
			if seen++; token(s) <= last {
				t.Errorf("token %v after %v", token(s), last)
			}
			last = token(s)
			time.Sleep(time.Second)
			if last == changes {
				cancel(errWork)
			}
		}
		if last != changes || seen > 3 {
			t.Errorf("%d states seen, the last with token %v; want the last, %d, and few before", seen, last, changes)
		}
	})
}

// The last state before the end is seen before the end is.
func TestLastStateComesBeforeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := driver.Permanent(failure("no such table"))
		f := newFake()
		f.observe = func(context.Context) iter.Seq2[driver.State, error] {
			return func(yield func(driver.State, error) bool) {
				_ = yield(driver.State{}, nil) && yield(driver.State{Leader: &driver.Leader{Token: 7}}, nil) && yield(driver.State{}, broken)
			}
		}
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		v := watch(t.Context(), e)
		if s := v.settles(t); token(s) != 7 {
			t.Errorf("the last state is %+v; want token 7", s)
		}
		if <-v.done; !errors.Is(v.end, broken) {
			t.Errorf("it ended with %v; want %v", v.end, broken)
		}
		if _, err := e.Leader(t.Context()); err != nil && !errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("Leader: %v", err)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*elect.Election, context.CancelCauseFunc)
		want error
	}{
		"with its context": {func(_ *elect.Election, cancel context.CancelCauseFunc) { cancel(errWork) }, errWork},
		"with Close":       {func(e *elect.Election, _ context.CancelCauseFunc) { _ = e.Close() }, elect.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				v := watch(ctx, e)
				v.settles(t)
				tt.end(e, cancel)
				if <-v.done; !errors.Is(v.end, tt.want) {
					t.Errorf("it ended with %v; want %v", v.end, tt.want)
				}
				// And once more, on what has ended already.
				v = watch(ctx, e)
				if <-v.done; !errors.Is(v.end, tt.want) || len(v.states) > 0 {
					t.Errorf("begun after the end, it saw %v and ended with %v; want only %v", v.states, v.end, tt.want)
				}
			})
		})
	}
}

// The driver is no longer observed when the loop has been left.
func TestLeavingWatchJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, left := newFake(), false
		f.observe = func(ctx context.Context) iter.Seq2[driver.State, error] {
			return func(yield func(driver.State, error) bool) {
				yield(driver.State{}, nil)
				<-ctx.Done()
				time.Sleep(time.Second)
				left = true
			}
		}
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for range e.Watch(t.Context()) {
			break
		}
		if !left {
			t.Error("the loop was left and the driver is still being observed")
		}
	})
}

// Leaving the loop ends the subscription, and so does a panic in its body; the
// bubble sees that nothing stays behind.
func TestLeavingWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		watching := e.Watch(context.Background()) // each range is its own
		for range 3 {
			for s, err := range watching {
				if err != nil || s.Leader != nil {
					t.Errorf("seen %+v, %v", s, err)
				}
				break
			}
		}
		func() {
			defer func() { _ = recover() }()
			for range watching {
				panic("in the body")
			}
		}()
	})
}

func TestWatchInTroubleIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		b, link := stand(t, store, "b", elect.Config{})
		first := win(t, a)
		v := watch(t.Context(), b)
		v.settles(t)
		link.Cut(true)
		if s := v.settles(t); !s.Stale || token(s) != first.Token() || !errors.Is(s.Cause, driver.ErrUnreachable) {
			t.Errorf("cut off, seen %+v; want the leader last known, stale, and why", s)
		}
		if l, err := b.Leader(t.Context()); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Leader while cut off: %+v, %v; want ErrUnreachable", l, err)
		}
		_ = first.Release(t.Context())
		second := win(t, a)
		if s := v.settles(t); !s.Stale || token(s) != first.Token() {
			t.Errorf("cut off, seen %+v; want what was last known", s)
		}
		link.Cut(false)
		if s := v.settles(t); s.Stale || token(s) != second.Token() {
			t.Errorf("healed, seen %+v; want token %v", s, second.Token())
		}
		store.Outage(true)
		time.Sleep(2 * lease) // the leader is lost meanwhile
		store.Outage(false)
		if s := v.settles(t); s.Stale || token(s) != 0 {
			t.Errorf("after an outage beyond the lease, seen %+v; want nobody", s)
		}
		_ = a.Close()
		_ = b.Close()
	})
}

func TestLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		if l, err := e.Leader(t.Context()); !errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("nobody leads: %+v, %v; want ErrNoLeader", l, err)
		}
		term := win(t, e)
		if l, err := e.Leader(t.Context()); err != nil || l.ID != "a" || l.Token != term.Token() || !l.Since.Equal(time.Now()) {
			t.Errorf("a leads: %+v, %v", l, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWork)
		if _, err := e.Leader(ctx); !errors.Is(err, errWork) {
			t.Errorf("with an ended context: %v; want its cause", err)
		}
		_ = e.Close()
		if _, err := e.Leader(t.Context()); !errors.Is(err, elect.ErrClosed) {
			t.Errorf("after Close: %v; want ErrClosed", err)
		}
	})
}

// A stale state whose driver forgot the cause is trouble all the same.
func TestLeaderOfAStaleStateWithoutCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.observe = func(context.Context) iter.Seq2[driver.State, error] {
			return func(yield func(driver.State, error) bool) {
				yield(driver.State{Leader: &driver.Leader{ID: "b", Token: 7}, Stale: true}, nil)
			}
		}
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if l, err := e.Leader(t.Context()); l.Token != 7 || !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Leader is %+v, %v; want who was last known, and ErrUnreachable", l, err)
		}
	})
}
