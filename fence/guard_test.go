package fence_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
)

func newGuard(t *testing.T, mark fence.Mark, cfg fence.GuardConfig) *fence.Guard {
	t.Helper()
	g, err := fence.NewGuard(mark, []fence.Resource{"r"}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func begin(t *testing.T, g *fence.Guard, token fence.Token) *fence.Pass {
	t.Helper()
	p, err := g.Begin(t.Context(), "r", token)
	if err != nil {
		t.Fatalf("Begin of %v: %v", token, err)
	}
	return p
}

func stale(t *testing.T, err error, shown, highest fence.Token) {
	t.Helper()
	s, ok := errors.AsType[*fence.StaleError](err)
	if !ok || *s != (fence.StaleError{Shown: shown, Highest: highest}) || !errors.Is(err, fence.ErrStale) {
		t.Fatalf("got %v; want stale: %v shown, %v highest", err, shown, highest)
	}
}

func TestGuardAdmitsTheGreatestOnly(t *testing.T) {
	g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
	for _, token := range []fence.Token{5, 5, 6} {
		if err := g.Do(t.Context(), "r", token, func(ctx context.Context) error {
			if got, ok := fence.FromContext(ctx); !ok || got != token {
				t.Errorf("the context carries %v, %v; want %v", got, ok, token)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	stale(t, g.Do(t.Context(), "r", 5, func(context.Context) error { t.Error("it ran"); return nil }), 5, 6)
	if highest, err := g.Highest(t.Context(), "r"); highest != 6 || err != nil {
		t.Errorf("the mark is %v, %v; want 6", highest, err)
	}
	want := errors.New("the work's")
	if err := g.Do(t.Context(), "r", 6, func(context.Context) error { return want }); err != want {
		t.Errorf("got %v; want the error of the work", err)
	}
}

// A guard that is started anew knows from its mark what was shown before.
func TestGuardStartedAnew(t *testing.T) {
	mark := new(fence.Memory)
	begin(t, newGuard(t, mark, fence.GuardConfig{}), 7).End()
	g := newGuard(t, mark, fence.GuardConfig{})
	_, err := g.Begin(t.Context(), "r", 6)
	stale(t, err, 6, 7)
	begin(t, g, 7).End()
}

func TestGuardRefusesNonsense(t *testing.T) {
	results := map[fence.Result]int{}
	var log strings.Builder
	g := newGuard(t, new(fence.Memory), fence.GuardConfig{
		Observe: func(d fence.Decision) { results[d.Result]++ },
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
	})
	begin(t, g, 3).End()
	for _, c := range []struct {
		resource fence.Resource
		token    fence.Token
		want     error
		result   fence.Result
	}{
		{"r", 0, fence.ErrMissing, fence.Missing},
		{"r", 2, fence.ErrStale, fence.Stale},
		{"r", fence.MaxToken + 1, fence.ErrToken, fence.Malformed},
		{"r", 1 << 48, fence.ErrToken, fence.Malformed}, // a count of 0
		{"another", 3, fence.ErrResource, fence.Foreign},
		{"", 3, fence.ErrResource, fence.Foreign},
	} {
		before := results[c.result]
		if _, err := g.Begin(t.Context(), c.resource, c.token); !errors.Is(err, c.want) || fence.ResultOf(err) != c.result {
			t.Errorf("%q with %d: %v; want %v", c.resource, c.token, err, c.want)
		}
		if results[c.result] != before+1 {
			t.Errorf("%q with %d is not counted as %s", c.resource, c.token, c.result)
		}
	}
	if n := strings.Count(log.String(), "msg=refused"); n != 6 {
		t.Errorf("%d refusals are logged; want 6:\n%s", n, &log)
	}
	for _, resources := range [][]fence.Resource{nil, {"a b"}} {
		if _, err := fence.NewGuard(new(fence.Memory), resources, fence.GuardConfig{}); err == nil {
			t.Errorf("NewGuard takes %q", resources)
		}
	}
}

// A greater token waits for the work of smaller ones, which is told to end at once,
// after a while, or never.
func TestGuardDrains(t *testing.T) {
	for _, c := range []struct {
		drain, told time.Duration // told < 0: never
	}{{0, 0}, {3 * time.Second, 3 * time.Second}, {-1, -1}} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, new(fence.Memory), fence.GuardConfig{Drain: c.drain})
			old := begin(t, g, 5)
			start := time.Now()
			if told := old.Told(); !told.IsZero() {
				t.Errorf("told at %v, and nobody has come", told)
			}
			admitted := make(chan time.Duration)
			go func() {
				p := begin(t, g, 6)
				admitted <- time.Since(start)
				p.End()
			}()
			synctest.Wait()
			if _, err := g.Begin(t.Context(), "r", 5); !errors.Is(err, fence.ErrStale) {
				t.Errorf("another of the smaller token: %v", err)
			}
			const ends = 10 * time.Second
			select {
			case <-old.Context().Done():
				if told := time.Since(start); told != c.told {
					t.Errorf("drain %v: told after %v; want %v", c.drain, told, c.told)
				}
				stale(t, context.Cause(old.Context()), 5, 6)
				if told := old.Told(); !told.Equal(start) {
					t.Errorf("drain %v: told at %v; want %v", c.drain, told, start)
				}
			case <-time.After(ends):
				if c.told >= 0 {
					t.Errorf("drain %v: not told", c.drain)
				}
			}
			time.Sleep(ends - time.Since(start))
			select {
			case <-admitted:
				t.Fatal("admitted beside work of a smaller token")
			default:
			}
			old.End()
			if waited := <-admitted; waited != ends {
				t.Errorf("admitted after %v; want %v, when the old work ended", waited, ends)
			}
		})
	}
}

func TestGuardIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, new(fence.Memory), fence.GuardConfig{Drain: -1, Patience: time.Second})
		old := begin(t, g, 5)
		start := time.Now()
		_, err := g.Begin(t.Context(), "r", 6)
		if !errors.Is(err, fence.ErrBusy) || fence.ResultOf(err) != fence.Busy || time.Since(start) != time.Second {
			t.Errorf("after %v: %v; want ErrBusy after 1s", time.Since(start), err)
		}
		_, err = g.Begin(t.Context(), "r", 5)
		stale(t, err, 5, 6) // the mark was raised all the same
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("the caller's"))
		defer cancel()
		if _, err := g.Begin(ctx, "r", 6); err == nil || err.Error() != "the caller's" {
			t.Errorf("got %v; want the cause of the end of its context", err)
		}
		old.End()
		begin(t, g, 6).End()
		if n := g.InFlight("r"); n != 0 {
			t.Errorf("%d in flight; want none", n)
		}
	})
}

