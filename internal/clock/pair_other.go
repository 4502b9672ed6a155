//go:build !linux

package clock

// readPair reads the one clock that there is. A machine that sleeps is not
// noticed here.
func readPair() (p Pair, apart Boot) {
	now := Now()
	return Pair{Boot: now, Mono: now}, 0
}
