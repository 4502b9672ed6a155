//go:build mutants

package group

import (
	"flag"
	"testing"
)

var most = flag.Uint64("most", 40, "the number of seeds of each profile after which a mutant counts as survived")

// TestMutants shows that the tests of the rules, or the net, notice mutants. The simulator hunts those that neither does.
func TestMutants(t *testing.T) {
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
			t.Parallel()
			mutate := func(m *MemberConfig, c *CoordinatorConfig) { m.Mutate(mu.Name); c.Mutate(mu.Name) }
			var told bool
			for _, r := range rules {
				if says := r.play(mutate); says != "" {
					t.Logf("%s: noticed by %q: %s", mu.Rule, r.name, says)
					told = true
					break
				}
			}
			for seed := range *most {
				for _, g := range gusts {
					if err := newNet(t, seed, g, mutate).run(); err != nil {
						t.Logf("%s: killed by seed %d of %s: %v", mu.Rule, seed, g.name, err)
						return
					}
				}
			}
			if !told {
				t.Errorf("%s: survived all rules, and %d seeds", mu.Rule, *most)
			}
		})
	}
}
