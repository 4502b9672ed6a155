package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
)

// dead reads the testament of a leader.
func dead(t *testing.T, m driver.Mandate) *drive.Deceased {
	t.Helper()
	left := m.(driver.Attestable).Testament()
	if len(left.Keep) != 1 {
		t.Errorf("%d files to keep; want one", len(left.Keep))
	}
	d, err := drive.ReadTestament(left.Data)
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "e" || d.URL.String() != source.String() || d.URL.User.String() != source.User.String() {
		t.Errorf("the testament is of %s at %s; want e at %s", d.Name, d.URL, source)
	}
	return d
}

// TestFree: when a leader is dead, the next one leads at once, without its hold-off, if its tenure is freed for it.
// What the dead one has sent and comes late changes nothing, and to free that tenure again does not touch the next one.
func TestFree(t *testing.T) {
	for lost := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			a, b := open(t, s, 0, "e", "a"), open(t, s, 0, "e", "b")
			defer closed(t, a)
			defer closed(t, b)
			m, _ := win(t, a)
			d := dead(t, m)
			won := make(chan driver.Mandate, 1)
			go func() {
				n, _ := win(t, b)
				won <- n
			}()
			time.Sleep(10 * time.Second)
			a.Cut(true) // a renewal that it sends now is carried out when the line is healed
			time.Sleep(1 * time.Second)
			l := &line{store: s}
			l.Lose(lost)
			begun := time.Now()
			if err := queue.Free(t.Context(), l, d); err != nil {
				t.Fatal(err)
			}
			n := <-won
			if took := time.Since(begun); lost == 0 && took > 100*time.Millisecond {
				t.Errorf("the next one leads after %v; want after some requests", took)
			}
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			a.Cut(false)
			if err := queue.Free(t.Context(), &line{store: s}, d); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
			if err := n.Check(); err != nil {
				t.Errorf("%v; want the next one to lead on", err)
			}
			if m.Check() == nil {
				t.Error("the first one leads again")
			}
			release(t, m)
			release(t, n)
			if left := n.(driver.Attestable).Testament(); left.Data != nil || left.Keep != nil {
				t.Errorf("a mandate that was released has the testament %s", left.Data)
			}
		})
	}
}

// TestFreeInTrouble: a store that does not answer is asked a few times, and not after the end of the context.
func TestFreeInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := open(t, s, 0, "e", "a")
		defer closed(t, a)
		m, _ := win(t, a)
		d := dead(t, m)
		const many = 1000
		l := &line{store: s}
		l.Lose(many)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := queue.Free(ctx, l, d); !errors.Is(err, storetest.ErrLost) {
			t.Errorf("%v; want what the store said", err)
		}
		if took := time.Since(begun); took != time.Second || many-l.Losing() > 6 {
			t.Errorf("%d requests in %v; want a few in a second", many-l.Losing(), took)
		}
		release(t, m)
	})
}
