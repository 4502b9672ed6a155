package elect_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// body is a participant's health, as a test sets it.
type body struct {
	ill   atomic.Bool
	hangs atomic.Bool
	asked atomic.Int32
}

var errIll = errors.New("the disk hangs")

func (b *body) check(ctx context.Context) error {
	b.asked.Add(1)
	if b.hangs.Load() {
		<-ctx.Done()
	}
	if b.ill.Load() {
		return errIll
	}
	return nil
}

// The defaults of elect.Health.
const (
	checkEvery = 5 * time.Second
	failures   = 3
	successes  = 2
	rest       = time.Minute // after a term that ended by illness
	nobody     = 10 * time.Second
)

func standWith(t *testing.T, store *memory.Store, id string, b *body, h elect.Health) (*elect.Election, *diary) {
	t.Helper()
	d := &diary{}
	h.Check = b.check
	e, _ := stand(t, store, id, elect.Config{Health: h, OnEvent: d.note})
	return e, d
}

// leads runs a leader until the test ends, and counts its terms.
func leads(t *testing.T, e *elect.Election) (terms *atomic.Int32, losses chan error) {
	t.Helper()
	terms, losses = new(atomic.Int32), make(chan error, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := async(func() error {
		return e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
			terms.Add(1)
			<-ctx.Done()
			losses <- context.Cause(ctx)
			return nil
		})
	})
	t.Cleanup(func() { cancel(); <-done })
	return terms, losses
}

func TestIllLeaderGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(1)
		var a, b body
		first, d := standWith(t, store, "a", &a, elect.Health{})
		second, _ := standWith(t, store, "b", &b, elect.Health{})
		terms, losses := leads(t, first)
		synctest.Wait()
		others, _ := leads(t, second)
		synctest.Wait()
		if terms.Load() != 1 || others.Load() != 0 {
			t.Fatalf("%d and %d terms; want the first to lead", terms.Load(), others.Load())
		}
		a.ill.Store(true)
		begun := time.Now()
		loss := lost(t, <-losses, elect.ReasonUnhealthy)
		if took := time.Since(begun); took > failures*checkEvery || took < (failures-1)*checkEvery {
			t.Errorf("it gave way after %v; want %d checks, every %v", took, failures, checkEvery)
		}
		if !strings.Contains(loss.Error(), errIll.Error()) || errors.Is(loss, errIll) {
			t.Errorf("lost by %v; want the text of the check's error, and not the error", loss)
		}
		synctest.Wait()
		if others.Load() != 1 {
			t.Error("the other one does not lead")
		}
		a.ill.Store(false)
		time.Sleep(10 * rest)
		if terms.Load() != 1 || others.Load() != 1 {
			t.Errorf("%d and %d terms; want the well one to lead on", terms.Load(), others.Load())
		}
		d.is(t, elect.EventWell, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased,
			elect.EventWell, elect.EventCampaigning)
		d.find(t, elect.EventIll) // at any time: is passes it over
	})
}

// TestWellOneGetsAChance: an ill one that leads after all gives way to one that is well, and so does one that was ill
// earlier, and is ill again after its rest.
func TestWellOneGetsAChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(1)
		var a, b body
		a.ill.Store(true)
		b.ill.Store(true)
		first, _ := standWith(t, store, "a", &a, elect.Health{})
		terms, losses := leads(t, first)
		time.Sleep(nobody + 2*lease)
		second, _ := standWith(t, store, "b", &b, elect.Health{})
		others, _ := leads(t, second)
		b.ill.Store(false)
		time.Sleep(2 * rest)
		if terms.Load() != 1 || others.Load() != 1 {
			t.Fatalf("%d and %d terms; want that the well one leads", terms.Load(), others.Load())
		}
		lost(t, <-losses, elect.ReasonUnhealthy)
		a.ill.Store(false)
		b.ill.Store(true)
		time.Sleep(10 * rest)
		if terms.Load() != 2 {
			t.Fatalf("%d terms of the one that is well now; want 2", terms.Load())
		}
		b.ill.Store(false)
		time.Sleep(40 * rest) // all have rested
		a.ill.Store(true)
		lost(t, <-losses, elect.ReasonUnhealthy)
	})
}

