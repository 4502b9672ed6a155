package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	machine "github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
)

func resign(t *testing.T, p electtest.Participant, within time.Duration, m driver.Mandate) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return p.Elector.(driver.Resigner).Resign(ctx, m.Token())
}

// TestWish: a leader obeys an operator at once, and says so while its work has not returned.
// Lost answers on both sides change nothing.
func TestWish(t *testing.T) {
	for lost := range 4 {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			a, o := open(t, s, 0, "e", "a"), open(t, s, 0, "e", "o")
			defer closed(t, a)
			defer closed(t, o)
			m, _ := win(t, a)
			o.Lose(lost)
			if lost < 3 {
				a.Lose(lost)
			}
			begun := time.Now()
			if err := resign(t, o, time.Minute, m); err != nil {
				t.Errorf("%d answers lost: %v", lost, err)
			}
			if took := time.Since(begun); lost == 0 && took > 200*time.Millisecond {
				t.Errorf("the leader has answered after %v; want at once", took)
			}
			if err := context.Cause(m.Context()); !errors.Is(err, driver.ErrResigned) {
				t.Errorf("it has ended with %v; want ErrResigned", err)
			}
			if err := resign(t, o, time.Second, m); err != nil {
				t.Errorf("asked again: %v", err)
			}
			release(t, m)
			if err := resign(t, o, time.Second, m); !errors.Is(err, driver.ErrNoLeader) {
				t.Errorf("asked after the release: %v; want ErrNoLeader", err)
			}
			n, _ := win(t, a)
			time.Sleep(5 * time.Second)
			if err := n.Check(); err != nil {
				t.Errorf("the wish has ended a later term: %v", err)
			}
			release(t, n)
		})
	}
}

// TestNoWish: what is no wish, and a wish for another tenure, end no term and stop no renewal. What
// is no wish is said once.
func TestNoWish(t *testing.T) {
	for text, warns := range map[string]int{
		"nonsense": 1, "\xff": 1, `{"verb":"pause","count":%d}`: 1, `{"verb":"resign","count":%d,"to":"b"}`: 1, strings.Repeat("x", 1<<20): 1,
		`{"verb":"resign","count":1000}`: 0, `{"verb":"resign","count":%d,"heard":true}`: 0, `{"verb":"resign","count":1}`: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, log := newStore(), &bytes.Buffer{}
			s.revision = 10
			e, err := queue.New(&line{store: s}, queue.Config{
				Config:  drive.Config{Name: "e", ID: "a", Now: storetest.Now, Logger: slog.New(slog.NewTextHandler(log, nil))},
				Machine: machine.Config{Dialect: machine.Etcd, TTL: 4 * time.Second}, Assumes: "a test",
			})
			if err != nil {
				t.Fatal(err)
			}
			a := electtest.Participant{Elector: e}
			m, _ := win(t, a)
			if strings.Contains(text, "%d") {
				text = fmt.Sprintf(text, uint64(m.Token()))
			}
			_ = s.do(func() error {
				s.wish, s.entries[0].changed = text, s.revision+1
				s.commit()
				return nil
			})
			time.Sleep(30 * time.Second)
			if err := m.Check(); err != nil {
				t.Errorf("%.60s: %v; want a leader that leads on", text, err)
			}
			release(t, m)
			closed(t, a)
			if n := strings.Count(log.String(), "is malformed, and is ignored"); n != warns {
				t.Errorf("%.60s: it is said %d times that it is no wish; want %d\n%s", text, n, warns, log)
			}
		})
	}
}

// TestWishInHoldOff: a wish that comes before the term is proven ends it, and the candidate stands
// again behind the others.
func TestWishInHoldOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b, o := open(t, s, 0, "e", "a"), open(t, s, 0, "e", "b"), open(t, s, 0, "e", "o")
		defer closed(t, a)
		defer closed(t, b)
		defer closed(t, o)
		type victory struct {
			id string
			m  driver.Mandate
		}
		won := make(chan victory, 2)
		for id, p := range map[string]electtest.Participant{"a": a, "b": b} {
			go func() {
				m, _ := win(t, p)
				won <- victory{id, m}
			}()
			time.Sleep(100 * time.Millisecond)
		}
		first, _ := s.first()
		if err := o.Elector.(driver.Resigner).Resign(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		v := <-won
		if text := first.Text; strings.Contains(text, `"id":"`+v.id+`"`) {
			t.Errorf("%s leads, which was asked to resign: %s", v.id, text)
		}
		release(t, v.m)
		release(t, (<-won).m)
	})
}

// TestForeignLeader: a leader of another program is not asked, and nothing is written.
func TestForeignLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		other := &line{store: s}
		session, _, err := other.Open(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Enter(t.Context(), session, "host-7:80"); err != nil {
			t.Fatal(err)
		}
		o := open(t, s, 0, "e", "o")
		defer closed(t, o)
		if err := o.Elector.(driver.Resigner).Resign(t.Context(), 0); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "host-7:80") {
			t.Errorf("%v; want ErrUnsupported, with its name", err)
		}
		if e, revision := s.first(); revision != e.Order {
			t.Error("something was written")
		}
	})
}

// first is the first entry, and the store's revision.
func (s *store) first() (e queue.Entry, revision uint64) {
	_ = s.do(func() error { e, revision = s.entries[0].Entry, s.revision; return nil })
	return e, revision
}

// TestDrain: after a resignation the lease is renewed until the work has returned, however long that takes. No other
// participant leads before. An operator who asks meanwhile is answered at the next renewal, with and without a hold.
func TestDrain(t *testing.T) {
	for _, hold := range []time.Duration{2 * time.Second, 0} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			a, b := holding(t, s, 0, "e", "a", hold), holding(t, s, 0, "e", "b", hold)
			defer closed(t, a)
			defer closed(t, b)
			m, _ := win(t, a)
			next := make(chan driver.Mandate, 1)
			go func() {
				n, err := b.Elector.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
				if err != nil {
					t.Error(err)
				}
				next <- n
			}()
			if err := resign(t, a, time.Minute, m); err != nil {
				t.Fatal(err)
			}
			a.Lose(1)
			if err := resign(t, b, 3*time.Second, m); err != nil {
				t.Errorf("asked while its work returns, with a hold of %v: %v", hold, err)
			}
			for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(100 * time.Millisecond) {
				if left, bounded := m.Remaining(); !bounded || left <= 0 {
					t.Fatalf("%v after the resignation %v remains; want the lease renewed", time.Since(begun), left)
				}
			}
			select {
			case <-next:
				t.Fatal("another leads before the work has returned")
			default:
			}
			release(t, m)
			release(t, <-next)
		})
	}
}
