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
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// unusable is a register whose reads show a version that no write replaces, while it is on.
type unusable struct {
	*line
	on             atomic.Bool
	once           bool // until the first write
	reads, refused atomic.Int32
}

func (u *unusable) Read(ctx context.Context) (register.Kept, error) {
	u.reads.Add(1)
	k, err := u.line.Read(ctx)
	if u.on.Load() && k.Version != "" {
		k.Version = "unusable"
	}
	return k, err
}

func (u *unusable) Write(ctx context.Context, version, text string) (register.Kept, error) {
	if version != "unusable" {
		return u.line.Write(ctx, version, text)
	}
	u.refused.Add(1)
	if u.once {
		u.on.Store(false)
	}
	return register.Kept{}, fmt.Errorf("%w: %w: it is torn", register.ErrNotSent, register.ErrConflict)
}

// TestUnusableVersion: a candidate that has read a version which cannot be replaced reads again, and not in haste. When
// it reads another one, it leads.
func TestUnusableVersion(t *testing.T) {
	for name, once := range map[string]bool{"once": true, "for long": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &kept{incarnation: "1"}
				a := open(t, k, 0, "e", "a")
				m, err := campaign(t, a, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				closed(t, a)
				l := newLine(k)
				u := &unusable{line: l, once: once}
				u.on.Store(true)
				b := participant(t, l, u, 0, "e", "b")
				defer closed(t, b)
				if !once {
					begun := time.Now()
					if _, err := campaign(t, b, time.Minute); err == nil || time.Since(begun) > 2*time.Minute {
						t.Fatalf("%v after %v; want nobody to lead", err, time.Since(begun))
					}
					if n := u.refused.Load(); n < 2 || n > 2000 || u.reads.Load() > n+100 {
						t.Errorf("%d writes and %d reads in a minute; want pauses between them", n, u.reads.Load())
					}
					u.on.Store(false)
				}
				n, err := campaign(t, b, time.Minute)
				if err != nil {
					t.Fatalf("%v, after %d reads and %d writes of a version that is not there any more", err, u.reads.Load(), u.refused.Load())
				}
				if n.Token() <= m.Token() {
					t.Errorf("token %v after %v", n.Token(), m.Token())
				}
			})
		})
	}
}

// sighted is a register whose watch shows what a test says.
type sighted struct {
	*line
	late chan register.Kept
}

var _ register.Sighter = sighted{}

func (s sighted) Sight(ctx context.Context, seen func(register.Kept)) {
	for {
		select {
		case k := <-s.late:
			seen(k)
		case <-ctx.Done():
			return
		}
	}
}

// TestVersionForgotten: a leader whose own version was forgotten for late ones of a watch reads, and leads on. If
// another one has taken its place, it does not.
func TestVersionForgotten(t *testing.T) {
	for name, replaced := range map[string]bool{"its own": false, "another's": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &kept{incarnation: "1"}
				l := newLine(k)
				s := sighted{l, make(chan register.Kept)}
				e, err := register.New(s, register.Config{Config: drive.Config{Name: "e", ID: "a", Now: storetest.Now}, Lease: 10 * time.Second, MaxLease: 10 * time.Second, Assumes: "a test"})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				won := make(chan driver.Mandate)
				go func() {
					m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
					if err != nil {
						t.Error(err)
					}
					won <- m
				}()
				time.Sleep(5 * time.Second) // the record was made, and is free
				free := k.get()
				m := <-won
				for i := range 9 {
					s.late <- register.Kept{Text: free.Text, Version: fmt.Sprint("late", i), Store: free.Store}
				}
				if replaced {
					k.set(strings.Replace(k.get().Text, `"holder":"a"`, `"holder":"b"`, 1), "1")
				}
				err = m.(driver.Confirmer).Confirm(ctx)
				if !replaced && (err != nil || m.Check() != nil) {
					t.Errorf("%v, %v; want it to lead on", err, m.Check())
				}
				if replaced && (err == nil || !errors.Is(m.Check(), driver.ErrSuperseded)) {
					t.Errorf("%v, %v; want it to have lost to another one", err, m.Check())
				}
			})
		})
	}
}
