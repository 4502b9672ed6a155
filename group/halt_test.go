package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestHalt: all members stand still for minutes, as when their machine is suspended or their container is stopped, and go
// on one after the other, in any order. Each key is led again, whether the clocks show the sleep or not.
func TestHalt(t *testing.T) {
	const keys = 30
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, sleeps := range []bool{false, true} {
			t.Run(fmt.Sprint(order, sleeps), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, h := newWorld(t), newHolding(t)
					var all []*part
					for i := range 3 {
						p := w.member(name(i+1), func(c *Config) { c.Keys = Range(keys) })
						p.run(h)
						all = append(all, p)
					}
					led := func() bool {
						h.mu.Lock()
						defer h.mu.Unlock()
						n := 0
						for _, s := range h.shards {
							if s.Check() == nil {
								n++
							}
						}
						return n == keys
					}
					w.until("all keys to be led", 30*time.Second, led)
					<-time.After(5 * time.Second)
					for i := range all {
						all[2-i].freeze(true)
						<-time.After(100 * time.Millisecond)
					}
					const halt = 12 * time.Minute
					<-time.After(halt)
					if sleeps {
						w.slept.Add(int64(halt))
					}
					for _, i := range order {
						all[i].freeze(false)
						<-time.After(100 * time.Millisecond)
					}
					w.until("all keys to be led again", 10*time.Second, led)
				})
			})
		}
	}
}

// now is what the clocks of all machines show: while they sleep one of the two stands still.
func (w *world) now() protocol.Reading {
	boot := protocol.Instant(time.Since(w.began))
	return protocol.Reading{Boot: boot, Mono: boot.Add(-time.Duration(w.slept.Load()))}
}
