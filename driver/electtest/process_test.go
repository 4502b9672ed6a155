//go:build unix

package electtest_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
)

// The in-memory store is local to its process, so each of these participants has its own: the tests
// are about the calls and their results.

const patience = 20 * time.Second

func spawn(t *testing.T, lease time.Duration) electtest.Participant {
	t.Helper()
	return electtest.Spawn(t, "memory:?lease="+lease.String(), "spawned", "p1")
}

func win(t *testing.T, p electtest.Participant) driver.Mandate {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true, Metadata: map[string]string{"at": "10.0.0.1:80"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ended(t *testing.T, m driver.Mandate) error {
	t.Helper()
	select {
	case <-m.Context().Done():
		return context.Cause(m.Context())
	case <-time.After(patience):
		t.Fatal("the context of the mandate does not end")
		return nil
	}
}

func TestSpawnedLeader(t *testing.T) {
	p := spawn(t, patience)
	if l := p.Limits(); l.Lease != patience || !l.Exclusive || l.Assumes == "" {
		t.Errorf("Limits came over as %+v", l)
	}
	m := win(t, p)
	if m.Token() != 1 {
		t.Errorf("token %v; want 1", m.Token())
	}
	if err := m.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
	if d, bounded := m.Remaining(); !bounded || d <= 0 || d > patience {
		t.Errorf("Remaining is %v, %v", d, bounded)
	}
	if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil {
		t.Errorf("Confirm: %v", err)
	}
	for s, err := range p.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Leader == nil || s.Leader.ID != "p1" || s.Leader.Token != 1 || !maps.Equal(s.Leader.Metadata, map[string]string{"at": "10.0.0.1:80"}) {
			t.Errorf("observed %+v", s)
		}
		break
	}
	if err := m.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if cause := ended(t, m); !errors.Is(cause, driver.ErrResigned) {
		t.Errorf("the mandate ended with %v; want ErrResigned", cause)
	}
	if err := m.Check(); !errors.Is(err, driver.ErrResigned) {
		t.Errorf("Check of a released mandate: %v; want ErrResigned", err)
	}
}

func TestSpawnedLeaderIsRecalledAndTransfers(t *testing.T) {
	p := spawn(t, patience)
	r := p.Elector.(driver.Resigner)
	if err := r.Resign(t.Context(), 0); !errors.Is(err, driver.ErrNoLeader) {
		t.Errorf("Resign of nobody: %v; want ErrNoLeader", err)
	}
	m := win(t, p)
	if err := r.Resign(t.Context(), 9); !errors.Is(err, driver.ErrSuperseded) {
		t.Errorf("Resign of another token: %v; want ErrSuperseded", err)
	}
	if err := r.Resign(t.Context(), m.Token()); err != nil {
		t.Errorf("Resign: %v", err)
	}
	if cause := ended(t, m); !errors.Is(cause, driver.ErrResigned) {
		t.Errorf("the mandate ended with %v; want ErrResigned", cause)
	}
	if err := m.(driver.MandateTransferrer).Transfer(t.Context(), "p1"); err != nil {
		t.Errorf("Transfer: %v", err)
	}
	if next := win(t, p); next.Token() != 2 {
		t.Errorf("token %v after a transfer; want 2", next.Token())
	}
}

func TestSpawnedCandidateIsCancelled(t *testing.T) {
	p := spawn(t, patience)
	win(t, p) // and keeps it
	why := errors.New("had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if _, err := p.Campaign(ctx, driver.Candidacy{Exclusive: true}); !errors.Is(err, why) {
		t.Errorf("a cancelled Campaign returned %v; want the cause of its context", err)
	}
}

// A frozen process does not answer; when it resumes, its lease has run out.
func TestSpawnedLeaderIsFrozen(t *testing.T) {
	p := spawn(t, 400*time.Millisecond)
	m := win(t, p)
	p.Freeze(true)
	answer := make(chan error, 1)
	go func() { answer <- m.Check() }()
	select {
	case err := <-answer:
		t.Errorf("a stopped process answered %v", err)
	case <-time.After(500 * time.Millisecond): // longer than its lease
	}
	p.Freeze(false)
	select {
	case err := <-answer:
		if !errors.Is(err, driver.ErrExpired) {
			t.Errorf("Check after the lease ran out returned %v; want ErrExpired", err)
		}
	case <-time.After(patience):
		t.Fatal("the process does not go on")
	}
	if cause := ended(t, m); !errors.Is(cause, driver.ErrExpired) {
		t.Errorf("the mandate ended with %v; want ErrExpired", cause)
	}
}

func TestSpawnedLeaderCrashes(t *testing.T) {
	p := spawn(t, patience)
	m := win(t, p)
	watched := make(chan error, 1)
	seen := make(chan struct{}, 10)
	go func() {
		for _, err := range p.Watch(t.Context()) {
			if err != nil {
				watched <- err
				return
			}
			seen <- struct{}{}
		}
		watched <- nil
	}()
	select {
	case <-seen:
	case <-time.After(patience):
		t.Fatal("no first state")
	}
	p.Crash()
	if cause := ended(t, m); !errors.Is(cause, driver.ErrClosed) {
		t.Errorf("the mandate of a killed process ended with %v; want ErrClosed", cause)
	}
	if m.Check() == nil {
		t.Error("the mandate of a killed process is proven")
	}
	if _, err := p.Campaign(t.Context(), driver.Candidacy{}); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Campaign in a killed process returned %v; want ErrClosed", err)
	}
	select {
	case err := <-watched:
		if err != nil {
			t.Errorf("observing a killed process ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("observing a killed process does not end")
	}
}

func TestSpawnedElectorCloses(t *testing.T) {
	p := spawn(t, patience)
	m := win(t, p)
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if cause := ended(t, m); !errors.Is(cause, driver.ErrClosed) {
		t.Errorf("the mandate ended with %v; want ErrClosed", cause)
	}
	if _, err := p.Campaign(t.Context(), driver.Candidacy{}); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Campaign after Close returned %v; want ErrClosed", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
