package check

import "testing"

// BenchmarkExplore measures the speed of an exploration on one core, and the bytes a state.
func BenchmarkExplore(b *testing.B) {
	for _, w := range []World{
		{Name: "async", Mode: Async, Nodes: 3, Terms: 3, Messages: 4, Fires: 2},
		{Name: "timed", Mode: Timed, Nodes: 3, Terms: 2, Messages: 2, Fires: 2, Hints: 1, Ticks: 5, Candidates: 2, Rates: []int{80, 120}, Begin: Apart},
	} {
		b.Run(w.Name, func(b *testing.B) {
			states, bytes := uint64(0), 0.0
			for b.Loop() {
				r, err := Explore(w, Options{})
				if err != nil || r.Ending != Exhausted {
					b.Fatal(r, err)
				}
				states += r.States
				bytes = r.PerState()
			}
			b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
			b.ReportMetric(bytes, "bytes/state")
			b.ReportMetric(float64(states)/float64(b.N), "states")
		})
	}
}
