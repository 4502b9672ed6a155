package peer

import (
	"fmt"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/long"
)

// TestClassicForReal: each protocol over TCP, as a client sees it: a node is elected and asked to resign, and the next
// leader is closed. An epoch rises above those that its winner has heard of, which need not be all. A term of a
// protocol that votes always rises.
func TestClassicForReal(t *testing.T) {
	long.Test(t, "seven protocols take as long as one each")
	t.Parallel()
	for _, k := range classics() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, names("n", 3), nil, false)
			c.change = func(cfg *setup) { cfg.Protocol = k.name }
			c.startAll()
			var game contest
			for _, id := range c.voters {
				defer game.stands(t, c.node(id))()
			}
			cfg := c.config("n1")
			cfg.Logger = nil
			asks, err := newClient(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = asks.Close() })
			if l := asks.Limits(); l.Exclusive || len(l.Abilities) != 1 {
				t.Errorf("the client's limits are %+v", l)
			}
			later := func(l, than *driver.Leader) bool {
				return l.ID != than.ID && (l.Token > than.Token || l.Token == than.Token && !k.quorate)
			}
			led := func(what string, is func(*driver.Leader) bool) (seen *driver.Leader) {
				t.Helper()
				eventually(t, func() bool {
					for s := range asks.Watch(t.Context()) {
						seen = s.Leader
						break
					}
					return seen != nil && seen.NoLease && is(seen)
				}, func() string { return fmt.Sprintf("%s: it shows %+v", what, seen) })
				return seen
			}
			first := led("first", func(*driver.Leader) bool { return true })
			eventually(t, func() bool { return asks.Resign(t.Context(), first.Token) == nil }, func() string { return "nobody agrees to resign" })
			second := led("after the resignation", func(l *driver.Leader) bool {
				if l.ID == first.ID && l.Token > first.Token { // the others did not run for a while, so it stood again
					first = l
					_ = asks.Resign(t.Context(), first.Token)
				}
				return later(l, first)
			})
			c.stop(c.voters[second.ID[1]-'1'])
			led("after a crash", func(l *driver.Leader) bool { return later(l, second) })
		})
	}
}
