package elect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// The work is told Drain before the lease ends, to the nanosecond in fake time,
// and the lease counts from the last renewal that was answered.
func TestWorkIsToldBeforeTheLeaseEnds(t *testing.T) {
	for _, tt := range []struct {
		name         string
		cut          time.Duration // after the victory; renewals are due every quarter of a lease
		drain        time.Duration // 0 is the default
		told, lapses time.Duration // after the victory
	}{
		{"before the first renewal", lease / 10, 0, lease * 8 / 10, lease},
		{"after the first renewal", lease * 3 / 10, 0, lease * 105 / 100, lease * 125 / 100},
		{"a long drain", lease / 10, lease * 7 / 10, lease * 3 / 10, lease},
		{"hardly any drain", lease / 10, 1, lease - 1, lease},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore(0)
				e, link := stand(t, store, "a", elect.Config{Drain: tt.drain})
				other, _ := stand(t, store, "b", elect.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				led := async(func() error {
					return e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
						start := time.Now()
						time.AfterFunc(tt.cut, func() { link.Cut(true) })
						next := async(func() error {
							second, err := other.Campaign(t.Context())
							if err != nil {
								return err
							}
							if got := time.Since(start); got != tt.lapses {
								t.Errorf("another was elected after %v; want %v", got, tt.lapses)
							}
							return second.Release(t.Context())
						})
						<-ctx.Done()
						if got := time.Since(start); got != tt.told {
							t.Errorf("the work was told after %v; want %v", got, tt.told)
						}
						lost(t, term.Check(), elect.ReasonExpired)
						if left, bounded := term.Remaining(); left != 0 || !bounded {
							t.Errorf("Remaining is %v, %v after the end", left, bounded)
						}
						cancel()
						if err := <-next; err != nil {
							t.Error(err)
						}
						return nil
					})
				})
				<-led
			})
		})
	}
}

// An outage shorter than what the lease can bear is not noticed by the work.
func TestShortOutageIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		e, _ := stand(t, store, "a", elect.Config{})
		err := e.Lead(t.Context(), func(ctx context.Context, term *elect.Term) error {
			for range 100 {
				store.Outage(true)
				time.Sleep(lease * 2 / 5)
				if err := term.Check(); err != nil {
					t.Fatalf("Check during an outage within the lease: %v", err)
				}
				store.Outage(false)
				time.Sleep(lease)
			}
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestOverrunIsCountedWhenTheLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		store := memory.NewStore(0)
		e, link := stand(t, store, "a", elect.Config{OnEvent: d.note})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		_ = e.Lead(ctx, func(context.Context, *elect.Term) error {
			link.Cut(true)
			time.Sleep(10 * lease) // whatever the context says
			d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventOverrun)
			cancel()
			return nil
		})
		if got := d.find(t, elect.EventEnded).At.Sub(start); got != lease-drain {
			t.Errorf("ended after %v; want %v", got, lease-drain)
		}
		if got := d.find(t, elect.EventOverrun).At.Sub(start); got != lease {
			t.Errorf("overrun after %v; want %v", got, lease)
		}
		if got := d.find(t, elect.EventReleased).At.Sub(start); got != 10*lease {
			t.Errorf("released after %v; want %v", got, 10*lease)
		}
	})
}

// Work that returns within the drain is no overrun, nor is work that is slow to
// return while the lease is still renewed.
func TestNoOverrunWithinTheLease(t *testing.T) {
	for name, stop := range map[string]func(*memory.Elector, *elect.Term){
		"the drain":   func(link *memory.Elector, _ *elect.Term) { link.Cut(true) },
		"resignation": func(_ *memory.Elector, term *elect.Term) { term.Resign() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				e, link := stand(t, memory.NewStore(0), "a", elect.Config{OnEvent: d.note})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_ = e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
					stop(link, term)
					<-ctx.Done()
					linger := drain - 1
					if name == "resignation" {
						linger = 10 * lease
					}
					time.Sleep(linger)
					cancel()
					return nil
				})
				d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
			})
		})
	}
}

