package elect_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// Each pause is drawn from the upper half of a bound that doubles up to
// MaxBackoff, and starts again after a victory.
func TestPassingTroubleBacksOff(t *testing.T) {
	const shortest, longest = 100 * time.Millisecond, time.Second
	synctest.Test(t, func(t *testing.T) {
		var (
			log     bytes.Buffer
			tries   []time.Time
			trouble = failure("connection reset")
			f       = newFake()
		)
		f.campaign = func(ctx context.Context, _ driver.Candidacy) (driver.Mandate, error) {
			switch tries = append(tries, time.Now()); len(tries) {
			case 7, 9:
				return newFakeMandate(elect.Token(len(tries)), lease), nil
			}
			return nil, trouble
		}
		var d diary
		e, err := elect.New(f, elect.Config{
			MinBackoff: shortest, MaxBackoff: longest, OnEvent: d.note, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
			if term.Token() == 7 {
				return until(ctx, term)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		bounds := []time.Duration{100, 200, 400, 800, 1000, 1000}
		for i, bound := range bounds {
			bound *= time.Millisecond
			if got := tries[i+1].Sub(tries[i]); got < bound/2 || got > bound {
				t.Errorf("pause %d was %v; want %v to %v", i, got, bound/2, bound)
			}
		}
		if got := tries[8].Sub(tries[7]); got < shortest/2 || got > shortest {
			t.Errorf("the pause after a victory was %v; want %v to %v", got, shortest/2, shortest)
		}
		if !errors.Is(d.find(t, elect.EventFailed).Err, trouble) || !strings.Contains(log.String(), "connection reset") {
			t.Errorf("the trouble was not told: %v\n%s", d.all(), log.String())
		}
	})
}

func TestContextEndsWhileLeadBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		store.Outage(true)
		e, _ := stand(t, store, "a", elect.Config{MinBackoff: time.Hour})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errWork)
		defer cancel()
		start := time.Now()
		if err := e.Lead(ctx, noWork(t)); !errors.Is(err, errWork) || time.Since(start) != time.Minute {
			t.Errorf("Lead returned %v after %v; want the cause of its context after 1m", err, time.Since(start))
		}
	})
}

func TestOutageBeforeTheFirstVictory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		store.Outage(true)
		e, _ := stand(t, store, "a", elect.Config{})
		time.AfterFunc(time.Hour, func() { store.Outage(false) })
		start := time.Now()
		if err := e.Lead(t.Context(), func(context.Context, *elect.Term) error { return nil }); err != nil {
			t.Error(err)
		}
		if late := time.Since(start) - time.Hour; late > maxBackoff {
			t.Errorf("elected %v after the end of the outage; want at most %v", late, maxBackoff)
		}
	})
}

func TestWhatIsWrongForGoodIsReturned(t *testing.T) {
	refused := failure("password refused")
	for _, trouble := range []error{driver.Permanent(refused), driver.ErrClosed} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.campaign = func(context.Context, driver.Candidacy) (driver.Mandate, error) { return nil, trouble }
			e, err := elect.New(f, elect.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Lead(t.Context(), noWork(t)); !errors.Is(err, trouble) {
				t.Errorf("Lead returned %v; want %v", err, trouble)
			}
			if _, err := e.Campaign(t.Context()); !errors.Is(err, trouble) {
				t.Errorf("Campaign returned %v; want %v", err, trouble)
			}
		})
	}
}

// A victory that is none starts no work: it is given back, and that is passing
// trouble.
func TestUnsoundVictories(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func() *fakeMandate
		says string
	}{
		{"a lapsed lease", func() *fakeMandate {
			m := newFakeMandate(1, lease)
			m.says(driver.ErrExpired)
			return m
		}, "lease expired"},
		{"too little left for the drain", func() *fakeMandate { return newFakeMandate(1, drain) }, "200ms of it left, and the drain takes 200ms"},
		{"not exclusive", func() *fakeMandate {
			m := newFakeMandate(1, lease)
			m.says(driver.ErrNotExclusive)
			return m
		}, "not proven exclusive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				f, bad := newFake(), tt.make()
				f.wins(bad, newFakeMandate(2, lease))
				e, err := elect.New(f, elect.Config{OnEvent: d.note})
				if err != nil {
					t.Fatal(err)
				}
				err = e.Lead(t.Context(), func(_ context.Context, term *elect.Term) error {
					if term.Token() != 2 {
						t.Errorf("the work was started with token %v", term.Token())
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if n := bad.releases.Load(); n != 1 {
					t.Errorf("released %d times; want once", n)
				}
				if failed := d.find(t, elect.EventFailed); !strings.Contains(failed.Err.Error(), tt.says) {
					t.Errorf("failed with %q; want it to say %q", failed.Err, tt.says)
				}
			})
		})
	}
}

func TestInvalidTokenIsWrongForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFake(), newFakeMandate(0, lease)
		m.release = func(context.Context) error { return failure("and that too") }
		f.wins(m)
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Lead(t.Context(), noWork(t))
		if !driver.IsPermanent(err) || m.releases.Load() != 1 || strings.Contains(err.Error(), "\n") {
			t.Errorf("Lead returned %q after %d releases; want one line, for good, after one", err, m.releases.Load())
		}
	})
}
