package play

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/electd/elect/lab/sim"
)

// drawnLanes are tenures by chance, in the order in which they begin, as those of a run are.
func drawnLanes(r *rand.Rand, tenures, places int) []Lane {
	all := make([]Lane, tenures)
	at := sim.Time(0)
	for i := range all {
		at += sim.Time(r.IntN(20))
		l := Lane{Place: r.IntN(places), Believes: sim.Span{From: at, Until: at + sim.Time(r.IntN(60))}}
		for from := at + sim.Time(r.IntN(10)); from < l.Believes.Until; {
			until := from + sim.Time(r.IntN(20))
			l.Proven = append(l.Proven, sim.Span{From: from, Until: until})
			from = until + sim.Time(1+r.IntN(10))
		}
		all[i] = l
	}
	return all
}

// What is found by the order of time is what is found by looking at each two tenures.
func TestOverlaps(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 1))
		r := &run{leases: seed%2 == 0, now: 1000}
		all := drawnLanes(chance, chance.IntN(40), 1+chance.IntN(5))
		var both []sim.Span
		next := make([]sim.Time, len(all))
		for i := range all {
			next[i] = r.now + 1
			mine := r.counts(&all[i])
			for j := range all {
				if c := r.counts(&all[j]); all[j].Place != all[i].Place && len(c) > 0 && len(mine) > 0 && c[0].From > mine[0].From {
					next[i] = min(next[i], c[0].From)
				}
			}
			for j := range i {
				if all[i].Place == all[j].Place {
					continue
				}
				for _, x := range mine {
					for _, y := range r.counts(&all[j]) {
						if s := x.Within(y); s.Length() > 0 {
							both = append(both, s)
						}
					}
				}
			}
		}
		if got := r.both(all); !slices.Equal(got, both) {
			t.Fatalf("seed %d: two at once: %v; want %v", seed, got, both)
		}
		if got := r.successors(all); !slices.Equal(got, next) {
			t.Fatalf("seed %d: later tenures begin at %v; want %v", seed, got, next)
		}
		found += len(both)
	}
	if found < 1000 {
		t.Errorf("%d times two led at once; want 1000 at least", found)
	}
}

// BenchmarkOverlaps: ten times as many tenures take about ten times as long.
func BenchmarkOverlaps(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := drawnLanes(rand.New(rand.NewPCG(1, 1)), n, 5)
			r := &run{leases: true, now: 1e9}
			for b.Loop() {
				r.successors(all)
				r.both(all)
			}
		})
	}
}