// failing is a mark whose disk does what the test wants.
type failing struct {
	fence.Memory
	err  error
	slow time.Duration
}

func (f *failing) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	time.Sleep(f.slow)
	if f.err != nil {
		return f.err
	}
	return f.Memory.Raise(ctx, r, token)
}

// Nothing is admitted before the mark is durable, and a mark that cannot be raised
// costs the leader at work nothing.
func TestGuardWaitsForTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &failing{}
		g := newGuard(t, disk, fence.GuardConfig{})
		five := begin(t, g, 5)
		disk.err = errors.New("the disk is full")
		if _, err := g.Begin(t.Context(), "r", 6); !errors.Is(err, disk.err) || fence.ResultOf(err) != fence.Failed {
			t.Errorf("got %v; want the mark's error", err)
		}
		if five.Context().Err() != nil {
			t.Error("a mark that was not raised has ended work")
		}
		begin(t, g, 5).End()
		disk.err, disk.slow = nil, time.Minute
		start := time.Now()
		five.End()
		begin(t, g, 6).End()
		if took := time.Since(start); took != time.Minute {
			t.Errorf("admitted after %v; want a minute, when the mark was durable", took)
		}
	})
}

func TestParseResource(t *testing.T) {
	for _, good := range []string{"a", "orders", "public.orders", "shard-7/x:y@z_", strings.Repeat("a", fence.MaxResource)} {
		if r, err := fence.ParseResource(good); err != nil || r.String() != good || !r.Valid() {
			t.Errorf("%q: %q, %v", good, r, err)
		}
	}
	for _, bad := range []string{"", " a", "a ", "a;5", "a b", "ä", "a\n", "a'b", strings.Repeat("a", fence.MaxResource+1)} {
		if r, err := fence.ParseResource(bad); !errors.Is(err, fence.ErrResource) || r != "" || fence.Resource(bad).Valid() {
			t.Errorf("%q: %q, %v; want ErrResource", bad, r, err)
		}
	}
}

func TestFromContext(t *testing.T) {
	if token, ok := fence.FromContext(t.Context()); ok || token != 0 {
		t.Errorf("of a bare context: %v, %v", token, ok)
	}
	if token, ok := fence.FromContext(fence.NewContext(t.Context(), 0)); ok {
		t.Errorf("of no token: %v", token)
	}
	if token, ok := fence.FromContext(fence.NewContext(fence.NewContext(t.Context(), 5), 6)); !ok || token != 6 {
		t.Errorf("got %v, %v; want 6", token, ok)
	}
}

