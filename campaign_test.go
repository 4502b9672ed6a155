package elect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// TestTermOfEvents: an event from elected to released has the term that Campaign and Lead hand out, others have none.
func TestTermOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		var d diary
		e, _ := stand(t, store, "a", elect.Config{OnEvent: d.note})
		term := win(t, e)
		store.Recreate()
		<-term.Context().Done()
		if err := term.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := len(d.all())
		var second *elect.Term
		err := e.Lead(t.Context(), func(_ context.Context, term *elect.Term) error {
			second = term
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, event := range d.all() {
			want := term
			if i >= first {
				want = second
			}
			if event.Kind == elect.EventCampaigning {
				want = nil
			}
			if event.Term != want || want != nil && event.Token != want.Token() {
				t.Errorf("event %d, %s, has the term %v and token %v; want the term %v", i, event.Kind, event.Term, event.Token, want)
			}
		}
	})
}

func TestCampaignIsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		e, _ := stand(t, store, "a", elect.Config{})
		busy := func(when string) {
			t.Helper()
			if _, err := e.Campaign(t.Context()); !errors.Is(err, elect.ErrBusy) {
				t.Errorf("Campaign %s returned %v; want ErrBusy", when, err)
			}
			if err := e.Lead(t.Context(), noWork(t)); !errors.Is(err, elect.ErrBusy) {
				t.Errorf("Lead %s returned %v; want ErrBusy", when, err)
			}
		}
		term := win(t, e)
		busy("while a term goes on")
		store.Recreate()
		<-term.Context().Done()
		busy("after a loss that was not resigned")
		if err := term.Release(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		led := async(func() error {
			return e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
				busy("inside Lead")
				return until(ctx, term)
			})
		})
		synctest.Wait()
		cancel(errWork)
		if err := <-led; !errors.Is(err, errWork) {
			t.Errorf("Lead returned %v", err)
		}
		again := win(t, e)
		if again.Token() <= term.Token() {
			t.Errorf("token %v after %v", again.Token(), term.Token())
		}
		if err := term.Release(t.Context()); err != nil {
			t.Errorf("a second Resign: %v", err)
		}
		busy("after an older term was resigned twice")
		if err := again.Check(); err != nil {
			t.Errorf("an older term's Resign touched the new one: %v", err)
		}
	})
}

func TestCampaignReturnsTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		var d diary
		b, _ := stand(t, store, "b", elect.Config{OnEvent: d.note})
		win(t, a)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errWork)
		defer cancel()
		if _, err := b.Campaign(ctx); !errors.Is(err, errWork) {
			t.Errorf("Campaign returned %v; want the cause of its context", err)
		}
		if _, err := b.Campaign(ctx); !errors.Is(err, errWork) {
			t.Errorf("Campaign returned %v; want the cause of its context", err)
		}
		d.is(t, elect.EventCampaigning, elect.EventWithdrawn) // the second never stood
	})
}

func TestCampaignReturnsPassingTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		e, link := stand(t, store, "a", elect.Config{})
		link.Cut(true)
		if _, err := e.Campaign(t.Context()); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Campaign returned %v; want the trouble", err)
		}
		link.Cut(false)
		win(t, e) // and not ErrBusy
	})
}

// The term does not end with the context of its campaign, whose values it has.
func TestTermOutlivesItsCampaign(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 1))
		term, err := e.Campaign(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Hour)
		if err := term.Check(); err != nil || term.Context().Err() != nil {
			t.Errorf("Check: %v, context: %v", err, term.Context().Err())
		}
		if term.Context().Value(key{}) != 1 {
			t.Error("the term's context has not the values of the campaign's")
		}
		if err := term.Release(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		lost(t, term.Check(), elect.ReasonResigned)
	})
}

func TestReleaseEndsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		b, _ := stand(t, store, "b", elect.Config{})
		term := win(t, a)
		start := time.Now()
		if err := term.Release(t.Context()); err != nil {
			t.Errorf("Resign: %v", err)
		}
		win(t, b)
		if time.Since(start) != 0 {
			t.Errorf("the next was elected after %v; want at once", time.Since(start))
		}
	})
}

func TestTransferAfterCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, _ := stand(t, store, "a", elect.Config{})
		term := win(t, a)
		type victory struct {
			id   string
			term *elect.Term
		}
		won := make(chan victory, 3)
		for _, id := range []string{"b", "c", "d"} {
			e, _ := stand(t, store, id, elect.Config{})
			go func() {
				if term, err := e.Campaign(t.Context()); err == nil {
					won <- victory{id, term}
					_ = term.Release(context.Background())
				}
			}()
		}
		synctest.Wait()
		if err := term.Transfer("c"); err != nil {
			t.Errorf("Transfer: %v", err)
		}
		synctest.Wait()
		if len(won) > 0 {
			t.Error("Transfer gave leadership away before the work was joined")
		}
		if err := term.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		if v := <-won; v.id != "c" || v.term.Token() <= term.Token() {
			t.Errorf("%s was elected, with token %v after %v; want c", v.id, v.term.Token(), term.Token())
		}
		<-won
		<-won
		if _, err := a.Campaign(t.Context()); err != nil {
			t.Errorf("Campaign after a transfer: %v", err)
		}
	})
}

