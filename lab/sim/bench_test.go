package sim

import (
	"testing"
	"time"
)

// quietly is a healthy world without an end.
func quietly() *Schedule {
	s := still(5)
	s.Faults = MaxSpan
	s.Links.Jitter, s.Disks.Jitter = 100*time.Microsecond, 100*time.Microsecond
	return s
}

func benchSteps(b *testing.B, s *Schedule, from Time) {
	w, err := New(pulses(), s)
	if err != nil {
		b.Fatal(err)
	}
	for w.Now() < from {
		w.Step()
	}
	b.ReportAllocs()
	events, before := w.events, w.now
	for b.Loop() {
		w.Step()
	}
	b.ReportMetric(float64(w.events-events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(time.Duration(w.now-before).Seconds()/b.Elapsed().Seconds(), "virtual/real")
}

// BenchmarkWorld is the cost of the world alone: machines that do almost nothing, one event an
// operation.
func BenchmarkWorld(b *testing.B) { benchSteps(b, quietly(), Time(time.Second)) }

// BenchmarkNoise is the same with all noise of links and disks.
func BenchmarkNoise(b *testing.B) {
	s := quietly()
	s.Links = LinkNoise{Delay: 100 * time.Microsecond, Jitter: 100 * time.Microsecond, Tail: 0.01, Loss: 0.05, Duplicate: 0.01, Reorder: true}
	s.Disks.Tail = 0.01
	benchSteps(b, s, Time(5*time.Second))
}

func BenchmarkFork(b *testing.B) {
	w, err := New(pulses(), quietly())
	if err != nil {
		b.Fatal(err)
	}
	for w.Now() < Time(time.Second) {
		w.Step()
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Fork()
	}
}

// A world in a steady state allocates nothing for an event.
func TestNoAllocations(t *testing.T) {
	w, err := New(pulses(), quietly())
	if err != nil {
		t.Fatal(err)
	}
	for w.Now() < Time(time.Second) {
		w.Step()
	}
	if n := testing.AllocsPerRun(20_000, func() { w.Step() }); n > 0.01 {
		t.Errorf("%v allocations an event", n)
	}
}
