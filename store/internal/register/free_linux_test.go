package register_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
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

// asked counts the requests, and runs before once, ahead of a write.
type asked struct {
	register.Register
	requests int
	before   func()
}

func (c *asked) Read(ctx context.Context) (register.Kept, error) {
	c.requests++
	return c.Register.Read(ctx)
}

func (c *asked) Write(ctx context.Context, version, text string) (register.Kept, error) {
	c.requests++
	if do := c.before; do != nil {
		c.before = nil
		do()
	}
	return c.Register.Write(ctx, version, text)
}

// TestFree: when a leader is dead, the next one leads at once if its tenure is freed for it. What the dead one has
// sent and comes late changes nothing, and to free that tenure again does not touch the next one.
func TestFree(t *testing.T) {
	for lost := range 3 {
		synctest.Test(t, func(t *testing.T) {
			k := &kept{incarnation: "1"}
			a, b := open(t, k, 0, "e", "a"), open(t, k, 0, "e", "b")
			defer closed(t, a)
			defer closed(t, b)
			m := leads(t, a)
			d := dead(t, m)
			time.Sleep(3 * time.Second) // so that there was more than one renewal
			a.Cut(true)                 // a renewal that it sends now lands when the line is healed
			won := make(chan driver.Mandate, 1)
			go func() { won <- leads(t, b) }()
			time.Sleep(100 * time.Millisecond)
			l := newLine(k)
			l.Lose(lost)
			begun := time.Now()
			if err := register.Free(t.Context(), l, d); err != nil {
				t.Fatal(err)
			}
			n := <-won
			if took := time.Since(begun); lost == 0 && took > 500*time.Millisecond {
				t.Errorf("the next one leads after %v; want after a poll", took)
			}
			if n.Token() <= m.Token() {
				t.Errorf("token %v after %v", n.Token(), m.Token())
			}
			a.Cut(false)
			if err := register.Free(t.Context(), newLine(k), d); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
			if err := n.Check(); err != nil {
				t.Errorf("%v; want the next one to lead on", err)
			}
			if m.Check() == nil {
				t.Error("the first one leads again")
			}
			for _, m := range []driver.Mandate{m, n} {
				if err := m.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFreeAfterLateRenewal: a renewal of the dead leader that lands between the read and the write is replaced too.
func TestFreeAfterLateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := open(t, k, 0, "e", "a")
		defer closed(t, a)
		m := leads(t, a)
		d := dead(t, m)
		r := &asked{Register: newLine(k), before: func() {
			if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil {
				t.Error(err)
			}
			a.Cut(true)
		}}
		if err := register.Free(t.Context(), r, d); err != nil {
			t.Error(err)
		}
		if text := k.get().Text; strings.Contains(text, `"metadata"`) || !strings.Contains(text, `"freed":{"holder":"a"`) {
			t.Errorf("the record is %s; want it free", text)
		}
		if r.requests != 4 {
			t.Errorf("%d requests; want two reads and two writes", r.requests)
		}
		a.Cut(false)
		_ = m.Release(t.Context()) // it is lost
	})
}

// TestFreeTouchesNoOther: the tenure of another, a later one of the same participant, no record, and a record that is
// not elect's are left alone, without a write.
func TestFreeTouchesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := open(t, k, 0, "e", "a")
		defer closed(t, a)
		m := leads(t, a)
		d := dead(t, m)
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if left := m.(driver.Attestable).Testament(); left.Data != nil || left.Keep != nil {
			t.Errorf("a mandate that was released has the testament %s", left.Data)
		}
		later := leads(t, a)
		for _, text := range []string{k.get().Text, "", "nonsense"} {
			k.set(text, "1")
			r := &asked{Register: newLine(k), before: func() { t.Errorf("it writes over %q", text) }}
			if err := register.Free(t.Context(), r, d); err != nil || r.requests != 1 {
				t.Errorf("%q: %v after %d requests; want nothing to be done after one read", text, err, r.requests)
			}
		}
		_ = later.Release(t.Context())
	})
}

// TestFreeInTrouble: a store that does not answer is asked a few times, and not after the end of the context.
func TestFreeInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{incarnation: "1"}
		a := open(t, k, 0, "e", "a")
		defer closed(t, a)
		m := leads(t, a)
		d := dead(t, m)
		l := newLine(k)
		l.Lose(1000)
		r := &asked{Register: l}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := register.Free(ctx, r, d); !errors.Is(err, storetest.ErrLost) {
			t.Errorf("%v; want what the store said", err)
		}
		if took := time.Since(begun); took != time.Second || r.requests > 6 {
			t.Errorf("%d requests in %v; want a few in a second", r.requests, took)
		}
		if err := m.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
