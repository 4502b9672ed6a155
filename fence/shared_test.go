package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
)

// away is a shared mark that cannot be reached, when the test says so.
type away struct {
	*holder
	err   error
	raise func(fence.Token) error // nil: succeeds
}

func (a *away) Highest(ctx context.Context, r fence.Resource) (fence.Token, error) {
	if a.err != nil {
		return 0, a.err
	}
	return a.holder.Highest(ctx, r)
}

func (a *away) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	if a.err != nil {
		return a.err
	}
	if a.raise != nil {
		if err := a.raise(token); err != nil {
			return err
		}
	}
	return a.holder.Raise(ctx, r, token)
}

// A shared mark that cannot be raised, or is greater, costs the leader at work nothing,
// though its work has to end before a mark that can be.
func TestSharedMarkThatCannotBeRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mark := &away{holder: newHolder()}
		g := newGuard(t, mark, fence.GuardConfig{})
		five := begin(t, g, 5)
		mark.err = errors.New("no route to the database")
		if _, err := g.Begin(t.Context(), "r", 6); !errors.Is(err, mark.err) {
			t.Errorf("got %v; want the mark's error", err)
		}
		synctest.Wait()
		if err := context.Cause(five.Context()); err != nil {
			t.Errorf("a mark that was not raised has ended work: %v", err)
		}
		mark.err = nil
		admitted := make(chan error, 1)
		go func() {
			p, err := g.Begin(t.Context(), "r", 6)
			if err == nil {
				err = p.End()
			}
			admitted <- err
		}()
		synctest.Wait()
		stale(t, context.Cause(five.Context()), 5, 6)
		if err := five.End(); err != nil {
			t.Error(err)
		}
		if err := <-admitted; err != nil {
			t.Error(err)
		}
	})
}

// hesitating is a shared mark whose Share waits.
type hesitating struct {
	away
	asked chan struct{}
}

func (h *hesitating) Share(ctx context.Context, r fence.Resource, token fence.Token) (func() error, error) {
	h.asked <- struct{}{}
	select {
	case <-time.After(time.Minute):
		return h.holder.Share(ctx, r, token)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Who is overtaken while it waits for a shared mark is refused if the mark is raised, and
// else goes on: a token that was shown is not the mark.
func TestOvertakenWhileItWaits(t *testing.T) {
	for _, raised := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mark := &hesitating{away: away{holder: newHolder()}, asked: make(chan struct{}, 3)}
			raising := make(chan error)
			mark.raise = func(token fence.Token) error {
				if token == 6 {
					return <-raising
				}
				return nil
			}
			g := newGuard(t, mark, fence.GuardConfig{})
			five := make(chan error, 1)
			go func() { five <- g.Claim(t.Context(), "r", 5) }()
			<-mark.asked
			six := make(chan error, 1)
			go func() { six <- g.Claim(t.Context(), "r", 6) }()
			synctest.Wait() // it has been overtaken
			if raised {
				raising <- nil
				stale(t, <-five, 5, 6)
				if err := <-six; err != nil {
					t.Error(err)
				}
				return
			}
			want := errors.New("the connection was lost")
			raising <- want
			if err := <-six; !errors.Is(err, want) {
				t.Error(err)
			}
			if err := <-five; err != nil {
				t.Errorf("the smaller one, though nothing was raised: %v", err)
			}
		})
	}
}

// What a refusal tells of the mark is not its word to a greater token: who wrote it may have
// been killed before it was durable, and who let it in before all smaller ones had ended.
func TestMarkIsAskedForEachToken(t *testing.T) {
	mark := &away{holder: newHolder()}
	if err := mark.holder.Raise(t.Context(), "r", 6); err != nil { // by a process before
		t.Fatal(err)
	}
	g := newGuard(t, struct{ fence.Mark }{mark}, fence.GuardConfig{})
	_, err := g.Begin(t.Context(), "r", 5)
	stale(t, err, 5, 6)
	mark.err = errors.New("the disk does not sync")
	if err := g.Claim(t.Context(), "r", 6); !errors.Is(err, mark.err) {
		t.Errorf("got %v; want the mark's error", err)
	}
	mark.err = nil
	if err := g.Claim(t.Context(), "r", 6); err != nil {
		t.Error(err)
	}
}

// clearing is a mark that is told when a token is alone.
type clearing struct {
	fence.Memory
	mu   sync.Mutex
	told []fence.Token
}

func (c *clearing) Cleared(_ context.Context, _ fence.Resource, token fence.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, token)
}

