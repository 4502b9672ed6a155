package group

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

// TestWantsOfOneMember: shards, candidacies and elections that are led are together as many as a coordinator takes: of
// more it would refuse the report, and the member would lose all.
func TestWantsOfOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(MaxKeys - 2) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		campaign := func(name string) (driver.Mandate, error) {
			return a.Elector(name).Campaign(ctx, driver.Candidacy{})
		}
		var won driver.Mandate
		for _, name := range []string{"one", "two"} {
			m, err := campaign(name)
			if err != nil {
				t.Fatal(err)
			}
			won = m
		}
		if _, err := campaign("three"); err == nil || !strings.Contains(err.Error(), "1048576 keys are wanted by this member; want at most 1048576") {
			t.Errorf("one more than %d: %v", MaxKeys, err)
		}
		if err := won.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := campaign("three"); err != nil {
			t.Errorf("after a release: %v", err)
		}
	})
}

// slow is a guardian that needs long to let a session go.
type slow struct{ elect.Guardian }

func (s slow) Lead(g driver.Guarded) (func(), error) {
	return func() { <-time.After(2 * again) }, nil
}

// TestWantedAgain: a key whose work has returned by itself is wanted again, however long the guardian takes.
func TestWantedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", func(c *Config) { c.Keys, c.Guardian = Range(1), slow{} })
		ctx, cancel := context.WithCancel(t.Context())
		var begun atomic.Int32
		var run sync.WaitGroup
		run.Go(func() {
			_ = a.Run(ctx, func(context.Context, *Shard) error { begun.Add(1); return nil })
		})
		w.until("the work to begin again", 20*time.Second, func() bool { return begun.Load() >= 2 })
		cancel()
		run.Wait()
	})
}
