package count_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/lab/sim/count"
)

// exact counts an election and holds that it costs what the formula says.
func exact(t *testing.T, s count.Spec) count.Count {
	t.Helper()
	c, err := count.Run(s)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if !c.Exact() || c.Sent != c.Formula || c.Sent == 0 && (s.Protocol != "ring" || s.N > 2) {
		t.Errorf("%s, n = %d, initiators %v: %+v", s.Protocol, s.N, s.Initiators, c.Kinds)
	}
	return c
}

// TestCounts holds every protocol against its formula, by type, with all numbers
// of machines from 2 to 64.
func TestCounts(t *testing.T) {
	if race.Enabled {
		t.Skip("each count is made in one goroutine; TestTable makes several at a time")
	}
	for _, name := range count.Protocols() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			least, most, _, _ := count.Bounds(name)
			for n := max(2, least); n <= min(64, most); n++ {
				exact(t, count.Spec{Protocol: name, N: n, Seed: uint64(n)})
			}
		})
	}
	t.Run("bully, all initiators", func(t *testing.T) {
		t.Parallel()
		for n := 2; n <= 64; n++ {
			for i := 1; i < n; i++ {
				c := exact(t, count.Spec{Protocol: "bully", N: n, Initiators: []int{i}})
				if m := uint64(n - i); c.Sent != m*m+uint64(n)-2 {
					t.Errorf("n = %d, i = %d: %d messages; want m²+n−2", n, i, c.Sent)
				}
				if i == 1 && c.Sent != uint64(n*n-n-1) {
					t.Errorf("n = %d: %d messages; want n²−n−1", n, c.Sent)
				}
				if want := fmt.Sprintf("n%d", n-1); string(c.Winner) != want {
					t.Errorf("n = %d, i = %d: %s has won; want %s", n, i, c.Winner, want)
				}
			}
		}
	})
	t.Run("bully, several initiators", func(t *testing.T) {
		t.Parallel()
		for n := 3; n <= 32; n++ {
			for k := 2; k < n; k++ {
				exact(t, count.Spec{Protocol: "bully", N: n, Initiators: count.Shuffled(n-1, uint64(k))[:k]})
			}
		}
	})
	t.Run("ring, k initiators", func(t *testing.T) {
		t.Parallel()
		for n := 2; n <= 64; n++ {
			for k := 1; k <= n; k++ {
				if n > 24 && k > 4 && k < n-1 {
					continue
				}
				from := count.Shuffled(n, uint64(k))[:k]
				c := exact(t, count.Spec{Protocol: "ring", N: n, Initiators: from, Ring: count.Shuffled(n, uint64(n))})
				if c.Sent != uint64(2*k*n) {
					t.Errorf("n = %d, k = %d: %d messages; want 2kn", n, k, c.Sent)
				}
			}
		}
	})
	t.Run("Chang-Roberts", func(t *testing.T) {
		t.Parallel()
		for n := 2; n <= 64; n++ {
			best := exact(t, count.Spec{Protocol: "ring-chang-roberts", N: n, Ring: count.Rising(n)})
			worst := exact(t, count.Spec{Protocol: "ring-chang-roberts", N: n, Ring: count.Falling(n)})
			if best.Sent != uint64(2*n-1+n) || worst.Sent != uint64(n*(n+1)/2+n) {
				t.Errorf("n = %d: best %d, worst %d; want %d and %d", n, best.Sent, worst.Sent, 3*n-1, n*(n+1)/2+n)
			}
			for seed := range uint64(5) {
				ring := count.Shuffled(n, seed)
				if c := exact(t, count.Spec{Protocol: "ring-chang-roberts", N: n, Ring: ring}); c.Sent != dumb(ring)+uint64(n) {
					t.Errorf("ring %v: %d messages; want %d", ring, c.Sent, dumb(ring)+uint64(n))
				}
			}
		}
	})
}

// dumb walks each id round the ring until it meets a higher one.
func dumb(ring []int) (sum uint64) {
	for i, id := range ring {
		for d := 1; d <= len(ring); d++ {
			sum++
			if ring[(i+d)%len(ring)] > id {
				break
			}
		}
	}
	return sum
}

// TestMean holds that the mean over all rings is n·Hₙ, exactly.
func TestMean(t *testing.T) {
	for n := 2; n <= 6; n++ {
		var sum, rings uint64
		permute(count.Rising(n), 0, func(ring []int) {
			c, err := count.Run(count.Spec{Protocol: "ring-chang-roberts", N: n, Ring: slices.Clone(ring)})
			if err != nil {
				t.Fatal(err)
			}
			sum += c.Sent - uint64(n)
			rings++
		})
		// n!·n·Hₙ is a whole number.
		if want := uint64(math.Round(float64(rings) * count.Harmonic(n))); sum != want {
			t.Errorf("n = %d: %d messages over all %d rings; want %d, n·Hₙ on the mean", n, sum, rings, want)
		}
	}
	if h := count.Harmonic(4); math.Abs(h-25.0/3) > 1e-12 {
		t.Errorf("4·H₄ = %v; want 25/3", h)
	}
}

