package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPairsAgree: the two clocks are apart by the same, as far as that can be
// told, however busy the machine is.
func TestPairsAgree(t *testing.T) {
	first := ReadPair()
	for range 10_000 {
		p := ReadPair()
		if p.Boot < first.Boot || p.Mono < first.Mono {
			t.Fatalf("%v after %v", p, first)
		}
		if d := time.Duration((p.Boot - p.Mono) - (first.Boot - first.Mono)); d.Abs() > 500*time.Microsecond {
			t.Fatalf("the clocks came apart by %v", d)
		}
	}
}

// TestPairsInABubble: where Go's own clock is another one, the pair is still that of the machine.
func TestPairsInABubble(t *testing.T) {
	first := ReadPair()
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			p := ReadPair()
			if d := time.Duration((p.Boot - p.Mono) - (first.Boot - first.Mono)); d.Abs() > 500*time.Microsecond {
				t.Fatalf("the clocks came apart by %v", d)
			}
			time.Sleep(time.Hour)
		}
	})
}

func BenchmarkReadPair(b *testing.B) {
	for b.Loop() {
		ReadPair()
	}
}
