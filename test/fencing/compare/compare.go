// Package compare measures guarded operations beside the same operations without a guard. It
// belongs to the goroutine of the benchmark, which a failed operation ends.
package compare

import (
	"slices"
	"testing"
	"time"
)

// Form is one way to do an operation.
type Form struct {
	Name string
	Do   func() error
}

// InTurns runs all forms in turns, and each is first in turn, too. A form runs batch times in a
// row, measured as a whole. It reports the median of each, for one operation in microseconds
// (NAME-µs), and for all but the first form also how many run in the time of 100 of the first
// (NAME-percent).
func InTurns(b *testing.B, batch int, forms ...Form) {
	b.Helper()
	times := make([][]float64, len(forms))
	round := func(first int) {
		b.Helper()
		for i := range forms {
			which := (first + i) % len(forms)
			began := time.Now()
			for range batch {
				if err := forms[which].Do(); err != nil {
					b.Fatalf("%s: %v", forms[which].Name, err)
				}
			}
			times[which] = append(times[which], float64(time.Since(began).Nanoseconds())/1e3/float64(batch))
		}
	}
	for range 20 { // connections are made, statements prepared, pages read
		round(0)
	}
	clear(times)
	for first := 0; b.Loop(); first++ {
		round(first)
	}
	b.ReportMetric(0, "ns/op") // the sum of all forms means nothing
	var base float64
	for i, f := range forms {
		slices.Sort(times[i])
		median := times[i][len(times[i])/2]
		b.ReportMetric(median, f.Name+"-µs")
		if i == 0 {
			base = median
			continue
		}
		b.ReportMetric(100*base/median, f.Name+"-percent")
	}
}

// Guarded is [InTurns] for an operation without a guard, and with one.
func Guarded(b *testing.B, batch int, bare, guarded func() error) {
	b.Helper()
	InTurns(b, batch, Form{"bare", bare}, Form{"guarded", guarded})
}
