package compare

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkRun is one schedule through a protocol.
func BenchmarkRun(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			c, err := newComparison(Options{Protocols: []string{name}, Seeds: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			var events uint64
			var virtual time.Duration
			seed := uint64(1)
			for b.Loop() {
				r, err := c.run(b.Context(), &c.contenders[0], seed)
				if err != nil {
					b.Fatal(err)
				}
				if r.Violation != nil {
					b.Fatal(fmt.Sprint(seed, r.Violation))
				}
				events += r.Events
				virtual += r.Virtual
				seed++
			}
			b.ReportMetric(float64(events)/float64(b.N), "events/op")
			b.ReportMetric(virtual.Seconds()/float64(b.N), "virtual-s/op")
		})
	}
}
