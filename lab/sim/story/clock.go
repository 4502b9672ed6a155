package story

import "github.com/electd/elect/internal/protocol"

// Clock maps what a node's clock shows to the time of the trace, by its recent rate. Its last
// readings are kept: now, and two before that are some time apart.
type Clock struct{ now, mid, old sample }

// sample is a reading of a node's clock.
type sample struct {
	at   int64
	read protocol.Reading
	ok   bool
}

// apart is the least distance of two samples that give a rate, in nanoseconds.
const apart = 50_000_000

// Sampled takes what the node's clocks show at a time.
func (c *Clock) Sampled(at int64, r protocol.Reading) {
	now := sample{at, r, true}
	if c.now.ok && (r.Boot < c.now.read.Boot || r.Jumped(c.now.read)) {
		c.mid, c.old = now, now // it slept, or was set
	}
	if !c.mid.ok || at-c.mid.at >= apart {
		c.old, c.mid = c.mid, now
	}
	c.now = now
}

// Time is when the node's clock shows, or showed, i.
func (c *Clock) Time(i protocol.Instant) int64 {
	left := i.Sub(c.now.read.Boot)
	ref := c.old
	if !ref.ok || ref.at >= c.now.at {
		ref = c.mid
	}
	passed, shown := c.now.at-ref.at, c.now.read.Boot.Sub(ref.read.Boot)
	if ref.ok && passed >= apart/2 && shown > 0 {
		return c.now.at + int64(float64(left)*(float64(passed)/float64(shown)))
	}
	return c.now.at + int64(left)
}