// A mark that wants to know is told once of each token, when work of smaller ones has
// ended, and before the token is admitted.
func TestGuardTellsWhatIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mark := new(clearing)
		told := func(want ...fence.Token) {
			t.Helper()
			mark.mu.Lock()
			defer mark.mu.Unlock()
			if len(mark.told) != len(want) {
				t.Fatalf("told of %v; want %v", mark.told, want)
			}
			for i := range want {
				if mark.told[i] != want[i] {
					t.Fatalf("told of %v; want %v", mark.told, want)
				}
			}
		}
		g := newGuard(t, mark, fence.GuardConfig{Drain: -1})
		five := begin(t, g, 5)
		told(5)
		begin(t, g, 5).End()
		admitted := make(chan struct{})
		go func() {
			begin(t, g, 6).End()
			close(admitted)
		}()
		synctest.Wait()
		if highest, err := mark.Highest(t.Context(), "r"); highest != 6 || err != nil {
			t.Errorf("the mark is %v, %v", highest, err)
		}
		told(5)
		five.End()
		<-admitted
		told(5, 6)
	})
}

// It is not known whether a claim whose mark has failed was taken.
func TestClaimWhoseMarkFails(t *testing.T) {
	disk := &failing{err: errors.New("the disk is full")}
	g := newGuard(t, disk, fence.GuardConfig{})
	if err := g.Claim(t.Context(), "r", 5); !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, disk.err) || fence.ResultOf(err) != fence.Failed {
		t.Errorf("got %v; want an unknown outcome, and the mark's error", err)
	}
	disk.err = nil
	for token, want := range map[fence.Token]error{0: fence.ErrMissing, 1 << 48: fence.ErrToken} {
		if err := g.Claim(t.Context(), "r", token); !errors.Is(err, want) || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("%v: %v; want %v", token, err, want)
		}
	}
	if err := g.Claim(t.Context(), "r", 5); err != nil {
		t.Error(err)
	}
	if err := g.Claim(t.Context(), "r", 4); !errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("a smaller one: %v", err)
	}
}

// Who waits while another token is being raised is patient, too, and what it is told does
// not say that its own is.
func TestPatienceWhileAnotherIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &failing{slow: time.Minute}
		g := newGuard(t, disk, fence.GuardConfig{Patience: time.Second})
		first := make(chan error, 1)
		go func() { first <- g.Claim(t.Context(), "r", 5) }()
		synctest.Wait()
		start := time.Now()
		if err := g.Claim(t.Context(), "r", 6); !errors.Is(err, fence.ErrBusy) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v; want ErrBusy after 1s", time.Since(start), err)
		}
		if highest, err := g.Highest(t.Context(), "r"); highest != 0 || err != nil {
			t.Errorf("the mark is %v, %v", highest, err)
		}
		if err := <-first; err != nil { // how long the mark takes is not counted
			t.Error(err)
		}
	})
}

// breaking is a shared mark whose release panics.
type breaking struct{ fence.Memory }

func (*breaking) Share(context.Context, fence.Resource, fence.Token) (func() error, error) {
	return func() error { panic("of the driver") }, nil
}

// A release that panics leaves nothing in flight that nobody can end.
func TestReleaseThatPanics(t *testing.T) {
	g := newGuard(t, new(breaking), fence.GuardConfig{})
	p := begin(t, g, 5)
	func() {
		defer func() {
			if r := recover(); r != "of the driver" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = p.End()
	}()
	if n := g.InFlight("r"); n != 0 || p.Context().Err() == nil {
		t.Errorf("%d in flight, and the context has ended: %v", n, p.Context().Err())
	}
}

func TestDecisionOf(t *testing.T) {
	for _, c := range []struct {
		highest fence.Token
		err     error
		want    fence.Decision
	}{
		{0, nil, fence.Decision{Highest: 5, Result: fence.Passed}}, // it has raised the mark, or found it there
		{6, nil, fence.Decision{Highest: 6, Result: fence.Passed}},
		{0, errDisk, fence.Decision{Result: fence.Failed}},
		{4, errDisk, fence.Decision{Highest: 4, Result: fence.Failed}},
		{4, &fence.StaleError{Shown: 5, Highest: 7}, fence.Decision{Highest: 7, Result: fence.Stale}},
	} {
		c.want.Resource, c.want.Shown = "r", 5
		if got := fence.DecisionOf("r", 5, c.highest, c.err); got != c.want {
			t.Errorf("%v, %v: %+v; want %+v", c.highest, c.err, got, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	for _, r := range []fence.Result{fence.Stale, fence.Missing, fence.Malformed, fence.Foreign, fence.Busy} {
		if got := fence.ResultOf(r.Err()); got != r {
			t.Errorf("%s is %s again", r, got)
		}
	}
	for _, r := range []fence.Result{fence.Passed, fence.Raised, fence.Failed, "nonsense"} {
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	if fence.ResultOf(nil) != fence.Passed || fence.ResultOf(errDisk) != fence.Failed || !errors.Is(fence.Ended.Err(), fence.ErrUnknownOutcome) {
		t.Error("passed, failed or ended is another")
	}
}
