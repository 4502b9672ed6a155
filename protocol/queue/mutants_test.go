//go:build mutants

package queue

import (
	"slices"
	"testing"
)

// TestMutants shows that the net has teeth: each rule that is switched off
// breaks an invariant, without the twin's help, within some seeds that the
// machine as it is passes.
func TestMutants(t *testing.T) {
	const most = 100
	sound := make(map[string]map[uint64]bool)
	for _, mut := range Mutants() {
		t.Run(mut.Name, func(t *testing.T) {
			killed := false
			for name, cfg := range settings() {
				mutated := cfg
				mutated.Mutate(mut.Name)
				for seed := uint64(1); seed <= most; seed++ {
					w := one(seed, mutated, options{})
					if w.failure == "" {
						continue
					}
					if sound[name] == nil {
						sound[name] = make(map[uint64]bool)
					}
					if !sound[name][seed] {
						if w := one(seed, cfg, options{twins: true}); w.failure != "" {
							t.Fatalf("%s: seed %d: the machine as it is: %s", name, seed, w.failure)
						}
						sound[name][seed] = true
					}
					t.Logf("%s: %d seeds: %s", name, seed, w.failure)
					killed = true
					break
				}
			}
			if !killed && !slices.Contains(scripted(), mut.Name) {
				t.Errorf("%s survived: it %s", mut.Rule, mut.Says)
			}
		})
	}
}

// scripted are the mutants that a test of their own sees.
func scripted() []string { return []string{"wrong-predecessor"} }
