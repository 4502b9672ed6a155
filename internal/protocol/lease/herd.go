package lease

import (
	"math/bits"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// purpose is what a random word is drawn for. Each input has one word; each purpose derives another
// value from it.
type purpose uint64

const (
	forHerd purpose = iota + 1
	forPoll
	forPause
	forWatch
)

// draw mixes a word for one purpose (the finalizer of Steele, Lea and Flood's
// SplitMix, 2014).
func draw(word uint64, p purpose) uint64 {
	z := word + uint64(p)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// around returns a time that is uniform between a half and three halves of d.
func around(d time.Duration, word uint64) time.Duration {
	hi, _ := bits.Mul64(word, uint64(d))
	return d/2 + time.Duration(hi)
}

// logThousand is log₂ 1000 in units of 2⁻¹⁶.
const logThousand = 653_118

// herd is L10: J·max(0, 1 + ln u / ln 1000) with u uniform in (0, 1). The number of candidates that
// have begun grows 1000-fold over J, so that among few the first does not wait for J, and among
// 1,000 only some begin within a round trip. It uses integers, so that every processor draws the
// same.
func herd(j time.Duration, word uint64) time.Duration {
	const whole = 64 << 16
	lack := whole - log2(word|1) // −log₂ u
	if lack >= logThousand {
		return 0
	}
	return time.Duration(int64(j)/logThousand*(logThousand-lack) + int64(j)%logThousand*(logThousand-lack)/logThousand)
}

// log2 is the binary logarithm of x ≥ 1 in units of 2⁻¹⁶, rounded down.
func log2(x uint64) int64 {
	n := bits.Len64(x) - 1
	m := x << (63 - n) >> 32 // in [2³¹, 2³²): the mantissa, 1 is 2³¹
	log := int64(n)
	for range 16 {
		m = m * m >> 31
		log <<= 1
		if m >= 1<<32 {
			log |= 1
			m >>= 1
		}
	}
	return log
}

// after is i plus d without overflow.
func after(i protocol.Instant, d time.Duration) protocol.Instant {
	switch sum := i.Add(d); {
	case d > 0 && sum < i:
		return protocol.Never
	case d < 0 && sum > i:
		return protocol.Always
	default:
		return sum
	}
}
