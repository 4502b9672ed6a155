package sim_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// becomeFive has an operator replace the three voters by five others, one by one. Nothing else
// changes the membership.
func becomeFive(s *sim.Schedule) {
	s.Ops = slices.DeleteFunc(s.Ops, func(op sim.Op) bool {
		switch op.Kind {
		case sim.OpAdd, sim.OpRemove, sim.OpReplace, sim.OpReconfigure, sim.OpWipe:
			return true
		}
		return false
	})
	at := s.Faults / 6
	s.Ops = append(s.Ops, sim.Op{
		At: sim.Time(at), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"s1", "s2", "s3", "s4", "s5"}, Every: 50 * time.Millisecond, For: s.Faults - at,
	})
	slices.SortStableFunc(s.Ops, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
}

// TestThreeBecomeFive: a cluster of three voters becomes one of five others, and all of the three
// leave, while the leader's work goes on. Without faults no gap between two leaders is longer than
// a promise, handovers included. With all faults within the model no invariant that must hold is
// violated.
func TestThreeBecomeFive(t *testing.T) {
	p := byName(t, "quorum")
	become := func(seed uint64, profile string) *sim.Result {
		s, err := sim.Generate(p, seed, sim.Options{Profile: profile, Nodes: 3, Spares: 5})
		if err != nil {
			t.Fatal(err)
		}
		becomeFive(s)
		s.Work.Stop = min(s.Work.Stop, 100*time.Millisecond)
		return run(t, p, s)
	}
	const promise = time.Second
	longest := time.Duration(0)
	for seed := range uint64(long.Or(300, 5)) {
		r := become(seed+1, "quiet")
		worst, _ := r.Stats.Takeover(1)
		longest = max(longest, worst)
		if r.Violation != nil || !r.Seen.Has(sim.SawAllReplaced) || worst > promise || r.Stats.Writes == 0 {
			t.Fatalf("seed %d, no faults: %v; all replaced: %t; %d writes; the longest of %d gaps %v, want at most %v",
				seed+1, r.Violation, r.Seen.Has(sim.SawAllReplaced), r.Stats.Writes, len(r.Stats.Takeovers), worst, promise)
		}
	}
	t.Logf("without faults: the longest gap %v", longest)
	var stats sim.Stats
	done, runs := 0, long.Or(300, 5)
	for seed := range uint64(runs) {
		for _, profile := range []string{"swarm", "storm"} {
			r := become(seed+1, profile)
			if r.Violation != nil {
				t.Fatalf("seed %d, %s: %v", seed+1, profile, r.Violation)
			}
			if profile == "swarm" && r.Seen.Has(sim.SawAllReplaced) {
				done++
			}
			stats.Add(&r.Stats)
		}
	}
	t.Logf("among faults: %d of %d clusters replaced in time, %d elections, %d writes, judged live %d", done, runs, stats.Elections, stats.Writes, stats.Judged)
	if long.Many() && done < runs/2 {
		t.Errorf("%d of %d clusters were replaced among faults; want at least half", done, runs)
	}
}
