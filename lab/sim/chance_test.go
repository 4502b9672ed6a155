package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestNegLog(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []uint64{0, 1, 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64}
	for range 10_000 {
		words = append(words, r.Uint64()>>r.IntN(64))
	}
	for _, w := range words {
		got := float64(negLog(w)) / (1 << logBits)
		want := -math.Log((float64(w) + 1) / (1 << 63) / 2)
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("negLog(%d) = %v, want %v", w, got, want)
		}
	}
}

func TestExponential(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 100_000
	all := make([]time.Duration, n)
	var sum time.Duration
	for i := range all {
		all[i] = exponential(r.Uint64(), time.Second)
		sum += all[i]
	}
	slices.Sort(all)
	if mean := sum / n; mean < 980*time.Millisecond || mean > 1020*time.Millisecond {
		t.Errorf("the mean of %d draws is %v, want about 1s", n, mean)
	}
	if median := all[n/2]; median < 680*time.Millisecond || median > 706*time.Millisecond {
		t.Errorf("the median is %v, want about 693ms", median)
	}
	if exponential(0, 0) != 0 || exponential(0, -1) != 0 {
		t.Error("a mean of nothing gives something")
	}
}

func TestLogUniform(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 80_000
	octaves := make([]int, 8)
	for range n {
		d := logUniform(r.Uint64(), 10, 2560)
		if d < 10 || d > 2560 {
			t.Fatalf("%d is not between 10 and 2560", d)
		}
		octaves[min(7, int(math.Log2(float64(d)/10)))]++
	}
	for i, k := range octaves {
		if k < n/8*9/10 || k > n/8*11/10 {
			t.Errorf("octave %d: %d of %d draws, want about an eighth: %v", i, k, n, octaves)
		}
	}
	for _, c := range []struct{ least, most, want time.Duration }{{5, 5, 5}, {5, 4, 5}, {0, 0, 1}, {-3, 1, 1}} {
		if got := logUniform(math.MaxUint64, c.least, c.most); got != c.want {
			t.Errorf("logUniform(%d to %d) = %d, want %d", c.least, c.most, got, c.want)
		}
	}
}
