// Package compare measures a guarded operation beside the same one without a guard. It
// belongs to the goroutine of the benchmark, and an operation that fails ends that.
package compare

import (
	"slices"
	"testing"
	"time"
)

// Medians runs both in turns, who is first in turn, too. An operation is done batch times
// in a row and measured as a whole. It reports the medians, each for one operation in
// microseconds (bare-µs, guarded-µs), their difference (adds-µs), and how many guarded ones
// there are in the time of 100 bare ones (percent).
func Medians(b *testing.B, batch int, bare, guarded func() error) {
	b.Helper()
	both := [2]func() error{bare, guarded}
	var times [2][]float64
	measure := func(which int) {
		b.Helper()
		began := time.Now()
		for range batch {
			if err := both[which](); err != nil {
				b.Fatal(err)
			}
		}
		times[which] = append(times[which], float64(time.Since(began).Nanoseconds())/1e3/float64(batch))
	}
	for range 20 { // connections are made, statements prepared, pages read
		measure(0)
		measure(1)
	}
	times = [2][]float64{}
	for first := 0; b.Loop(); first = 1 - first {
		measure(first)
		measure(1 - first)
	}
	var medians [2]float64
	for i, all := range times {
		slices.Sort(all)
		medians[i] = all[len(all)/2]
	}
	b.ReportMetric(0, "ns/op") // of both together: says nothing
	b.ReportMetric(medians[0], "bare-µs")
	b.ReportMetric(medians[1], "guarded-µs")
	b.ReportMetric(medians[1]-medians[0], "adds-µs")
	b.ReportMetric(100*medians[0]/medians[1], "percent")
}
