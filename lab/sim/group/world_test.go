package group

import (
	"testing"

	"github.com/electd/elect/lab/sim"
)

// TestSame: the same seed gives the same run.
func TestSame(t *testing.T) {
	for _, profile := range []string{"storm", "placed", "peers", "members", "halts"} {
		hashes := map[uint64]uint64{}
		for seed := range uint64(4) {
			for range 2 {
				s, err := Generate(seed, Options{Profile: profile})
				if err != nil {
					t.Fatal(err)
				}
				r, err := Run(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				if was, ok := hashes[seed]; ok && was != r.Hash {
					t.Errorf("%s, seed %d: %x, then %x", profile, seed, was, r.Hash)
				}
				hashes[seed] = r.Hash
			}
		}
		if hashes[0] == hashes[1] {
			t.Errorf("%s: two seeds with the hash %x", profile, hashes[0])
		}
	}
}

// TestMembersChange: while groups run, the voters of the machines that elect their coordinators change.
func TestMembersChange(t *testing.T) {
	tenures, seen := 0, sim.Seen(0)
	for seed := range uint64(6) {
		s, err := Generate(seed, Options{Profile: "members"})
		if err != nil {
			t.Fatal(err)
		}
		w, err := New(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for w.Step() {
		}
		tenures += int(w.stats.Tenures)
		seen.Add(w.e.peers.world.Result().Seen)
	}
	if tenures < 6 || !seen.Has(sim.SawPromotedVotes) {
		t.Errorf("%d tenures, and new voters have voted: %v; want 6 at least, and that", tenures, seen.Has(sim.SawPromotedVotes))
	}
}

// TestShrink: of what kills a careless driver few faults are left, and they kill it.
func TestShrink(t *testing.T) {
	s, err := Generate(1, Options{Profile: "moves", Mutant: CarelessJoin})
	if err != nil {
		t.Fatal(err)
	}
	small, r, err := Shrink(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violation == nil || r.Violation.Invariant != Joined || len(small.Faults) > 3 || len(small.Faults) >= len(s.Faults) {
		t.Errorf("%d of %d faults are left, and the run ends with %v; want 3 at most, and %s", len(small.Faults), len(s.Faults), r.Violation, Joined)
	}
}

// TestRefused: a profile that is not there is refused.
func TestRefused(t *testing.T) {
	if s, err := Generate(1, Options{Profile: "none"}); err == nil {
		t.Errorf("the profile none gives %v", s)
	}
}
