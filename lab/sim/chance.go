package sim

import (
	"math/bits"
	"time"
)

// Draws use integers only: the logarithms of package math differ in their last bit from one
// processor to the next, and a run must not.

// exponential turns 64 random bits into an exponentially distributed time with
// that mean: −ln(u)·mean, at most about 44 means. It is monotone in mean.
func exponential(word uint64, mean time.Duration) time.Duration {
	if mean <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(negLog(word), uint64(mean))
	return time.Duration(hi<<(64-logBits) | lo>>logBits)
}

// logUniform turns 64 random bits into a time from least to most, so that each
// octave between them is equally likely.
func logUniform(word uint64, least, most time.Duration) time.Duration {
	least = max(least, 1)
	if most <= least {
		return least
	}
	octaves := uint64(bits.Len64(uint64(most/least) - 1))
	octaves = max(octaves, 1)
	octave, rest := bits.Mul64(word, octaves)
	low := least << octave
	within, _ := bits.Mul64(rest, uint64(low))
	return min(low+time.Duration(within), most)
}

// logBits is how many bits of negLog's result are behind the point.
const logBits = 32

// negLog is −ln((word+1)/2⁶⁴) in fixed point.
func negLog(word uint64) uint64 {
	if word++; word == 0 {
		return 0
	}
	// log2 bit by bit: squaring the mantissa, which is in [1, 2), doubles its
	// logarithm.
	zeros := bits.LeadingZeros64(word)
	m := word << zeros
	log2 := uint64(63 - zeros)
	for range 24 {
		hi, lo := bits.Mul64(m, m)
		log2 <<= 1
		if hi >= 1<<63 {
			log2 |= 1
			m = hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	neg := uint64(64)<<24 - log2 // log2(2⁶⁴/word), 24 bits behind the point
	const ln2 = 2977044472       // ln 2 · 2³²
	hi, lo := bits.Mul64(neg, ln2)
	return hi<<40 | lo>>24
}
