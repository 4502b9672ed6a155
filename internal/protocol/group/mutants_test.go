//go:build mutants

package group

import (
	"flag"
	"testing"
)

var most = flag.Uint64("most", 300, "the number of seeds of each profile after which a mutant counts as survived")

// TestMutants shows that the net, or a test of the rule, notices mutants.
func TestMutants(t *testing.T) {
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range *most {
				for _, g := range gusts {
					n := newNet(t, seed, g, func(m *MemberConfig, c *CoordinatorConfig) { m.Mutate(mu.Name); c.Mutate(mu.Name) })
					if err := n.run(); err != nil {
						t.Logf("%s: killed by seed %d of %s: %v", mu.Rule, seed, g.name, err)
						return
					}
				}
			}
			t.Errorf("%s: survived %d seeds", mu.Rule, *most)
		})
	}
}
