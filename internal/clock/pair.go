package clock

// Pair is what the two clocks of a machine show at one moment: Boot counts on
// while the machine sleeps, Mono stands still. Their difference changes only when
// the machine slept or a clock was set.
type Pair struct {
	Boot Boot
	Mono Boot // of the clock that stands still; compared with others of its kind only
}

// tight is how far apart in time the readings of a pair may be, in nanoseconds,
// without another try.
const tight = 50_000

// ReadPair reads both clocks. Between the two readings the thread may have lost
// its processor, which would look as if the clocks had come apart; so the reading
// of one is taken between two of the other, and again if they are far apart. It
// takes about 1 µs. Where there is one clock only, both are that.
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
