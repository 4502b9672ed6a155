package lease

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestHerdIsTheFormula compares the integers with the formula of L10.
func TestHerdIsTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const j = 80 * time.Millisecond
	for i := range 100_000 {
		u := rng.Uint64() >> rng.IntN(64)
		switch i {
		case 0:
			u = 0
		case 1:
			u = math.MaxUint64
		}
		want := float64(j) * max(0, 1+math.Log(float64(u|1)/(1<<64))/math.Log(1000))
		if got := herd(j, u); math.Abs(float64(got)-want) > float64(j)/10_000 || got < 0 || got > j {
			t.Fatalf("herd(%v, %d) = %v; want %v", j, u, got, time.Duration(want))
		}
	}
}

// TestHerdIsSmall is the purpose of L10: of 1,000 candidates that see at once that the record is
// free, few write before the first write is known to all.
func TestHerdIsSmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const rtt = 5 * time.Millisecond
	early := func(delay func() time.Duration) float64 {
		sum := 0
		for range 200 {
			var all []time.Duration
			for range 1000 {
				all = append(all, delay())
			}
			first := slices.Min(all)
			for _, d := range all {
				if d < first+rtt {
					sum++
				}
			}
		}
		return float64(sum) / 200
	}
	ours := early(func() time.Duration { return herd(8*rtt, rng.Uint64()) })
	uniform := early(func() time.Duration { return time.Duration(rng.Int64N(int64(8 * rtt))) })
	t.Logf("writes in the first round trip: %.1f; with uniform delays %.1f", ours, uniform)
	if ours > 4 || uniform < 100 {
		t.Errorf("%.1f writes, and %.1f with uniform delays; want at most 4, and at least 100", ours, uniform)
	}
}

func TestAround(t *testing.T) {
	for _, u := range []uint64{0, 1, 1 << 63, math.MaxUint64} {
		if got := around(24*time.Hour, u); got < 12*time.Hour || got > 36*time.Hour {
			t.Errorf("around(24h, %d) = %v; want 12h to 36h", u, got)
		}
	}
}

func TestAfterSaturates(t *testing.T) {
	for _, c := range []struct {
		i    protocol.Instant
		d    time.Duration
		want protocol.Instant
	}{
		{5, 6, 11},
		{5, -6, -1},
		{protocol.Never - 1, 5, protocol.Never},
		{protocol.Always + 1, -5, protocol.Always},
		{protocol.Always, 5, protocol.Always},
		{protocol.Never, -5, protocol.Never},
	} {
		if got := after(c.i, c.d); got != c.want {
			t.Errorf("after(%d, %d) = %d; want %d", c.i, c.d, got, c.want)
		}
	}
}