// TestErrorsOfChecks: what a check returns may be an error of another election, and means nothing in this one.
func TestErrorsOfChecks(t *testing.T) {
	for _, why := range []error{driver.Permanent(errIll), &elect.LostError{Reason: elect.ReasonResigned, Err: driver.ErrResigned}, driver.ErrSuperseded, elect.ErrClosed} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore(1)
			var ill atomic.Bool
			check := func(context.Context) error {
				if ill.Load() {
					return why
				}
				return nil
			}
			e, _ := stand(t, store, "a", elect.Config{Health: elect.Health{Check: check}})
			_, losses := leads(t, e)
			synctest.Wait()
			// It is well all the time: its checks are at the instants of a's.
			behind, _ := stand(t, store, "b", elect.Config{Health: elect.Health{Check: func(context.Context) error { return nil }}})
			terms, _ := leads(t, behind)
			synctest.Wait()
			ill.Store(true)
			lost(t, <-losses, elect.ReasonUnhealthy)
			ill.Store(false)
			time.Sleep(10 * rest)
			if terms.Load() != 1 {
				t.Errorf("%v: %d terms of the one behind; want 1", why, terms.Load())
			}
		})
	}
}

// TestFewFailuresAreNoIllness: failures that are not in a row end nothing.
func TestFewFailuresAreNoIllness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a body
		e, _ := standWith(t, memory.NewStore(1), "a", &a, elect.Health{})
		terms, _ := leads(t, e)
		time.Sleep(checkEvery / 2) // between two checks
		for range 100 {
			a.ill.Store(true)
			time.Sleep((failures - 1) * checkEvery)
			a.ill.Store(false)
			time.Sleep(checkEvery)
		}
		if terms.Load() != 1 {
			t.Errorf("%d terms; want 1", terms.Load())
		}
	})
}

func TestIllCandidateStandsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a body
		a.ill.Store(true)
		e, d := standWith(t, memory.NewStore(1), "a", &a, elect.Health{WhenAllIll: elect.AllIllNone})
		terms, _ := leads(t, e)
		time.Sleep(time.Hour)
		if d.is(t, elect.EventIll); terms.Load() != 0 {
			t.Error("an ill candidate was elected")
		}
		a.ill.Store(false)
		time.Sleep(successes*checkEvery + lease)
		if terms.Load() != 1 {
			t.Error("a candidate that is well again was not elected")
		}
	})
}

// TestHangingCheck: a check that does not return is a failure each time, and no other begins.
func TestHangingCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a body
		release := make(chan struct{})
		h := elect.Health{Timeout: time.Second, Check: func(context.Context) error {
			if a.asked.Add(1) > 1 {
				<-release // whatever its context
			}
			return nil
		}}
		e, _ := stand(t, memory.NewStore(1), "a", elect.Config{Health: h})
		_, losses := leads(t, e)
		lost(t, <-losses, elect.ReasonUnhealthy)
		if n := a.asked.Load(); n != 2 {
			t.Errorf("%d checks were begun; want 2, of which the second hangs", n)
		}
		close(release)
	})
}

// TestAllIll: if nobody leads an ill one stands after all. It gives way again after a rest, unless it is well by then.
func TestAllIll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a body
		a.ill.Store(true)
		e, _ := standWith(t, memory.NewStore(1), "a", &a, elect.Health{})
		begun := time.Now()
		terms, losses := leads(t, e)
		for terms.Load() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begun); took < nobody || took > nobody+2*lease {
			t.Errorf("it led after %v; want %v and a takeover", took, nobody)
		}
		lost(t, <-losses, elect.ReasonUnhealthy)
		if took := time.Since(begun); took < nobody+rest || took > nobody+rest+2*lease {
			t.Errorf("it gave way after %v; want a minute of leading", took)
		}
		for terms.Load() == 1 {
			time.Sleep(10 * time.Millisecond)
		}
		a.ill.Store(false)
		time.Sleep(10 * rest)
		if terms.Load() != 2 || len(losses) != 0 {
			t.Fatalf("%d terms, %d losses; want a second term that lasts", terms.Load(), len(losses))
		}
		a.ill.Store(true) // as of any leader
		lost(t, <-losses, elect.ReasonUnhealthy)
	})
}

