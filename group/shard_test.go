package group

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestShards: keys are spread over the members that are there, each is held by one of them, and who joins or leaves
// moves no more than it has to.
func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWorld(t), newHolding(t)
		keys := func(c *Config) { c.Keys = Range(30) }
		a := w.member("m1", keys)
		stopA := a.run(h)
		w.until("all keys at m1", 10*time.Second, func() bool { return h.count()["m1"] == 30 })
		b, c := w.member("m2", keys), w.member("m3", keys)
		b.run(h)
		c.run(h)
		w.until("ten keys each", 10*time.Second, func() bool {
			n := h.count()
			return n["m1"] == 10 && n["m2"] == 10 && n["m3"] == 10
		})
		if h.begun > 30+30 { // 25 at best; a key that arrives while another member does may move on
			t.Errorf("work began %d times; want 30 and at most 30 moves", h.begun)
		}
		stopA()
		w.until("fifteen keys each", 10*time.Second, func() bool {
			n := h.count()
			return n["m2"] == 15 && n["m3"] == 15
		})
		for _, p := range []*part{a, b, c} {
			if n := p.Counts(); n.Lapsed+n.Overruns > 0 {
				t.Errorf("%s: %+v", p.id, n)
			}
		}
	})
}
