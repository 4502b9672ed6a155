//go:build linux

package group

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
)

// TestWitnessed: no witness speaks while work goes on that no keeper has, nor by a file that a process was writing when
// it died.
func TestWitnessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(2) })
		w.member("m2", func(c *Config) { c.Observer = true })
		campaign := func(name string) *mandate {
			m, err := a.Elector(name).Campaign(t.Context(), driver.Candidacy{Exclusive: true})
			if err != nil {
				t.Fatal(err)
			}
			return m.(*mandate)
		}
		m := campaign("nightly")
		left := m.Testament()
		if len(left.Data) == 0 || len(left.Keep) != 1 {
			t.Fatalf("the testament is %q, with %d files; want one", left.Data, len(left.Keep))
		}
		bare := func() int {
			t.Helper()
			e, err := findRemains(a.process)
			if err != nil {
				t.Fatal(err)
			}
			return e.Bare
		}
		speak := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			speak, err := Witness(WitnessConfig{})(ctx, left.Data)
			if err != nil {
				t.Fatal(err)
			}
			return speak(ctx)
		}
		if n := bare(); n != 0 {
			t.Errorf("%d pieces of bare work; want none, because a keeper has that of the election", n)
		}
		stop := a.run(h) // without a guardian
		w.until("both shards", 10*time.Second, func() bool { return h.total() == 2 })
		if n := bare(); n == 0 {
			t.Error("work of shards goes on that no keeper has, and the file does not say so")
		}
		if err := speak(); err == nil || !strings.Contains(err.Error(), "want a guardian of all its work") {
			t.Errorf("the witness says %v; want that it does not speak", err)
		}
		stop()
		if n := bare(); n != 0 {
			t.Errorf("%d pieces of bare work after the shards; want none", n)
		}
		next := campaign("hourly")
		if n := bare(); n == 0 {
			t.Error("an election has no keeper yet, and the file does not say so")
		}
		_ = next.Release(t.Context())
		if n := bare(); n != 0 {
			t.Errorf("%d pieces of bare work after a release; want none", n)
		}
		if _, err := left.Keep[0].WriteAt([]byte(`{"bare"`), 9); err != nil {
			t.Fatal(err)
		}
		if err := speak(); err == nil || !strings.Contains(err.Error(), "while it wrote what") {
			t.Errorf("the witness says %v of a file that is not whole; want that it does not speak", err)
		}
		_ = m.Release(t.Context())
		if left := m.Testament(); left.Data != nil || left.Keep != nil {
			t.Errorf("a mandate that was released has the testament %s", left.Data)
		}
	})
}

// TestReturnsWriteNothing: the end of work that a keeper has changes nothing for a witness, and writes nothing.
func TestReturnsWriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorld(t).member("m1", nil)
		left := a.witnessed.testament(nil)
		before := make([]byte, 1)
		if _, err := left.Keep[0].WriteAt([]byte("?"), 0); err != nil {
			t.Fatal(err)
		}
		a.witnessed.settle(&tenure{})
		if _, err := left.Keep[0].ReadAt(before, 0); err != nil || string(before) != "?" {
			t.Errorf("the file begins with %q, %v; want what was there", before, err)
		}
		work := &tenure{}
		a.witnessed.bare(work)
		if e, err := findRemains(a.process); err != nil || e.Bare != 1 {
			t.Errorf("bare work: %+v, %v", e, err)
		}
		a.witnessed.settle(work)
		a.witnessed.settle(work)
		if e, err := findRemains(a.process); err != nil || e.Bare != 0 {
			t.Errorf("after bare work: %+v, %v", e, err)
		}
	})
}