// Where a guardian ends the work, and this process hears of it late, what the guardian
// says counts: only work that went on after the lease is an overrun.
func TestOverrunUnderAGuardian(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		t.Run(fmt.Sprintf("in time %v", inTime), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				var log strings.Builder // Logger calls are over when Lead has returned
				var g guardian
				e, link := stand(t, memory.NewStore(0), "a", elect.Config{Guardian: &g, OnEvent: d.note, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				var asked atomic.Int64
				_ = e.Lead(ctx, func(context.Context, *elect.Term) error {
					g.inTime = func() bool {
						if asked.Add(1); time.Since(start) != lease {
							t.Errorf("asked after %v; want %v, the end of the lease", time.Since(start), lease)
						}
						return inTime
					}
					link.Cut(true)
					time.Sleep(lease + time.Millisecond)
					cancel()
					return nil
				})
				want := []elect.EventKind{elect.EventCampaigning, elect.EventElected, elect.EventEnded}
				if !inTime {
					want = append(want, elect.EventOverrun)
				}
				d.is(t, append(want, elect.EventReleased)...)
				if asked.Load() != 1 {
					t.Errorf("asked %d times", asked.Load())
				}
				if says := strings.Contains(log.String(), "the lease has ended and the work has not returned"); says == inTime {
					t.Errorf("it logs\n%s", log.String())
				}
			})
		})
	}
}

// What a process that was frozen logs when it goes on: that its work was not told
// in time, and that it has not returned only if it has not, once it was told.
func TestOverrunOfAFrozenProcess(t *testing.T) {
	for _, tt := range []struct {
		name   string
		linger time.Duration
		says   string
	}{
		{"the work returns when it is told", 0, "level=WARN msg=\"the lease ended before the work was told, as when this process did not run; the work returned when it was told\" token=1\n"},
		{"shortly after", lease - 1, "level=WARN msg=\"the lease ended before the work was told"},
		{"it goes on", 2 * lease, "level=ERROR msg=\"the lease has ended and the work has not returned\" token=1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				var log strings.Builder // Logger calls are over when Lead has returned
				m := newFrozenMandate(lease)
				f := newFake()
				f.wins(m)
				e, err := elect.New(f, elect.Config{OnEvent: d.note, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_ = e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
					m.thaw()
					<-ctx.Done()
					lost(t, context.Cause(ctx), elect.ReasonExpired)
					time.Sleep(tt.linger)
					cancel()
					return nil
				})
				d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventOverrun, elect.EventReleased)
				if got := log.String(); !strings.Contains(got, tt.says) || strings.Count(got, "\n") != 1 {
					t.Errorf("it logs\n%s\nwant one line, with\n%s", got, tt.says)
				}
			})
		})
	}
}

// frozenMandate is one whose lease is over at the moment at which its process
// goes on, with all that was to happen before still to come.
type frozenMandate struct {
	*fakeMandate
	over atomic.Bool
}

func newFrozenMandate(left time.Duration) *frozenMandate {
	return &frozenMandate{fakeMandate: newFakeMandate(1, left)}
}

func (m *frozenMandate) Remaining() (time.Duration, bool) {
	if m.over.Load() {
		return 0, true
	}
	return m.fakeMandate.Remaining()
}

func (m *frozenMandate) thaw() {
	m.over.Store(true)
	m.end(driver.ErrExpired)
}

// Where nothing runs out, only what was taken away can be overrun.
func TestOverrunWithoutALease(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cause   error
		overrun bool
	}{
		{"taken away", driver.ErrSuperseded, true},
		{"closed", driver.ErrClosed, true},
		{"asked back", driver.ErrResigned, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				f, m := newFake(), newFakeMandate(1, 0)
				f.limits.Lease, f.limits.MinLease, f.limits.MaxLease = 0, 0, 0
				f.wins(m)
				e, err := elect.New(f, elect.Config{OnEvent: d.note})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				_ = e.Lead(ctx, func(context.Context, *elect.Term) error {
					cancel() // it stops, and is slow
					time.Sleep(time.Hour)
					if len(d.all()) != 3 {
						t.Errorf("events %v while the lock is held", d.all())
					}
					m.end(tt.cause)
					time.Sleep(time.Hour)
					return nil
				})
				want := []elect.EventKind{elect.EventCampaigning, elect.EventElected, elect.EventEnded}
				if tt.overrun {
					want = append(want, elect.EventOverrun)
				}
				d.is(t, append(want, elect.EventReleased)...)
			})
		})
	}
}