func TestTermIsProvenByItsMandate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, link := stand(t, memory.NewStore(0), "a", elect.Config{})
		term := win(t, e)
		if left, bounded := term.Remaining(); left != lease || !bounded {
			t.Errorf("Remaining is %v, %v; want %v", left, bounded, lease)
		}
		if err := term.Confirm(t.Context()); err != nil {
			t.Errorf("Confirm: %v", err)
		}
		link.Cut(true)
		if err := term.Confirm(t.Context()); !errors.Is(err, driver.ErrUnreachable) || errors.Is(err, elect.ErrNotLeader) {
			t.Errorf("Confirm without the store: %v; want ErrUnreachable, the question left open", err)
		}
		if err := term.Check(); err != nil {
			t.Errorf("Check while the lease lasts: %v", err)
		}
		time.Sleep(lease - drain) // the drain ends this term, before the lease ends
		synctest.Wait()
		lost(t, term.Check(), elect.ReasonExpired)
		lost(t, term.Confirm(t.Context()), elect.ReasonExpired)
		link.Cut(false)
		time.Sleep(10 * lease)
		lost(t, term.Check(), elect.ReasonExpired)
	})
}

func TestConfirmFindsTheTermSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		e, link := stand(t, store, "a", elect.Config{})
		term := win(t, e)
		link.Freeze(true) // so that nothing but Confirm can notice
		store.Recreate()
		time.AfterFunc(lease/10, func() { link.Freeze(false) })
		lost(t, term.Confirm(t.Context()), elect.ReasonSuperseded)
		lost(t, context.Cause(term.Context()), elect.ReasonSuperseded)
	})
}

func TestNextNumbersMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := stand(t, memory.NewStore(3), "a", elect.Config{})
		var last elect.Sequence
		for range 3 {
			term := win(t, e)
			for i := range uint64(3) {
				next := term.Next()
				if next.Token != term.Token() || next.Position != i+1 || next.Compare(last) <= 0 {
					t.Errorf("%v after %v", next, last)
				}
				last = next
			}
			_ = term.Release(t.Context())
		}
		if last.String() != "844424930131971/3" { // era 3, count 3
			t.Errorf("the last is %v", last)
		}
	})
}

func TestAbilitiesThatAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFake(), newFakeMandate(1, time.Hour)
		f.wins(m)
		e, err := elect.New(f, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		term := win(t, e)
		for name, err := range map[string]error{
			"Confirm":  term.Confirm(t.Context()),
			"Transfer": term.Transfer("b"),
			"Resign":   e.Resign(t.Context(), 0),
		} {
			if !errors.Is(err, elect.ErrUnsupported) {
				t.Errorf("%s returned %v; want ErrUnsupported", name, err)
			}
		}
		if err := term.Check(); err != nil {
			t.Errorf("the term did not go on: %v", err)
		}
	})
}

// Elected and not yet exclusive: the work runs, Check says so, and neither a
// drain nor an overrun is anything to it.
func TestNonExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		f, m := newFake(), newFakeMandate(1, time.Nanosecond)
		m.says(driver.ErrNotExclusive)
		f.limits.Exclusive = false
		if _, err := elect.New(f, elect.Config{}); !errors.Is(err, elect.ErrUnsupported) {
			t.Errorf("New with a back end that proves nobody exclusive: %v; want ErrUnsupported", err)
		}
		var candidacy driver.Candidacy
		f.campaign = func(_ context.Context, c driver.Candidacy) (driver.Mandate, error) {
			candidacy = c
			return m, nil
		}
		e, err := elect.New(f, elect.Config{NonExclusive: true, OnEvent: d.note})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_ = e.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
			time.Sleep(time.Hour)
			if err := term.Check(); !errors.Is(err, elect.ErrNotExclusive) || errors.Is(err, elect.ErrNotLeader) {
				t.Errorf("Check before the proof: %v; want ErrNotExclusive", err)
			}
			m.says(nil)
			if err := term.Check(); err != nil || ctx.Err() != nil {
				t.Errorf("Check after the proof: %v, context: %v", err, ctx.Err())
			}
			m.end(driver.ErrSuperseded)
			<-ctx.Done()
			lost(t, context.Cause(ctx), elect.ReasonSuperseded)
			time.Sleep(time.Hour)
			cancel()
			return nil
		})
		if candidacy.Exclusive {
			t.Error("the candidacy asks for an exclusive lease")
		}
		d.is(t, elect.EventCampaigning, elect.EventElected, elect.EventEnded, elect.EventReleased)
	})
}