// TestNoFlapping: where each is ill only while it works, leadership does not go round.
func TestNoFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(1)
		all := make(chan struct{}, 1000)
		for _, id := range []string{"a", "b", "c"} {
			var working atomic.Bool
			e, _ := stand(t, store, id, elect.Config{Health: elect.Health{Check: func(context.Context) error {
				if working.Load() {
					return errIll
				}
				return nil
			}}})
			ctx, cancel := context.WithCancel(t.Context())
			done := async(func() error {
				return e.Lead(ctx, func(ctx context.Context, _ *elect.Term) error {
					all <- struct{}{}
					working.Store(true)
					defer working.Store(false)
					<-ctx.Done()
					return nil
				})
			})
			t.Cleanup(func() { cancel(); <-done })
		}
		const quarter = 15 * time.Minute
		time.Sleep(quarter)
		first := len(all)
		time.Sleep(4 * quarter)
		t.Logf("%d terms in the first %v, %d in the next hour", first, quarter, len(all)-first)
		if more := len(all) - first; first > 16 || more > 16 {
			t.Errorf("%d terms in %v, and %d in the hour after it; want few", first, quarter, more)
		}
	})
}

// TestGiveWay: work that is ill without a check gives way to another candidate, rests, and leads again where there is
// none.
func TestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(1)
		starved := errors.New("starved")
		ends := make(chan error, 10)
		d := &diary{}
		a, _ := stand(t, store, "a", elect.Config{OnEvent: d.note})
		ctx, cancel := context.WithCancel(t.Context())
		var begun []time.Time
		done := async(func() error {
			return a.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
				begun = append(begun, time.Now())
				time.Sleep(time.Minute)
				if ctx.Err() == nil {
					term.GiveWay(starved)
					term.GiveWay(errors.New("again"))
					ends <- context.Cause(ctx)
				}
				return nil
			})
		})
		defer func() { cancel(); <-done }()
		loss := lost(t, <-ends, elect.ReasonUnhealthy)
		if !strings.Contains(loss.Error(), starved.Error()) || errors.Is(loss, starved) {
			t.Errorf("lost by %v; want the text of the error, and not the error", loss)
		}
		lost(t, <-ends, elect.ReasonUnhealthy)
		if alone := begun[1].Sub(begun[0]) - time.Minute; alone < nobody || alone > nobody+time.Minute {
			t.Errorf("alone, it led again after %v; want somewhat more than %v", alone, nobody)
		}
		if e := d.find(t, elect.EventIll); !errors.Is(e.Err, starved) {
			t.Errorf("it is ill by %v; want %v", e.Err, starved)
		}
		b, _ := stand(t, store, "b", elect.Config{})
		others, _ := leads(t, b)
		time.Sleep(time.Hour)
		synctest.Wait()
		d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventIll, elect.EventEnded, elect.EventReleased,
			elect.EventCampaigning, elect.EventElected, elect.EventIll, elect.EventEnded, elect.EventReleased,
			elect.EventWell, elect.EventCampaigning)
		if others.Load() != 1 || len(begun) != 2 {
			t.Errorf("%d terms of the other, and %d of the ill one; want 1 and 2", others.Load(), len(begun))
		}
	})
}

// losing leads with the participant, and loses each term after some time, by a cut of its link for so long that another
// can win. It returns when it has lost that many terms more.
func losing(t *testing.T, link *memory.Elector, losses chan error, n int) {
	t.Helper()
	for range n {
		<-time.After(10 * time.Second)
		link.Cut(true)
		lost(t, <-losses, elect.ReasonExpired)
		<-time.After(2 * lease)
		link.Cut(false)
		<-time.After(5 * lease) // its campaigns have backed off
		synctest.Wait()
	}
}

// TestLosses: a participant that loses its terms again and again rests, longer each time, while another leads, and
// stands where nobody does.
func TestLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(1)
		d := &diary{}
		e, link := stand(t, store, "a", elect.Config{Priority: 9, OnEvent: d.note, Health: elect.Health{Losses: 3, Rest: 30 * time.Second, WhenAllIll: elect.AllIllNone}})
		terms, losses := leads(t, e)
		synctest.Wait()
		losing(t, link, losses, 2)
		if terms.Load() != 3 {
			t.Fatalf("%d terms; want the third one after two losses", terms.Load())
		}
		losing(t, link, losses, 1)
		if ill := d.find(t, elect.EventIll); ill.Err.Error() != "it has lost leadership 3 times within 10m0s, and stands aside for 30s" {
			t.Errorf("%v", ill.Err)
		}
		if terms.Load() != 3 {
			t.Error("it leads again at once after the third loss")
		}
		time.Sleep(nobody + 2*lease) // beyond that, nobody has led for long enough
		synctest.Wait()
		if terms.Load() != 4 {
			t.Fatalf("%d terms; want a fourth one, because nobody else leads", terms.Load())
		}

		other, _ := stand(t, store, "b", elect.Config{})
		others, _ := leads(t, other)
		time.Sleep(10 * time.Second)
		link.Cut(true)
		lost(t, <-losses, elect.ReasonExpired)
		time.Sleep(2 * lease)
		link.Cut(false)
		synctest.Wait()
		if others.Load() != 1 {
			t.Fatal("the other does not lead while it rests")
		}
		n := len(d.all())
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := len(d.all()); got != n {
			t.Errorf("it stood again within 50 s; want twice 30 s: %v", d.all()[n:])
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := d.all()[n:]; len(got) != 2 || got[0].Kind != elect.EventWell || got[1].Kind != elect.EventCampaigning {
			t.Errorf("%v; want well, and campaigning", got)
		}
	})
}

