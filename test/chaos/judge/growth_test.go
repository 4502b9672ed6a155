//go:build linux

package judge

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestGrowth: a leak is found at any pace, and growth that stops is none.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		value func(i int, rng *rand.Rand) int
		grows bool
	}{
		{"steady", 200, func(i int, rng *rand.Rand) int { return 30 + rng.IntN(8) }, false},
		{"noise as large as itself", 200, func(i int, rng *rand.Rand) int { return 30 + rng.IntN(60) }, false},
		{"it warms up", 200, func(i int, rng *rand.Rand) int { return min(10+10*i, 120) + rng.IntN(3) }, false},
		{"one step in the midst", 200, func(i int, rng *rand.Rand) int { return 20 + 60*(i/100) + rng.IntN(3) }, false},
		{"a step at its end", 200, func(i int, rng *rand.Rand) int { return 20 + 60*(i/170) + rng.IntN(3) }, false},
		{"up and down", 200, func(i int, rng *rand.Rand) int { return 20 + 50*(i/20%2) + rng.IntN(3) }, false},
		{"it grows by a few", 200, func(i int, rng *rand.Rand) int { return 100 + i/14 }, false},
		{"single peaks", 200, func(i int, rng *rand.Rand) int { return 20 + 500*(i%7/6) }, false},
		{"it shrinks", 200, func(i int, rng *rand.Rand) int { return 400 - i }, false},
		{"too short to tell", 12, func(i int, rng *rand.Rand) int { return 20 + 20*i }, false},
		{"a leak", 200, func(i int, rng *rand.Rand) int { return 20 + i/4 + rng.IntN(3) }, true},
		{"a leak of a short life", 24, func(i int, rng *rand.Rand) int { return 20 + 3*i + rng.IntN(3) }, true},
		{"a leak in noise", 400, func(i int, rng *rand.Rand) int { return 20 + i/4 + rng.IntN(40) }, true},
		{"a leak now and then", 200, func(i int, rng *rand.Rand) int { return 20 + 12*(i/25) }, true},
		{"a flood", 200, func(i int, rng *rand.Rand) int { return 20 + 5000*(i/150) }, true},
		{"a flood that begins slowly", 200, func(i int, rng *rand.Rand) int { return 20 + i*i/100 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := sound()
			for i := range c.n {
				s.at(2*second+int64(i)*100*ms, Event{Kind: Used, Node: 1, Pid: 101, Usage: &Usage{FDs: c.value(i, rng)}})
			}
			r := s.judge(t)
			if grows := r.Counts[CheckGrowth] > 0; grows != c.grows || !grows && !r.OK() {
				t.Errorf("it grows: %t; want %t\n%v", grows, c.grows, &r)
			}
			if judged := c.n >= growthSamples; (r.Processes > 0) != judged {
				t.Errorf("%d processes were judged", r.Processes)
			}
			if said := strings.Contains(r.String(), "growth not judged"); said != (r.Processes == 0) {
				t.Errorf("%d processes were judged, and it says %v\n%v", r.Processes, said, &r)
			}
		})
	}
}

// TestGrowthByProcess: processes are judged separately, also where an id is reused, and so is each
// resource.
func TestGrowthByProcess(t *testing.T) {
	s := sound()
	for life := range int64(20) {
		s.at(2*second+life*second, Event{Kind: Start, Node: 2, Pid: 7})
		for i := range int64(10) {
			s.at(2*second+life*second+i*100*ms, Event{Kind: Used, Node: 2, Pid: 7, Usage: &Usage{FDs: int(life*10 + i)}})
		}
	}
	if r := s.judge(t); !r.OK() || r.Processes != 0 {
		t.Errorf("processes with one number: %v", &r)
	}
	for name, usage := range map[string]func(i int64) Usage{
		"threads":         func(i int64) Usage { return Usage{Threads: int(9 + i)} },
		"goroutines":      func(i int64) Usage { return Usage{Goroutines: int(20 + 2*i)} },
		"resident memory": func(i int64) Usage { return Usage{RSS: (20 + 2*i) << 20} },
	} {
		s := sound()
		for i := range int64(40) {
			u := usage(i)
			s.at(2*second+i*second, Event{Kind: Used, Node: 2, Pid: 102, Usage: &u})
		}
		if r := s.judge(t); r.Counts[CheckGrowth] != 1 {
			t.Errorf("%s: %v", name, &r)
		}
	}
}
