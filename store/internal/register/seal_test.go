package register_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// campaign has a participant stand until it leads, or until a time has passed.
func campaign(t *testing.T, p electtest.Participant, within time.Duration) (driver.Mandate, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return p.Elector.Campaign(ctx, driver.Candidacy{Exclusive: true})
}

func closed(t *testing.T, p electtest.Participant) {
	t.Helper()
	if err := p.Elector.Close(); err != nil {
		t.Error(err)
	}
}

// TestVisibleIsNoProof: the standby that every write waits for takes over, while the old store
// lives on and shows what it does not acknowledge. A leader that read its renewals there would
// lead beside the standby's.
func TestVisibleIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := open(t, k, 0, "e", "a")
		defer closed(t, a)
		was, err := campaign(t, a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, k.standby(), 0, "e", "b")
		defer closed(t, b)
		is, err := campaign(t, b, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := was.Check(); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("%v while another participant leads; want an expired lease", err)
		}
		if is.Token() <= was.Token() {
			t.Errorf("token %v after %v", is.Token(), was.Token())
		}
	})
}

// TestNothingAcknowledged: a store that shows each write and acknowledges none elects nobody, and
// confirms nothing. When it acknowledges again, the election goes on.
func TestNothingAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1", frail: true}
		a := open(t, k, 0, "e", "a")
		defer closed(t, a)
		if m, err := campaign(t, a, 20*time.Second); err == nil {
			t.Fatalf("token %v; want nobody to lead", m.Token())
		}
		frail := func(on bool) { k.mu.Lock(); defer k.mu.Unlock(); k.frail = on }
		frail(false)
		m, err := campaign(t, a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		frail(true)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := m.(driver.Confirmer).Confirm(ctx); err == nil {
			t.Error("a lease is confirmed by a write that was not acknowledged")
		}
		frail(false)
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := campaign(t, a, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// TestSealed: answers that are lost cost no lease: what a read shows is written again, and that is
// acknowledged.
func TestSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := open(t, k, 0, "e", "a")
		defer closed(t, a)
		m, err := campaign(t, a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			a.Lose(1)
			time.Sleep(time.Second)
		}
		if err := m.Check(); err != nil {
			t.Error(err)
		}
	})
}

// stuck is a register whose driver does not return when a context ends.
type stuck struct {
	*line
	on       atomic.Bool
	released chan struct{}
	calls    atomic.Int32
}

func (s *stuck) Read(ctx context.Context) (register.Kept, error) {
	if s.on.Load() {
		s.calls.Add(1)
		<-s.released
	}
	return s.line.Read(ctx)
}

func (s *stuck) Write(ctx context.Context, version, text string) (register.Kept, error) {
	if s.on.Load() {
		s.calls.Add(1)
		<-s.released
	}
	return s.line.Write(ctx, version, text)
}

// TestStuckDriver: calls that do not return are left behind, a few at a time; the lease lapses,
// Close returns, and when the calls return the election goes on.
func TestStuckDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{line: newLine(&kept{incarnation: "1"}), released: make(chan struct{})}
		e, err := register.New(s, register.Config{Config: drive.Config{Name: "e", ID: "a", Now: storetest.Now}, Lease: time.Second, MaxLease: 2 * time.Second, Assumes: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		a := electtest.Participant{Elector: e}
		defer closed(t, a)
		m, err := campaign(t, a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s.on.Store(true)
		time.Sleep(time.Minute)
		if err := m.Check(); !errors.Is(err, driver.ErrExpired) {
			t.Errorf("%v; want an expired lease", err)
		}
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := s.calls.Load(); n != 4 {
			t.Errorf("%d calls are left behind; want 4", n)
		}
		for state := range e.Watch(t.Context()) {
			if !state.Stale || !strings.Contains(fmt.Sprint(state.Cause), "the request has not returned 1s after its end") {
				t.Errorf("%+v; want the trouble with the driver", state)
			}
			break
		}
		s.on.Store(false)
		close(s.released)
		if _, err := campaign(t, a, time.Minute); err != nil {
			t.Error(err)
		}
		s.released = make(chan struct{})
		s.on.Store(true)
		time.Sleep(time.Minute)
		begun := time.Now()
		closed(t, a)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("Close has taken %v", took)
		}
		close(s.released)
	})
}