func BenchmarkGuard(b *testing.B) {
	g, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"r"}, fence.GuardConfig{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.Begin(ctx, "r", 1)
		if err != nil {
			b.Fatal(err)
		}
		p.End()
	}
}

// counting counts what is written.
type counting struct {
	fence.Memory
	raised atomic.Int32
}

func (c *counting) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	c.raised.Add(1)
	return c.Memory.Raise(ctx, r, token)
}

// A token that no leader of the election can have does not keep its leaders out.
func TestTokenBeyondReach(t *testing.T) {
	const step = 1 << 40
	era := func(era, count uint64) fence.Token {
		token, err := fence.NewToken(era, count)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	for _, tt := range []struct {
		mark, shown fence.Token
		era, step   uint64
		want        error
	}{
		{mark: 7, shown: fence.MaxToken, want: fence.ErrToken},
		{mark: 7, shown: era(1, 1), want: fence.ErrToken},
		{mark: 7, shown: era(1, 1), era: 1},
		{mark: 7, shown: era(2, 1), era: 1, want: fence.ErrToken},
		{mark: era(2, 7), shown: era(2, 8), era: 1}, // the mark has that era
		{mark: era(2, 7), shown: era(3, 8), era: 1, want: fence.ErrToken},
		{mark: 7, shown: 7 + step},
		{mark: 7, shown: 8 + step, want: fence.ErrToken},
		{shown: step},
		{shown: step + 1, want: fence.ErrToken},
		{mark: 7, shown: era(1, step), era: 1},
		{mark: 7, shown: era(1, step+1), era: 1, want: fence.ErrToken},
		{mark: 7, shown: 17, step: 10},
		{mark: 7, shown: 18, step: 10, want: fence.ErrToken},
		{mark: 7, shown: fence.MaxCount, step: fence.MaxCount},
		{mark: 7, shown: fence.MaxToken, era: fence.MaxEra, step: fence.MaxCount},
		{mark: 7, shown: 6, step: 1, want: fence.ErrStale},
		{mark: fence.MaxToken, shown: fence.MaxToken}, // the mark itself
	} {
		mark := new(counting)
		if tt.mark != 0 {
			if err := mark.Memory.Raise(t.Context(), "r", tt.mark); err != nil {
				t.Fatal(err)
			}
		}
		g := newGuard(t, mark, fence.GuardConfig{Era: tt.era, MaxStep: tt.step})
		err := g.Claim(t.Context(), "r", tt.shown)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%+v: %v", tt, err)
		}
		want := tt.mark
		if tt.want == nil {
			want = tt.shown
		}
		if got, _ := mark.Highest(t.Context(), "r"); got != want || errors.Is(err, fence.ErrToken) && mark.raised.Load() != 0 {
			t.Errorf("%+v: the mark is %v, written %d times; want %v", tt, got, mark.raised.Load(), want)
		}
	}
	for _, cfg := range []fence.GuardConfig{{Era: fence.MaxEra + 1}, {MaxStep: fence.MaxCount + 1}, {Patience: -1}} {
		if _, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"r"}, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// What may not claim passes with the token of the mark, and raises nothing.
func TestBeginClaimed(t *testing.T) {
	mark := new(counting)
	if err := mark.Memory.Raise(t.Context(), "r", 7); err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, mark, fence.GuardConfig{})
	if _, err := g.BeginClaimed(t.Context(), "r", 8); !errors.Is(err, fence.ErrUnclaimed) || fence.ResultOf(err) != fence.Unclaimed || mark.raised.Load() != 0 {
		t.Fatalf("a greater token: %v, written %d times", err, mark.raised.Load())
	}
	for token, want := range map[fence.Token]error{6: fence.ErrStale, 7: nil} { // the mark of a process before
		p, err := g.BeginClaimed(t.Context(), "r", token)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v: %v; want %v", token, err, want)
		}
		if err == nil {
			_ = p.End()
		}
	}
	if err := g.Claim(t.Context(), "r", 8); err != nil {
		t.Fatal(err)
	}
	p, err := g.BeginClaimed(t.Context(), "r", 8)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.End()
	if err := mark.Memory.Raise(t.Context(), "r", 9); err != nil { // by another guard
		t.Fatal(err)
	}
	if p, err = g.BeginClaimed(t.Context(), "r", 9); err != nil {
		t.Fatal(err)
	}
	_ = p.End()
}
