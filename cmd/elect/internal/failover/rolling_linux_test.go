package failover

import (
	"testing"
	"time"
)

// What counts is the time without a leader before and after the transfer, also of a
// stretch that the transfer is only a part of, and of one that goes on.
func TestWithout(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		seen []struct {
			led bool
			at  time.Duration
		}
		want time.Duration
	}{
		"nothing": {},
		"the transfer alone": {seen: []struct {
			led bool
			at  time.Duration
		}{{true, 10 * ms}, {false, 101 * ms}, {true, 104 * ms}}},
		"before": {[]struct {
			led bool
			at  time.Duration
		}{{true, 10 * ms}, {false, 20 * ms}, {false, 25 * ms}, {true, 30 * ms}, {true, 40 * ms}}, 10 * ms},
		"around it": {[]struct {
			led bool
			at  time.Duration
		}{{true, 10 * ms}, {false, 90 * ms}, {true, 230 * ms}}, 40 * ms},
		"after": {[]struct {
			led bool
			at  time.Duration
		}{{true, 10 * ms}, {false, 300 * ms}, {true, 307 * ms}}, 7 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gaps{stop: func() {}}
			for _, s := range c.seen {
				g.see(s.led, s.at)
			}
			if got := g.without(100*ms, 200*ms); got != c.want {
				t.Errorf("%v without a leader; want %v", got, c.want)
			}
		})
	}
	g := &gaps{stop: func() {}}
	g.see(false, now()-time.Second)
	if got := g.without(0, 0); got < time.Second {
		t.Errorf("%v of a stretch that goes on; want a second at least", got)
	}
}

// A leader that lapsed and was elected again has not led all the time, though it
// has the same id.
func TestSameTenure(t *testing.T) {
	r := tenure{id: "n1", token: 4, pid: 100}
	if err := r.same(r, "n2"); err != nil {
		t.Error(err)
	}
	for _, again := range []tenure{{"n2", 5, 200}, {"n1", 6, 101}, {"n1", 6, 100}, {"n1", 4, 101}} {
		if err := r.same(again, "n2"); err == nil {
			t.Errorf("%v and then %v pass for one", r, again)
		}
	}
}
