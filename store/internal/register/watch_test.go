package register_test

import (
	"context"
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

// counted counts the requests of a register.
type counted struct {
	register.Watcher
	reads, writes atomic.Int32
}

func (c *counted) Read(ctx context.Context) (register.Kept, error) {
	c.reads.Add(1)
	return c.Watcher.Read(ctx)
}

func (c *counted) Write(ctx context.Context, version, text string) (register.Kept, error) {
	c.writes.Add(1)
	return c.Watcher.Write(ctx, version, text)
}

// slow is a participant whose next read and whose lapse are half an hour away.
func slow(t *testing.T, r register.Register, id string) electtest.Participant {
	t.Helper()
	e, err := register.New(r, register.Config{Config: drive.Config{Name: "e", ID: id, Now: storetest.Now}, Lease: time.Hour, MaxLease: time.Hour, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return electtest.Participant{Elector: e}
}

// TestWatch: a release is seen at once, and renewals wake nobody.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := slow(t, watched{newLine(k)}, "a")
		defer closed(t, a)
		m, err := campaign(t, a, 2*time.Hour) // nothing tells of a leader before it
		if err != nil {
			t.Fatal(err)
		}
		follower := &counted{Watcher: watched{newLine(k)}}
		b := slow(t, follower, "b")
		defer closed(t, b)
		won := make(chan driver.Mandate)
		go func() {
			n, err := campaign(t, b, 2*time.Hour)
			if err != nil {
				t.Error(err)
			}
			won <- n
		}()
		time.Sleep(25 * time.Minute) // it is renewed every 15
		if n := follower.reads.Load(); n != 1 || follower.writes.Load() > 0 {
			t.Errorf("%d reads, %d writes of a follower of which nothing is new; want its first read", n, follower.writes.Load())
		}
		released := time.Now()
		if err := m.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := <-won; n.Token() <= m.Token() {
			t.Errorf("token %v after %v", n.Token(), m.Token())
		}
		if took := time.Since(released); took > time.Second {
			t.Errorf("the next one leads after %v; want it to hear of the release", took)
		}
	})
}

// sharing is a register whose reads at rest wait as long as they may.
type sharing struct {
	watched
	waits chan struct{}
}

var _ register.Sharer = sharing{}

func (s sharing) Shares() bool { return true }

func (s sharing) ReadSoon(ctx context.Context, soon <-chan struct{}) (register.Kept, error) {
	s.waits <- struct{}{}
	select {
	case <-soon:
	case <-ctx.Done():
	}
	return s.Read(ctx)
}

// TestHurried: a read that waits for those of other elections is made at once when there is news.
func TestHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := slow(t, watched{newLine(k)}, "a")
		defer closed(t, a)
		m, err := campaign(t, a, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s := sharing{watched{newLine(k)}, make(chan struct{}, 100)}
		e, err := register.New(s, register.Config{Config: drive.Config{Name: "e", ID: "b", Now: storetest.Now}, Lease: time.Hour, MaxLease: time.Hour, Poll: 8 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		b := electtest.Participant{Elector: e}
		defer closed(t, b)
		won := make(chan driver.Mandate)
		go func() {
			n, err := campaign(t, b, 2*time.Hour)
			if err != nil {
				t.Error(err)
			}
			won <- n
		}()
		<-s.waits
		waited := time.Now() // for a minute
		<-s.waits
		if took := time.Since(waited); took < 5*time.Minute {
			t.Errorf("the next read is due after %v; want half a poll and a minute, or more", took)
		}
		released := time.Now()
		if err := m.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-won
		if took := time.Since(released); took > time.Second {
			t.Errorf("the next one leads after %v; want it to hear of the release", took)
		}
	})
}

// liar makes up a change every millisecond.
type liar struct{ *line }

func (l liar) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		changed()
		<-time.After(time.Millisecond)
	}
}

// TestMadeUp: what a watch tells only has a participant read. It neither writes nor wins, and the
// leader leads on.
func TestMadeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		l := newLine(k)
		a := participant(t, l, liar{l}, 0, "e", "a")
		defer closed(t, a)
		m, err := campaign(t, a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		l = newLine(k)
		follower := &counted{Watcher: liar{l}}
		b := participant(t, l, follower, 0, "e", "b")
		defer closed(t, b)
		if n, err := campaign(t, b, 5*time.Second); err == nil {
			t.Fatalf("token %v beside %v", n.Token(), m.Token())
		}
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		if n := follower.reads.Load(); n < 100 || follower.writes.Load() > 0 {
			t.Errorf("%d reads and %d writes; want reads only", n, follower.writes.Load())
		}
	})
}

// TestCloseWithoutStore: a release for which the store was waited in vain does not hold up Close, too.
func TestCloseWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(&kept{incarnation: "1"})
		a := slow(t, l, "a")
		m, err := campaign(t, a, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		l.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_ = m.Release(ctx)
		began := time.Now()
		if err := a.Elector.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("closing took %v", took)
		}
	})
}
