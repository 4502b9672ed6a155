package compare

import (
	"math/bits"
	"time"
)

// histogram counts times, each to within a thousandth or a microsecond: its
// counts add up to the same whatever their order, and it does not grow.
type histogram struct {
	counts [buckets]uint64
	total  uint64
	most   time.Duration // exactly
}

// A bucket is a microsecond wide below fine, and above that a fineth of the octave
// that it is in, the last of which ends at a year.
const (
	fineBits = 10
	fine     = 1 << fineBits
	octaves  = 36
	buckets  = octaves * fine
)

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.total++
	h.most = max(h.most, d)
}

func (h *histogram) join(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.most = max(h.most, o.most)
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0) / time.Microsecond)
	octave := max(bits.Len64(v)-fineBits-1, 0)
	return min(octave<<fineBits+int(v>>octave), buckets-1)
}

// value is the middle of a bucket.
func value(i int) time.Duration {
	if i < 2*fine {
		return time.Duration(i) * time.Microsecond
	}
	octave := i>>fineBits - 1
	low := uint64(i-octave<<fineBits) << octave
	return time.Duration(low+1<<octave>>1) * time.Microsecond
}

// quantile is that of a part of a thousand, by the nearest rank; false if nothing
// was counted.
func (h *histogram) quantile(perMille uint64) (time.Duration, bool) {
	if h.total == 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(h.total, perMille)
	rank, rest := bits.Div64(hi, lo, 1000)
	if rest > 0 {
		rank++
	}
	if rank >= h.total {
		return h.most, true
	}
	rank = max(rank, 1)
	for i, n := range h.counts {
		if rank <= n {
			return min(value(i), h.most), true
		}
		rank -= n
	}
	return h.most, true
}
