package sim

import (
	"math/bits"
	"time"
)

// stream is a source of random words, named after its purpose, so that draws for one purpose do not
// affect those for others. It is a value: its owner keeps it (not a pointer to it) with its other
// state, so that a fork of the world continues with the same words.
//
// It is SplitMix64 (Steele, Lea, Flood 2014) with an increment of its own.
type stream struct{ state, step uint64 }

// Stream is a source of random words, for worlds of other packages.
type Stream = stream

// stream returns the stream of that name at its beginning.
func (w *World) stream(name string) *stream { return NewStream(w.schedule.Seed, name) }

// NewStream returns the stream of that name and seed at its beginning.
func NewStream(seed uint64, name string) *Stream {
	const prime = 1099511628211 // FNV-1a
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * prime
	}
	a := mix(h ^ mix(seed))
	return &stream{state: a, step: mix(a^h) | 1}
}

// mix is SplitMix64's finalizer: a bijection whose every output bit depends on
// every input bit.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 returns 64 random bits.
func (s *stream) Uint64() uint64 {
	s.state += s.step
	return mix(s.state)
}

// Float64 returns a number from 0 to below 1.
func (s *stream) Float64() float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// Below returns a number from 0 to below n.
func (s *stream) Below(n int) int {
	hi, _ := bits.Mul64(s.Uint64(), uint64(n))
	return int(hi)
}

// Between returns a time from least to below most.
func (s *stream) Between(least, most time.Duration) time.Duration {
	hi, _ := bits.Mul64(s.Uint64(), uint64(max(most-least, 1)))
	return least + time.Duration(hi)
}

// Chance reports true with probability p.
func (s *stream) Chance(p float64) bool { return s.Uint64()>>11 < odds(p) }

// odds is a probability in parts of 2⁵³, for comparison with the upper 53 bits of a word.
func odds(p float64) uint64 { return uint64(min(max(p, 0), 1) * (1 << 53)) }

// Exp returns an exponentially distributed time.
func (s *stream) Exp(mean time.Duration) time.Duration { return exponential(s.Uint64(), mean) }

// Tail returns an exponentially distributed time with that mean or, with
// probability tail, one out of the heavy tail. It draws two words.
func (s *stream) Tail(mean time.Duration, tail float64) time.Duration {
	body, chance := s.Uint64(), s.Uint64()
	if chance>>11 < odds(tail) {
		return pareto(body, mean)
	}
	return exponential(body, mean)
}

// longest is the longest delay of the heavy tail, and how late a duplicate may be.
const longest = 3 * time.Second

// pareto turns a word into a time from the Pareto distribution with α = 1.5 from ten means, at most
// longest. The integer cube root makes it the same on every processor.
func pareto(word uint64, mean time.Duration) time.Duration {
	u := word>>48 + 1 // 2⁻¹⁶ to 1, in units of 2⁻¹⁶
	// (1/u)^(2/3) in units of 2⁻¹⁰: the cube root of 2⁶²/u².
	cube := uint64(1<<62) / (u * u)
	k := uint64(0)
	for bit := uint64(1) << 20; bit > 0; bit >>= 1 {
		if n := k | bit; n*n*n <= cube {
			k = n
		}
	}
	hi, lo := bits.Mul64(uint64(10*max(mean, 0)), k)
	if hi != 0 {
		return longest
	}
	return min(time.Duration(lo>>10), longest)
}
