package memory_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/store/memory"
)

// In addition to the conformance suite: each fault has its documented effect, at the documented
// instant.

const lease = time.Second

func open(t *testing.T, store *memory.Store, id string) *memory.Elector {
	t.Helper()
	e, err := store.New("job", id, memory.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func win(t *testing.T, e *memory.Elector) driver.Mandate {
	t.Helper()
	m, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Freeze(false) // or the release would wait for ever
		_ = m.Release(context.Background())
	})
	return m
}

func TestWhyALeaseRanOut(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(*memory.Store, *memory.Elector)
		want  error
	}{
		"cut":             {func(_ *memory.Store, e *memory.Elector) { e.Cut(true) }, driver.ErrUnreachable},
		"outage":          {func(s *memory.Store, _ *memory.Elector) { s.Outage(true) }, driver.ErrUnreachable},
		"a late answer":   {func(_ *memory.Store, e *memory.Elector) { e.DelayAnswer(10 * lease) }, driver.ErrUnreachable},
		"a recreation":    {func(s *memory.Store, _ *memory.Elector) { s.Recreate() }, driver.ErrSuperseded},
		"a crash":         {func(_ *memory.Store, e *memory.Elector) { e.Crash() }, driver.ErrClosed},
		"Close":           {func(_ *memory.Store, e *memory.Elector) { _ = e.Close() }, driver.ErrClosed},
		"Close in frost":  {func(_ *memory.Store, e *memory.Elector) { e.Freeze(true); _ = e.Close() }, driver.ErrClosed},
		"Close in a wait": {func(_ *memory.Store, e *memory.Elector) { e.DelayAnswer(lease); <-time.After(lease / 2); _ = e.Close() }, driver.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore(0)
				e := open(t, store, "a")
				m := win(t, e)
				start := time.Now()
				tt.fault(store, e)
				<-m.Context().Done()
				if cause := context.Cause(m.Context()); !errors.Is(cause, tt.want) || !errors.Is(m.Check(), tt.want) {
					t.Errorf("the mandate ended with %v, and Check says %v; want %v", cause, m.Check(), tt.want)
				}
				if late := time.Since(start); late > lease {
					t.Errorf("told after %v; want at most the lease", late)
				}
			})
		})
	}
}

// A frozen participant does nothing, and knows that at once when it wakes.
func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memory.NewStore(0), "a")
		m := win(t, e)
		e.Freeze(true)
		time.Sleep(10 * lease)
		if m.Context().Err() != nil {
			t.Error("a frozen participant ended its mandate")
		}
		e.Freeze(false)
		if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("Check at the thaw: %v; want ErrExpired", err)
		}
		synctest.Wait()
		if !errors.Is(context.Cause(m.Context()), driver.ErrExpired) {
			t.Errorf("the mandate ended with %v; want ErrExpired", context.Cause(m.Context()))
		}
	})
}

func TestConfirmCountsFromBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memory.NewStore(0), "a")
		m := win(t, e)
		synctest.Wait() // the mandate's own first look has its answer
		e.DelayAnswer(lease / 5)
		if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left, _ := m.Remaining(); left != lease-lease/5 {
			t.Errorf("Remaining is %v after an answer that took %v; want %v", left, lease/5, lease-lease/5)
		}
	})
}

// A campaign without time left sends no request.
func TestCampaignAfterTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memory.NewStore(0), "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no time left")
		cancel(why)
		if _, err := e.Campaign(ctx, driver.Candidacy{}); !errors.Is(err, why) {
			t.Errorf("Campaign returned %v; want the cause of its context", err)
		}
		if m := win(t, e); m.Token() != 1 {
			t.Errorf("the first token is %v; want 1: the cancelled campaign took one", m.Token())
		}
	})
}

// A recreated store elects nobody while a lease that it forgot may live, and continues in the next
// era.
func TestRecreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(4)
		a, b := open(t, store, "a"), open(t, store, "b")
		m := win(t, a)
		a.Freeze(true) // it cannot hear of it
		store.Recreate()
		start := time.Now()
		n := win(t, b)
		if got := time.Since(start); got != lease {
			t.Errorf("the next was elected after %v; want %v", got, lease)
		}
		if m.Token().Era() != 4 || n.Token().Era() != 5 || n.Token().Count() != 1 {
			t.Errorf("tokens %v and %v; want eras 4 and 5", m.Token(), n.Token())
		}
		if m.Check() == nil {
			t.Error("two are proven")
		}
		a.Freeze(false)
	})
}

// A restarted store gives every lease its full length again.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore(0)
		a, b := open(t, store, "a"), open(t, store, "b")
		m := win(t, a)
		a.Crash()
		time.Sleep(lease / 2)
		store.Restart()
		start := time.Now()
		n := win(t, b)
		if got := time.Since(start); got != lease || n.Token() <= m.Token() {
			t.Errorf("the next was elected after %v with token %v after %v; want %v later and above", got, n.Token(), m.Token(), lease)
		}
	})
}

func TestOpen(t *testing.T) {
	target := func(raw string) driver.Target {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return driver.Target{URL: u, Name: "job", ID: "a"}
	}
	store := memory.NewStore(fence.MaxEra)
	e, err := store.Open(t.Context(), target("memory:?lease=2s"))
	if err != nil || e.Limits().Lease != 2*time.Second {
		t.Fatalf("Open: %v, lease %v", err, e.Limits().Lease)
	}
	_ = e.Close()
	for raw, says := range map[string]string{
		"memory:here":             "has no place",
		"memory://host":           "has no place",
		"memory://u:hunter2@/":    "has no place",
		"memory:?lease=2s#there":  "has no place",
		"memory:?lease=1h1s":      "want 10ms to 1h0m0s",
		"memory:?lease=-1s":       "want 10ms to 1h0m0s",
		"memory:?lease=soon":      "want a duration such as 2s",
		"memory:?lease=1s&lease=": "want at most one lease=DURATION",
		"memory:?name=x":          "want at most one lease=DURATION",
		"memory:?%zz":             "invalid URL escape",
	} {
		_, err := store.Open(t.Context(), target(raw))
		if err == nil || !strings.Contains(err.Error(), says) || !driver.IsPermanent(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open of %s: %v; want it to say %q, for good", raw, err, says)
		}
	}
	for _, c := range [][2]string{{"", "a"}, {"job", ""}, {"", ""}} {
		if _, err := store.New(c[0], c[1], memory.Config{}); err == nil || !driver.IsPermanent(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("New(%q): %v; want one line, for good", c, err)
		}
	}
}