// A driver's plain cause becomes the reason that a caller acts on.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  elect.Reason
	}{
		{driver.ErrExpired, elect.ReasonExpired},
		{driver.ErrSuperseded, elect.ReasonSuperseded},
		{driver.ErrResigned, elect.ReasonResigned},
		{driver.ErrUnreachable, elect.ReasonStoreUnreachable},
		{driver.ErrUnhealthy, elect.ReasonUnhealthy},
		{driver.ErrClosed, elect.ReasonShutdown},
		{fmt.Errorf("revision 7: %w", driver.ErrSuperseded), elect.ReasonSuperseded},
		{fmt.Errorf("%w: %w", driver.ErrUnreachable, context.DeadlineExceeded), elect.ReasonStoreUnreachable},
		{fmt.Errorf("%w: %w", driver.ErrExpired, driver.ErrUnreachable), elect.ReasonStoreUnreachable},
		{context.Canceled, elect.ReasonStoreUnreachable},
		{failure("not one of them"), elect.ReasonStoreUnreachable},
	} {
		t.Run(fmt.Sprint(tt.cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, told, asked := newFake(), newFakeMandate(8, lease), newFakeMandate(9, lease)
				f.wins(told, asked)
				e, err := elect.New(f, elect.Config{})
				if err != nil {
					t.Fatal(err)
				}
				// One learns it by its context, the other by asking.
				first := win(t, e)
				told.end(tt.cause)
				<-first.Context().Done()
				l := lost(t, context.Cause(first.Context()), tt.want)
				if l.Token != 8 || !errors.Is(l, tt.cause) {
					t.Errorf("%v has token %v; want 8, wrapping %v", l, l.Token, tt.cause)
				}
				_ = first.Release(t.Context())
				second := win(t, e)
				asked.says(tt.cause)
				lost(t, second.Check(), tt.want)
				if second.Context().Err() == nil {
					t.Error("Check says that it is lost and the context goes on")
				}
				asked.says(nil)
				lost(t, second.Check(), tt.want) // and never revives
			})
		})
	}
}

func TestResignIsAResignation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{StandAside: time.Hour})
		b, _ := stand(t, store, "b", elect.Config{})
		if err := b.Resign(t.Context(), 0); !errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("Resign of nobody returned %v; want ErrNoLeader", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		led := async(func() error {
			return a.Lead(ctx, func(ctx context.Context, _ *elect.Term) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil
			})
		})
		synctest.Wait()
		if err := b.Resign(t.Context(), 9); !errors.Is(err, driver.ErrSuperseded) {
			t.Errorf("Resign of another token returned %v; want ErrSuperseded", err)
		}
		if err := b.Resign(t.Context(), leader(t, b)); err != nil {
			t.Errorf("Resign: %v", err)
		}
		lost(t, <-ended, elect.ReasonResigned)
		synctest.Wait()
		if leader(t, b) != 0 {
			t.Error("the resigned leader did not stand aside")
		}
		cancel()
		<-led
	})
}

// A mandate that cannot be released in time lapses by itself, and Lead goes on.
func TestReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		f, m := newFake(), newFakeMandate(1, time.Hour)
		m.release = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		f.wins(m)
		e, err := elect.New(f, elect.Config{OnEvent: d.note})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := e.Lead(t.Context(), func(context.Context, *elect.Term) error { return errWork }); !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v; want the work's error", err)
		}
		if got := time.Since(start); got != releaseTimeout {
			t.Errorf("Lead returned after %v; want %v", got, releaseTimeout)
		}
		if r := d.find(t, elect.EventReleased); !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("released with %v", r.Err)
		}
	})
}
