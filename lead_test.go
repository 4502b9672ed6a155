package elect_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

func TestLeadReturnsWhatTheWorkReturns(t *testing.T) {
	for _, want := range []error{nil, errWork} {
		synctest.Test(t, func(t *testing.T) {
			var d diary
			store := memory.NewStore(0)
			e, _ := stand(t, store, "a", elect.Config{OnEvent: d.note})
			err := e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
				if ctx.Err() != nil || term.Check() != nil {
					t.Errorf("the work starts with context %v and Check %v", ctx.Err(), term.Check())
				}
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("Lead returned %v; want %v", err, want)
			}
			if leader(t, e) != 0 {
				t.Error("it still leads after Lead has returned")
			}
			d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
			lost(t, d.find(t, elect.EventEnded).Err, elect.ReasonResigned)
		})
	}
}

func TestLeadStandsAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		store := memory.NewStore(0)
		e, _ := stand(t, store, "a", elect.Config{OnEvent: d.note})
		var tokens []elect.Token
		err := e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
			tokens = append(tokens, term.Token())
			if len(tokens) == 2 {
				return nil
			}
			store.Recreate()
			<-ctx.Done()
			lost(t, context.Cause(ctx), elect.ReasonSuperseded)
			lost(t, term.Check(), elect.ReasonSuperseded)
			time.Sleep(time.Millisecond) // nothing was left of the lease: an overrun
			return errWork               // of a term that was lost: logged, not returned
		})
		if err != nil {
			t.Errorf("Lead returned %v", err)
		}
		if len(tokens) != 2 || tokens[1] <= tokens[0] {
			t.Errorf("tokens %v; want two, rising", tokens)
		}
		d.is(t,
			elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventOverrun, elect.EventReleased,
			elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
	})
}

func TestLeadDoesNotCampaignAfterTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{OnEvent: d.note})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWork)
		if err := e.Lead(ctx, noWork(t)); !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v; want the cause of its context", err)
		}
		d.is(t)
	})
}

// noWork fails a test in which it is started.
func noWork(t testing.TB) func(context.Context, *elect.Term) error {
	return func(context.Context, *elect.Term) error {
		t.Error("the work was started")
		return nil
	}
}

func TestContextEndsWhileLeadCampaigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		b, _ := stand(t, store, "b", elect.Config{})
		term := win(t, a)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errWork) })
		if err := b.Lead(ctx, noWork(t)); !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v; want the cause of its context", err)
		}
		if err := term.Check(); err != nil {
			t.Errorf("the leader was disturbed: %v", err)
		}
	})
}

func TestContextEndsAtTheInstantOfVictory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		f, m := newFake(), newFakeMandate(1, lease)
		e, err := elect.New(f, elect.Config{OnEvent: d.note})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		m.release = func(ctx context.Context) error { return ctx.Err() } // must not have ended
		f.campaign = func(context.Context, driver.Candidacy) (driver.Mandate, error) {
			cancel(errWork)
			return m, nil
		}
		if err := e.Lead(ctx, noWork(t)); !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v; want the cause of its context", err)
		}
		if n := m.releases.Load(); n != 1 {
			t.Errorf("released %d times; want once", n)
		}
		d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
		lost(t, d.find(t, elect.EventEnded).Err, elect.ReasonShutdown)
		if r := d.find(t, elect.EventReleased); r.Err != nil {
			t.Errorf("the end of Lead's context kept it from releasing: %v", r.Err)
		}
	})
}

func TestContextEndsWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		store := memory.NewStore(0)
		e, _ := stand(t, store, "a", elect.Config{OnEvent: d.note})
		other, _ := stand(t, store, "b", elect.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errWork) })
		err := e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
			<-ctx.Done()
			if l := lost(t, context.Cause(ctx), elect.ReasonShutdown); !errors.Is(l, errWork) {
				t.Errorf("the cause is %v; want it to wrap the cause of Lead's context", l)
			}
			time.Sleep(10 * lease) // a lease is renewed until the work was joined
			if leader(t, other) != term.Token() {
				t.Error("leadership was released before the work had returned")
			}
			return errors.New("interrupted")
		})
		if !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v; want the cause of its context", err)
		}
		if leader(t, other) != 0 {
			t.Error("leadership was not released")
		}
		d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
	})
}

// A work that watches the outer context may return before the term has heard.
func TestWorkSeesTheOuterContextFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{OnEvent: d.note})
		ctx, cancel := context.WithCancelCause(t.Context())
		err := e.Lead(ctx, func(context.Context, *elect.Term) error {
			cancel(errWork)
			return nil
		})
		if !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v; want the cause of its context", err)
		}
		lost(t, d.find(t, elect.EventEnded).Err, elect.ReasonShutdown)
	})
}

func TestWorkSeesTheValuesOfTheContext(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		err := e.Lead(context.WithValue(t.Context(), key{}, "value"), func(ctx context.Context, term *elect.Term) error {
			if ctx.Value(key{}) != "value" || term.Context().Value(key{}) != "value" {
				t.Error("the value did not reach the work")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestPanicInTheWorkReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		func() {
			defer func() {
				if r := recover(); r != "at the disco" {
					t.Errorf("recovered %v; want the work's panic", r)
				}
			}()
			_ = e.Lead(t.Context(), func(context.Context, *elect.Term) error { panic("at the disco") })
		}()
		if leader(t, e) != 0 {
			t.Error("leadership was not released")
		}
		if err := win(t, e).Check(); err != nil { // nor is it ErrBusy
			t.Error(err)
		}
	})
}

func TestGoexitInTheWorkReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = e.Lead(t.Context(), func(context.Context, *elect.Term) error {
				runtime.Goexit()
				return nil
			})
		}()
		<-gone
		if leader(t, e) != 0 {
			t.Error("leadership was not released")
		}
		if err := win(t, e).Check(); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkResignsAndStandsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		b, _ := stand(t, store, "b", elect.Config{})
		terms := 0
		led := async(func() error {
			return a.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
				if terms++; terms == 2 {
					return nil
				}
				term.Resign()
				if term.Release(ctx) == nil {
					t.Error("Release of a term of Lead was not refused")
				}
				if ctx.Err() == nil {
					t.Error("the context goes on after Resign")
				}
				if leader(t, a) != term.Token() {
					t.Error("Resign released inside Lead; it must only ask")
				}
				return errWork
			})
		})
		won, err := b.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if leader(t, a) != won.Token() {
			t.Error("b does not lead")
		}
		if err := won.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-led; err != nil || terms != 2 {
			t.Errorf("Lead returned %v after %d terms; want nil after 2", err, terms)
		}
	})
}

func TestWorkResignsAndNobodyElseIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const aside = 7 * time.Second
		var d diary
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{StandAside: aside, OnEvent: d.note})
		terms := 0
		err := e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
			if terms++; terms == 2 {
				return nil
			}
			term.Resign()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		events := d.all()
		if released, again := events[3], events[4]; again.At.Sub(released.At) != aside {
			t.Errorf("it stood again after %v; want %v", again.At.Sub(released.At), aside)
		}
	})
}

// What standing aside sees may be of no use: its own term that is yet to be
// forgotten, or trouble. Then it waits its time.
func TestStandingAsideSeesNobodyElse(t *testing.T) {
	for name, seen := range map[string]driver.State{
		"itself":  {Leader: &driver.Leader{Token: 1}},
		"stale":   {Leader: &driver.Leader{Token: 2}, Stale: true},
		"trouble": {Cause: errWork},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, m := newFake(), newFakeMandate(1, time.Hour)
				f.wins(m, newFakeMandate(3, time.Hour))
				f.observe = func(ctx context.Context) iter.Seq2[driver.State, error] {
					return func(yield func(driver.State, error) bool) {
						if seen.Cause != nil {
							yield(driver.State{}, seen.Cause)
						} else if yield(seen, nil) {
							<-ctx.Done()
						}
					}
				}
				e, err := elect.New(f, elect.Config{})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				err = e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
					if term.Token() == 1 {
						term.Resign()
						return nil
					}
					return nil
				})
				if got := time.Since(start); err != nil || got != standAside {
					t.Errorf("Lead returned %v after %v; want it to stand aside for %v", err, got, standAside)
				}
			})
		})
	}
}

func TestStandingAsideEnds(t *testing.T) {
	resign := func(ctx context.Context, term *elect.Term) error { term.Resign(); return nil }
	t.Run("with the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, _ := stand(t, memory.NewStore(0), "a", elect.Config{StandAside: time.Hour})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errWork)
			defer cancel()
			start := time.Now()
			if err := e.Lead(ctx, resign); !errors.Is(err, errWork) || time.Since(start) != time.Second {
				t.Errorf("Lead returned %v after %v; want the cause of its context after 1s", err, time.Since(start))
			}
		})
	})
	t.Run("with Close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, _ := stand(t, memory.NewStore(0), "a", elect.Config{StandAside: time.Hour})
			time.AfterFunc(time.Second, func() { _ = e.Close() })
			start := time.Now()
			if err := e.Lead(t.Context(), resign); !errors.Is(err, elect.ErrClosed) || time.Since(start) != time.Second {
				t.Errorf("Lead returned %v after %v; want ErrClosed after 1s", err, time.Since(start))
			}
		})
	})
}

func TestWorkTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := make(chan string, 10)
		var ends []<-chan error
		for _, id := range []string{"b", "c", "d"} {
			e, _ := stand(t, store, id, elect.Config{})
			ends = append(ends, async(func() error {
				return e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
					began <- id
					return until(ctx, term)
				})
			}))
		}
		first := <-began // one of them is quicker than a
		ends = append(ends, async(func() error {
			return a.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
				began <- "a"
				time.Sleep(lease) // who led before is standing again
				if err := term.Transfer("not an id"); err == nil || ctx.Err() != nil {
					t.Errorf("Transfer to nonsense returned %v, and the term went to %v", err, ctx.Err())
				}
				if err := term.Transfer("d"); err != nil {
					t.Errorf("Transfer: %v", err)
				}
				lost(t, context.Cause(ctx), elect.ReasonResigned)
				lost(t, term.Transfer("b"), elect.ReasonResigned)
				return nil
			})
		}))
		synctest.Wait()
		// Hand it from the present leader to a, which hands it to d.
		for got := first; got != "a"; got = <-began {
			if err := a.Resign(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if next := <-began; next != "d" {
			t.Errorf("%s took over; want d", next)
		}
		cancel()
		for _, end := range ends {
			if err := <-end; !errors.Is(err, context.Canceled) {
				t.Errorf("Lead returned %v", err)
			}
		}
	})
}

func TestCloseWhileLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		err := e.Lead(t.Context(), func(ctx context.Context, _ *elect.Term) error {
			if err := e.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			<-ctx.Done()
			lost(t, context.Cause(ctx), elect.ReasonShutdown)
			return nil
		})
		if !errors.Is(err, elect.ErrClosed) {
			t.Errorf("Lead returned %v; want ErrClosed", err)
		}
	})
}

func TestCloseWhileCampaigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		b, _ := stand(t, store, "b", elect.Config{})
		win(t, a)
		led := async(func() error { return b.Lead(t.Context(), noWork(t)) })
		synctest.Wait()
		_ = b.Close()
		if err := <-led; !errors.Is(err, elect.ErrClosed) {
			t.Errorf("Lead returned %v; want ErrClosed", err)
		}
	})
}
