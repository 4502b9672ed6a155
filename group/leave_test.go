package group

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
)

// TestLeaveWithoutACoordinator: a member that leaves while it has no connection with a coordinator says goodbye to the
// next one, so that its keys are free at once; if there is none, Leave says when they will be.
func TestLeaveWithoutACoordinator(t *testing.T) {
	for _, c := range []struct {
		name  string
		heals time.Duration // 0: never
	}{{"heals", 100 * time.Millisecond}, {"never", 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, h := newWorld(t), newHolding(t)
				var all []*part
				for i := range 2 {
					all = append(all, w.member(name(i+1), func(c *Config) { c.Keys, c.Promise = Range(8), 3*time.Second }))
					all[i].run(h)
					w.until("a member more", 30*time.Second, func() bool { return len(h.count()) == i+1 && h.total() == 8 })
				}
				w.net.sever("m2", true)
				if c.heals > 0 {
					time.AfterFunc(c.heals, func() { w.net.sever("m2", false) })
				}
				began := time.Now()
				err := all[1].Leave(t.Context(), 0)
				took := time.Since(began)
				if c.heals == 0 {
					if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "within 3s") || took < time.Second || took > 1100*time.Millisecond {
						t.Errorf("Leave without a coordinator: %v after %v; want an error after a third of the promise that says when the keys are led again", err, took)
					}
					return
				}
				if err != nil || took < c.heals || took > time.Second {
					t.Errorf("Leave: %v after %v; want none soon after %v", err, took, c.heals)
				}
				w.until("m1 to have all keys", 50*time.Millisecond, func() bool { return h.count()["m1"] == 8 })
			})
		})
	}
}

// TestLeaveWithACoordinatorThatDies: a goodbye on a connection that is dead is none.
func TestLeaveWithACoordinatorThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		w.member("m1", nil)
		a := w.member("m2", func(c *Config) { c.Keys, c.Observer = Range(2), true })
		a.run(h)
		w.until("its keys", 10*time.Second, func() bool { return h.total() == 2 })
		w.net.swallow("m2", true)
		if err := a.Leave(t.Context(), 0); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("Leave whose goodbye is swallowed: %v; want an error", err)
		}
	})
}

// TestLeaveWithNothing: a member that no coordinator has ever renewed, or whose claim is over, has nothing to say.
func TestLeaveWithNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alone := w.member("m1", func(c *Config) { c.Observer = true })
		began := time.Now()
		if err := alone.Leave(t.Context(), 0); err != nil || time.Since(began) > 0 {
			t.Errorf("Leave of a member that had no coordinator: %v after %v", err, time.Since(began))
		}
		w.member("m2", nil)
		a := w.member("m3", func(c *Config) { c.Observer = true })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := a.Status(ctx); err != nil {
			t.Fatal(err)
		}
		w.net.sever("m3", true)
		w.until("the end of its claim", 10*time.Second, func() bool { return a.Counts().Lapsed > 0 })
		began = time.Now()
		if err := a.Leave(t.Context(), 0); err != nil || time.Since(began) > 0 {
			t.Errorf("Leave after the end of the claim: %v after %v", err, time.Since(began))
		}
	})
}
