package placement

import (
	"math"
	"math/bits"
)

// hash is FNV-1a with a finish that spreads it over all 64 bits.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finish of splitmix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// cost ranks a member for a key: the smallest is first. It is weighted rendezvous hashing: -log2(u)/weight, with u a
// uniform number that the two hashes give. The logarithm is linear between powers of two, in whole numbers, so that all
// coordinators have the same ranking.
func cost(key uint64, m *member) int64 {
	const fraction = 36
	u := mix(key^m.hash) | 1
	zeros := bits.LeadingZeros64(u)
	log := int64(zeros+1)<<fraction - int64(u<<(zeros+1)>>(64-fraction))
	return log * m.inverse
}

// inverse is what cost multiplies by in place of dividing by the weight.
func inverse(weight int) int64 { return 1 << 20 / int64(weight) }

// share is load·part/whole, without overflow: part and whole are weights.
func share(load int64, part, whole int) int64 {
	p, w := int64(part), int64(whole)
	return load/w*p + load%w*p/w
}

// compare compares x/wx with y/wy; none is negative.
func compare(x int64, wx int, y int64, wy int) int {
	if wx == wy {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	xh, xl := bits.Mul64(uint64(x), uint64(wy))
	yh, yl := bits.Mul64(uint64(y), uint64(wx))
	switch {
	case xh < yh || xh == yh && xl < yl:
		return -1
	case xh > yh || xl > yl:
		return 1
	}
	return 0
}

const never = math.MaxInt64
