//go:build mutants

package queue

import (
	"maps"
	"slices"
	"testing"

	"github.com/electd/elect/internal/long"
)

// TestMutants shows that the net detects mutants: each rule that is switched off breaks an
// invariant, without the twin's help, within some seeds that the unchanged machine passes.
func TestMutants(t *testing.T) {
	const most = 150
	all := settings()
	names := slices.Sorted(maps.Keys(all))
	for _, mut := range Mutants() {
		t.Run(mut.Name, func(t *testing.T) {
			if mut.Name == "wrong-predecessor" {
				// The only effect is the number of candidates that wake.
				cfg := Config{Self: "n1", Dialect: Etcd, ServersFixed: true}
				cfg.Mutate(mut.Name)
				if got := watches(t, cfg); got == [2]uint64{8, 9} {
					t.Errorf("%s survived: it watches %v", mut.Rule, got)
				}
				return
			}
			switch mut.Name {
			case "servers-taken-for-mended", "wait-own-hold", "unmarked-waits-own-hold":
				t.Skip("this world has no servers that hang, and one hold for all: lab/sim/teeth hunts it")
			}
			for seed := uint64(1); seed <= most; seed++ {
				for _, name := range names {
					cfg := all[name]
					cfg.Mutate(mut.Name)
					w := one(seed, cfg, options{})
					if w.failure == "" {
						continue
					}
					if w := one(seed, all[name], options{twins: true}); w.failure != "" {
						t.Fatalf("%s: seed %d: the machine as it is: %s", name, seed, w.failure)
					}
					t.Logf("%s, seed %d: %s", name, seed, w.failure)
					return
				}
			}
			t.Errorf("%s survived: it %s", mut.Rule, mut.Says)
		})
	}
}

// TestOlderReleases: participants that touch their entries and those of older releases that do not stand in one
// election, as while they are replaced. The rule for that is needed: without it two of them lead.
func TestOlderReleases(t *testing.T) {
	cfg := settings()["etcd-hold"]
	leads, seen, mixed := 0, map[string]int{}, options{every2: func(c *Config) { c.Mutate(olderRelease) }}
	for seed := range long.Or[uint64](300, 10) {
		w := one(seed+1, cfg, mixed)
		if w.failure != "" {
			t.Fatalf("seed %d: %s", seed+1, w.failure)
		}
		leads += w.leads
		for k, v := range w.seen {
			seen[k] += v
		}
	}
	t.Logf("%d tenures, reached: %v", leads, seen)
	cfg.Mutate("untouched-mark-is-seen")
	for seed := range uint64(150) {
		if w := one(seed+1, cfg, mixed); w.failure != "" {
			t.Logf("seed %d: %s", seed+1, w.failure)
			return
		}
	}
	t.Error("nothing fails where the mark of an older release's leader is taken for a touch")
}

// TestMutantsAreDistinct: each has a name of its own and says what it does.
func TestMutantsAreDistinct(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range Mutants() {
		if m.Name == "" || m.Rule == "" || m.Says == "" || seen[m.Name] {
			t.Errorf("mutant %+v is doubled or says too little", m)
		}
		seen[m.Name] = true
	}
}