func permute(all []int, from int, visit func([]int)) {
	if from == len(all) {
		visit(all)
		return
	}
	for i := from; i < len(all); i++ {
		all[from], all[i] = all[i], all[from]
		permute(all, from+1, visit)
		all[from], all[i] = all[i], all[from]
	}
}

// TestSeeds: the seed decides which participant wins, not the cost.
func TestSeeds(t *testing.T) {
	for _, name := range []string{"raft", "raft-prevote", "blazingmq", "quorum"} {
		won := make(map[string]bool)
		for seed := range uint64(40) {
			won[string(exact(t, count.Spec{Protocol: name, N: 7, Seed: seed}).Winner)] = true
		}
		if name != "quorum" && len(won) < 3 { // its order of successors is fixed
			t.Errorf("%s: of 40 seeds only %v have won", name, won)
		}
	}
}

// TestConstant: the cost of a departure from a queue does not depend on its length.
func TestConstant(t *testing.T) {
	for _, name := range []string{"queue", "queue-zookeeper", "lease"} {
		few, many := exact(t, count.Spec{Protocol: name, N: 2}), exact(t, count.Spec{Protocol: name, N: 1000})
		if few.Sent != many.Sent || !few.Requests {
			t.Errorf("%s: %d requests with 2, %d with 1000", name, few.Sent, many.Sent)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, s := range map[string]count.Spec{
		`protocol "paxos"; want one of quorum, lease`:                           {Protocol: "paxos", N: 3},
		"quorum with 10 machines; want 3 to 9":                                  {Protocol: "quorum", N: 10},
		"raft with 2 machines; want 3 to 10000":                                 {Protocol: "raft", N: 2},
		"bully with 10001 machines":                                             {Protocol: "bully", N: count.MaxNodes + 1},
		"initiators of raft; only bully and ring":                               {Protocol: "raft", N: 3, Initiators: []int{1}},
		"initiators [5]; want places from 1 to 4":                               {Protocol: "bully", N: 5, Initiators: []int{5}},
		"initiators [1 1]; want places from 1 to 5, each once":                  {Protocol: "ring", N: 5, Initiators: []int{1, 1}},
		"a ring of bully; only the rings can have one":                          {Protocol: "bully", N: 3, Ring: []int{1, 2, 3}},
		"a ring of 3 places; want each of 1 to 3 once":                          {Protocol: "ring", N: 3, Ring: []int{1, 1, 3}},
		"a ring of 2 places; want each of 1 to 3 once":                          {Protocol: "ring", N: 3, Ring: []int{1, 2}},
		"initiators of ring-chang-roberts; only bully and ring have initiators": {Protocol: "ring-chang-roberts", N: 3, Initiators: []int{1}},
	} {
		if _, err := count.Run(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", s, err, want)
		}
	}
}

func TestTable(t *testing.T) {
	rows, err := count.Table(t.Context(), nil, []int{2, 4, 9, 16})
	if err != nil {
		t.Fatal(err)
	}
	again, err := count.Table(t.Context(), nil, []int{2, 4, 9, 16})
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := count.Write(&one, rows); err != nil {
		t.Fatal(err)
	}
	if err := count.Write(&two, again); err != nil || one.String() != two.String() {
		t.Errorf("twice it is not the same (%v)", err)
	}
	seen := make(map[string]bool)
	for _, r := range rows {
		seen[r.Protocol] = true
		if !r.Exact {
			t.Errorf("%+v", r)
		}
		if r.Runs > 1 && math.Abs(r.Sent-r.Formula) > r.Formula/10 {
			t.Errorf("the mean of %d rings of %d is %v; want about %v", r.Runs, r.N, r.Sent, r.Formula)
		}
		if r.Protocol == "quorum" && (r.N == 2 || r.N > 9) {
			t.Errorf("quorum with %d", r.N)
		}
	}
	if len(seen) != len(count.Protocols()) {
		t.Errorf("rows of %v; want all of %v", seen, count.Protocols())
	}
	var svg bytes.Buffer
	if err := count.Plot(rows).SVG(&svg); err != nil || !strings.Contains(svg.String(), "n²−n−1") {
		t.Errorf("the plot: %v", err)
	}
	if _, err := count.Table(t.Context(), []string{"paxos"}, []int{3}); err == nil || !strings.Contains(err.Error(), "want one of") {
		t.Errorf("an unknown protocol: %v", err)
	}
}

// BenchmarkElection counts elections of up to 10,000 machines. For bully that is a hundred million
// messages; see the package's documentation.
func BenchmarkElection(b *testing.B) {
	for _, name := range count.Protocols() {
		_, most, _, _ := count.Bounds(name)
		for _, n := range []int{9, 100, 1000, 10_000} {
			if n > most {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					c, err := count.Run(count.Spec{Protocol: name, N: n})
					if err != nil || !c.Exact() {
						b.Fatalf("%+v, %v", c.Kinds, err)
					}
					b.ReportMetric(float64(c.Sent), "messages")
				}
			})
		}
	}
}
