package clock

// Pair is a reading of the two clocks of a machine at one moment: Boot counts on while the machine sleeps, Mono
// stands still. Their difference changes only when the machine sleeps or a clock is set.
type Pair struct {
	Boot Boot
	Mono Boot // of the clock that stands still; compare it with its own kind only
}

// tight is how far apart in time the readings of a pair may be, in nanoseconds,
// without another try.
const tight = 50_000

// ReadPair reads both clocks. Between the two readings the thread may lose its processor, which would look as if the
// clocks had come apart. So it reads one clock between two readings of the other, and tries again if those are far
// apart. On systems with one clock both are readings of that one.
func ReadPair() Pair {
	best, apart := readPair()
	for range 8 {
		if apart <= tight {
			break
		}
		if p, d := readPair(); d < apart {
			best, apart = p, d
		}
	}
	return best
}
