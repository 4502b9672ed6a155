package group

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// unclockedPlace is an election that depends on no clock, and counts its observers.
type unclockedPlace struct {
	*memory.Elector
	observers *atomic.Int32
}

func (p unclockedPlace) Limits() driver.Limits {
	l := p.Elector.Limits()
	l.Lease, l.MinLease, l.MaxLease = 0, 0, 0
	return l
}

func (p unclockedPlace) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		p.observers.Add(1)
		defer p.observers.Add(-1)
		p.Elector.Watch(ctx)(yield)
	}
}

// TestSight: members observe an election that depends on no clock while no coordinator answers, and only then. Whether
// the coordinator dies or freezes, the others find the next one before their claims end.
func TestSight(t *testing.T) {
	for what, fault := range map[string]func(*part){"dies": (*part).crash, "freezes": func(p *part) { p.freeze(true) }} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var observers atomic.Int32
				w.place = func(e *memory.Elector) driver.Elector { return unclockedPlace{e, &observers} }
				h := newHolding(t)
				for i := range 3 {
					w.member(name(i), func(c *Config) { c.Keys, c.Promise = Range(9), 3*time.Second }).run(h)
				}
				calm := func() bool { return h.total() == 9 && observers.Load() == 0 }
				w.until("all to be held, and nobody to observe", time.Minute, calm)
				for range 100 {
					if <-time.After(100 * time.Millisecond); !calm() {
						t.Fatalf("%d keys are held, %d members observe; want 9 and none", h.total(), observers.Load())
					}
				}

				var first *part
				for _, p := range w.all {
					if p.Measure().Coordinates {
						first = p
					}
				}
				fault(first)
				defer first.freeze(false)
				w.until("another coordinator", time.Minute, func() bool {
					for _, p := range w.all {
						if p != first && p.Measure().Coordinates {
							return true
						}
					}
					return false
				})
				w.until("all to be held, and nobody else to observe", time.Minute, func() bool {
					return h.total() == 9 && h.count()[first.id] == 0 && observers.Load() <= 1
				})
				for _, p := range w.all {
					if n := p.Counts().Lapsed; p != first && n != 0 {
						t.Errorf("%s has lost its keys %d times", p.id, n)
					}
				}
			})
		})
	}
}
