package electtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver"
)

// suite is one running case.
type suite struct {
	*testing.T
	open    func(t testing.TB, name, id string) Participant
	cfg     Config
	opened  int
	running sync.WaitGroup // campaigns and observers in the background
}

// join waits until everything in the background has ended, which it does when the participants are
// closed.
func (s *suite) join() {
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(s.cfg.Patience):
		s.Errorf("a Campaign or a Watch goes on %v after Close", s.cfg.Patience)
	}
}

const election = "conformance"

// participant opens the next participant and closes it when the case ends.
func (s *suite) participant() Participant {
	s.Helper()
	s.opened++
	p := s.open(s.T, election, fmt.Sprintf("p%d", s.opened))
	s.Cleanup(func() { _ = p.Close() })
	return p
}

// needs skips the case if the back end excuses a fault, and fails it if the fault is neither
// offered nor excused.
func (s *suite) needs(f Fault, there bool) {
	s.Helper()
	why, excused := s.cfg.Cannot[f]
	switch {
	case there && excused:
		s.Fatalf("fault %q is offered and also excused by Config.Cannot: %s", f, why)
	case excused:
		s.Skipf("fault %q does not exist here: %s", f, why)
	case !there:
		s.Fatalf("fault %q is not offered; offer it, or give the reason in Config.Cannot", f)
	}
}

// lists skips the case if Limits does not list an ability.
func (s *suite) lists(p Participant, a driver.Ability) {
	s.Helper()
	if !slices.Contains(p.Limits().Abilities, a) {
		s.Skipf("ability %q is not listed in Limits", a)
	}
}

// missing fails the case for an ability that is listed but not implemented.
func (s *suite) missing(a driver.Ability) {
	s.Helper()
	s.Fatalf("ability %q is listed and not implemented", a)
}

// takeover is how long a change of leaders may take.
func (s *suite) takeover(p Participant) time.Duration { return s.cfg.Patience + p.Limits().Takeover }

// win campaigns until it is elected. It retries temporary errors, as a caller would.
func (s *suite) win(p Participant) driver.Mandate {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.takeover(p))
	defer cancel()
	m, err := campaign(ctx, p)
	if err != nil {
		s.Fatalf("no victory within %v: %v", s.takeover(p), err)
	}
	if err := m.Check(); err != nil {
		s.Fatalf("Check right after a victory: %v", err)
	}
	return m
}

func campaign(ctx context.Context, p Participant) (driver.Mandate, error) {
	return campaignAs(ctx, p, driver.Candidacy{Exclusive: true})
}

func campaignAs(ctx context.Context, p Participant, as driver.Candidacy) (driver.Mandate, error) {
	for {
		m, err := p.Campaign(ctx, as)
		if err == nil || driver.IsPermanent(err) || errors.Is(err, driver.ErrClosed) || ctx.Err() != nil {
			return m, err
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// retry asks again while the answer is an error that passes, for Patience at most, and returns the
// last answer.
func (s *suite) retry(passes func(error) bool, ask func() error) error {
	deadline := time.Now().Add(s.cfg.Patience)
	for {
		err := ask()
		if err == nil || !passes(err) || time.Now().After(deadline) {
			return err
		}
		pause(s.Context(), 10*time.Millisecond)
	}
}

// unheard reports an error of a leader or an observer that hears no majority, as on a busy computer
// between two heartbeats.
func unheard(err error) bool { return errors.Is(err, driver.ErrUnreachable) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stand campaigns in the background.
func (s *suite) stand(ctx context.Context, p Participant) <-chan result {
	return s.standAs(ctx, p, driver.Candidacy{Exclusive: true})
}

func (s *suite) standAs(ctx context.Context, p Participant, as driver.Candidacy) <-chan result {
	c := make(chan result, 1)
	s.running.Go(func() {
		m, err := campaignAs(ctx, p, as)
		c <- result{m, err}
	})
	return c
}

type result struct {
	m   driver.Mandate
	err error
}

// victory waits for the mandate of a candidate.
func (s *suite) victory(p Participant, c <-chan result) driver.Mandate {
	s.Helper()
	r := receive(s, c, s.takeover(p), "a victory")
	if r.err != nil {
		s.Fatalf("Campaign: %v", r.err)
	}
	return r.m
}

func receive[T any](s *suite, c <-chan T, patience time.Duration, what string) T {
	s.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		s.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

func (s *suite) release(m driver.Mandate) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Patience)
	defer cancel()
	if err := m.Release(ctx); err != nil {
		s.Fatalf("Release: %v", err)
	}
	s.ended(m)
}

// told checks that a holder learns by its context that it was replaced: at once, except for delays
// of a busy computer.
func (s *suite) told(m driver.Mandate, p Participant) {
	s.Helper()
	receive(s, m.Context().Done(), max(p.Limits().Lease, s.promptly()), "the end of the context of a mandate that was replaced")
}

// promptly is how long something that happens at once may take: in a bubble, the computer's load
// does not count.
func (s *suite) promptly() time.Duration {
	if s.cfg.Bubble {
		return 2 * time.Second
	}
	return s.cfg.Patience
}

// ended checks that a mandate is over, for good, and has a cause.
func (s *suite) ended(m driver.Mandate) {
	s.Helper()
	receive(s, m.Context().Done(), s.cfg.Patience, "the end of the mandate's context")
	cause := context.Cause(m.Context())
	reasons := []error{driver.ErrExpired, driver.ErrSuperseded, driver.ErrResigned, driver.ErrUnreachable, driver.ErrUnhealthy, driver.ErrClosed}
	if !slices.ContainsFunc(reasons, func(r error) bool { return errors.Is(cause, r) }) {
		s.Errorf("the cause of a mandate's end is %q, which matches none of the reasons of package driver", cause)
	}
	if m.Check() == nil {
		s.Errorf("Check returns nil after the end of the mandate (%v)", cause)
	}
	if d, bounded := m.Remaining(); bounded && d != 0 {
		s.Errorf("Remaining is %v after the end of the mandate", d)
	}
}

// still checks that no other participant wins while a condition holds.
func (s *suite) still(p Participant, d time.Duration, why string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if m, err := campaign(ctx, p); err == nil {
		s.Errorf("%s won with token %v although %s", "another", m.Token(), why)
		s.release(m)
	}
}

// hangsUnnoticed reports whether leadership lasts as long as its process, even if that makes no
// progress.
func hangsUnnoticed(p Participant) bool { return p.Limits().Takeover == 0 }
