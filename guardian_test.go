package elect_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

// guardian does what a test tells it to.
type guardian struct {
	lead   func(m driver.Guarded) (done func(), err error) // nil: it takes all
	inTime func() bool
}

func (g *guardian) Lead(m driver.Guarded) (done func(), err error) {
	if g.lead == nil {
		return func() {}, nil
	}
	return g.lead(m)
}

func (g *guardian) InTime() bool { return g.inTime != nil && g.inTime() }

// A guardian has the mandate before the term begins, and until the work was joined.
func TestGuardianKeepsEachTerm(t *testing.T) {
	for name, serve := range map[string]func(e *elect.Election, work func()) error{
		"Lead": func(e *elect.Election, work func()) error {
			return e.Lead(context.Background(), func(context.Context, *elect.Term) error {
				work()
				return nil
			})
		},
		"Campaign": func(e *elect.Election, work func()) error {
			term, err := e.Campaign(context.Background())
			if err != nil {
				return err
			}
			work()
			term.Resign()
			return term.Release(context.Background())
		},
	} {
		for _, nonExclusive := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var steps []string
				step := func(s string) { steps = append(steps, s) }
				f, m := newFake(), newFakeMandate(1, time.Hour)
				f.wins(m)
				m.release = func(context.Context) error { step("released"); return nil }
				g := guardian{lead: func(got driver.Guarded) (func(), error) {
					if want := (driver.Guarded{Mandate: m, Exclusive: !nonExclusive}); got != want {
						t.Errorf("%s: the guardian got %+v; want %+v", name, got, want)
					}
					step("kept")
					return func() { step("done") }, nil
				}}
				e, err := elect.New(f, elect.Config{Guardian: &g, NonExclusive: nonExclusive, OnEvent: func(ev elect.Event) {
					if ev.Kind == elect.EventElected {
						step("elected")
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if err := serve(e, func() { step("worked") }); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if want := []string{"kept", "elected", "worked", "done", "released"}; !slices.Equal(steps, want) {
					t.Errorf("%s: %q; want %q", name, steps, want)
				}
			})
		}
	}
}

// What a guardian refuses is released, and no work begins. Lead tries again, unless the
// guardian says that this is of no use.
func TestGuardianRefuses(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			refusal := errors.New("too little is left")
			if permanent {
				refusal = driver.Permanent(refusal)
			}
			var d diary
			f, first, second := newFake(), newFakeMandate(1, time.Hour), newFakeMandate(2, time.Hour)
			f.wins(first, second)
			g := guardian{lead: func(m driver.Guarded) (func(), error) {
				if m.Mandate == first {
					return nil, refusal
				}
				return func() {}, nil
			}}
			e, err := elect.New(f, elect.Config{Guardian: &g, OnEvent: d.note})
			if err != nil {
				t.Fatal(err)
			}
			var led []elect.Token
			err = e.Lead(t.Context(), func(_ context.Context, term *elect.Term) error {
				led = append(led, term.Token())
				return nil
			})
			if first.releases.Load() != 1 {
				t.Errorf("the mandate that was refused was released %d times", first.releases.Load())
			}
			if permanent {
				if !errors.Is(err, refusal) || len(led) > 0 {
					t.Errorf("Lead returned %v after terms %v; want the refusal, and none", err, led)
				}
				d.is(t, elect.EventCampaigning, elect.EventFailed)
				return
			}
			if err != nil || !slices.Equal(led, []elect.Token{2}) {
				t.Errorf("Lead returned %v after terms %v; want the second", err, led)
			}
			d.is(t, elect.EventCampaigning, elect.EventFailed, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
		})
	}
}

// No work begins on a lease that has ended while the guardian got ready.
func TestGuardianTakesLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		f, first, second := newFake(), newFakeMandate(1, time.Minute), newFakeMandate(2, time.Hour)
		f.wins(first, second)
		let := 0
		g := guardian{lead: func(m driver.Guarded) (func(), error) {
			if m.Mandate == first {
				time.Sleep(2 * time.Minute)
			}
			return func() { let++ }, nil
		}}
		e, err := elect.New(f, elect.Config{Guardian: &g, OnEvent: d.note})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Lead(t.Context(), func(_ context.Context, term *elect.Term) error {
			if term.Token() != 2 || let != 1 || first.releases.Load() != 1 {
				t.Errorf("term %v began after %d of the first were let go and %d released; want the second after 1 and 1", term.Token(), let, first.releases.Load())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		d.is(t, elect.EventCampaigning, elect.EventFailed, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
	})
}

// asked is a guardian that is asked for the lease before the end of a term is told.
type asked struct {
	guardian
	renew func()
}

func (a *asked) Renew() { a.renew() }

// However a term ends, its guardian is asked for the lease before the context of the term has ended, and once.
func TestGuardianBeforeTheEndIsTold(t *testing.T) {
	for name, end := range map[string]func(m *fakeMandate, term *elect.Term){
		"lost":     func(m *fakeMandate, _ *elect.Term) { m.end(driver.ErrSuperseded) },
		"check":    func(m *fakeMandate, term *elect.Term) { m.says(driver.ErrExpired); _ = term.Check() },
		"resigned": func(_ *fakeMandate, term *elect.Term) { term.Resign() },
	} {
		synctest.Test(t, func(t *testing.T) {
			f, m := newFake(), newFakeMandate(1, time.Hour)
			f.wins(m)
			var work context.Context
			calls := 0
			g := asked{renew: func() {
				if calls++; work.Err() != nil {
					t.Errorf("%s: the work was told first", name)
				}
			}}
			e, err := elect.New(f, elect.Config{Guardian: &g})
			if err != nil {
				t.Fatal(err)
			}
			term, err := e.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			work = term.Context()
			end(m, term)
			<-work.Done()
			_ = term.Check()
			if err := term.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if calls != 1 {
				t.Errorf("%s: asked %d times; want once", name, calls)
			}
		})
	}
}