// TestRareLosses: losses of which less than enough are within the window are none, and so are resignations.
func TestRareLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(1)
		d := &diary{}
		e, link := stand(t, store, "a", elect.Config{OnEvent: d.note, Health: elect.Health{Losses: 2, Window: time.Minute}})
		terms, losses := leads(t, e)
		for range 4 {
			losing(t, link, losses, 1)
			if err := e.Resign(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			lost(t, <-losses, elect.ReasonResigned)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if terms.Load() != 9 {
			t.Errorf("%d terms; want 9", terms.Load())
		}
		for _, e := range d.all() {
			if e.Kind == elect.EventIll {
				t.Errorf("ill: %v", e.Err)
			}
		}
	})
}

// TestJobInALoop: a quarter of an hour of work that hangs after half a minute on some of three nodes, which a watchdog
// notices. Each of these leads once at most, unless there is no other.
func TestJobInALoop(t *testing.T) {
	for _, c := range []struct {
		broken, changes int
		whenAllIll      elect.AllIll
	}{{1, 1, elect.AllIllLead}, {2, 2, elect.AllIllLead}, {3, 30, elect.AllIllLead}, {3, 12, elect.AllIllNone}} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore(1)
			terms := make(chan string, 100)
			for i, id := range []string{"a", "b", "c"} {
				e, _ := stand(t, store, id, elect.Config{Health: elect.Health{WhenAllIll: c.whenAllIll}})
				ctx, cancel := context.WithCancel(t.Context())
				done := async(func() error {
					return e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
						terms <- id
						if i < c.broken {
							watchdog := time.AfterFunc(30*time.Second, func() { term.GiveWay(errors.New("no WATCHDOG=1 for 2s")) })
							defer watchdog.Stop()
						}
						<-ctx.Done()
						return nil
					})
				})
				t.Cleanup(func() { cancel(); <-done })
				synctest.Wait() // the first one leads
			}
			time.Sleep(15 * time.Minute)
			t.Logf("%d of 3 nodes broken: %d terms", c.broken, len(terms))
			if changes := len(terms) - 1; changes < 1 || changes > c.changes {
				t.Errorf("%d of 3 nodes broken: %d leader changes; want at most %d", c.broken, changes, c.changes)
			}
		})
	}
}

func TestHealthConfig(t *testing.T) {
	ok := func(context.Context) error { return nil }
	for name, h := range map[string]elect.Health{
		"no check": {Every: time.Second}, "every": {Check: ok, Every: -1}, "timeout": {Check: ok, Timeout: -1},
		"failures": {Check: ok, Failures: -1}, "successes": {Check: ok, Successes: -1}, "all": {Check: ok, WhenAllIll: 2},
		"all, no check": {WhenAllIll: 2}, "losses": {Losses: -1}, "window": {Losses: 1, Window: -1}, "window alone": {Window: 1},
		"rest": {Rest: -1}, "longest rest": {LongestRest: -1}, "rests": {Rest: 2, LongestRest: 1},
	} {
		if _, err := elect.New(newFake(), elect.Config{Health: h}); err == nil {
			t.Errorf("%s: New took %+v", name, h)
		}
	}
}

// TestCloseEndsChecks: also before the first campaign, and while one hangs.
func TestCloseEndsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a body
		a.hangs.Store(true)
		e, _ := standWith(t, memory.NewStore(1), "a", &a, elect.Health{Timeout: time.Hour})
		done := async(func() error { return e.Lead(t.Context(), until) })
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, elect.ErrClosed) {
			t.Errorf("Lead returned %v; want ErrClosed", err)
		}
		asked := a.asked.Load()
		time.Sleep(time.Hour)
		if a.asked.Load() != asked {
			t.Error("checks go on after Close")
		}
	})
}
