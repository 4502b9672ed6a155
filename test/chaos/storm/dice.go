//go:build linux

package storm

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// dice draws the random parts of a schedule. Each purpose has a stream of its own, so that leaving
// one out does not change the others. All draws are of integers: they are the same on every
// computer.
type dice struct {
	*rand.Rand
	seed    uint64
	promise time.Duration
	voters  int
}

// stream is the dice with that name.
func (d *dice) stream(name string) *dice {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, d.seed), name...)) // neighbours among seeds differ in all
	return &dice{Rand: rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:]))), seed: d.seed, promise: d.promise, voters: d.voters}
}

// between draws from lo to hi, both of them possible.
func (d *dice) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

// oneIn is true once in n.
func (d *dice) oneIn(n int) bool { return d.IntN(n) == 0 }

// promises draws a time from lo to hi hundredths of a promise.
func (d *dice) promises(lo, hi int) time.Duration {
	unit := d.promise / 100
	return time.Duration(lo)*unit + time.Duration(d.Int64N(int64(time.Duration(hi-lo)*unit)+1))
}

// time draws a time from lo to hi.
func (d *dice) time(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(d.Int64N(int64(hi-lo)+1))
}

// tail draws a time that is mostly short, a part of a promise, and sometimes long: up to most
// promises. Each doubling has six tenths of the probability of the previous one.
func (d *dice) tail(most int) time.Duration {
	longest := d.promise * time.Duration(most)
	t := d.promise / 8
	for d.IntN(10) < 6 && t < longest {
		t *= 2
	}
	return min(d.time(t/2, t), longest)
}

// order draws a permutation of all voters.
func (d *dice) order() []int { return d.Perm(d.voters) }
