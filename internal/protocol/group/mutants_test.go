//go:build mutants

package group

import (
	"flag"
	"testing"
)

var (
	most = flag.Uint64("most", 40, "the number of seeds of each profile after which a mutant counts as survived")
	only = flag.Bool("net", false, "leave the stories out")
)

// TestMutants shows that the story of a rule, or else the net, notices each mutant.
func TestMutants(t *testing.T) {
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
			t.Parallel()
			mutate := func(m *MemberConfig, c *CoordinatorConfig) { m.Mutate(mu.Name); c.Mutate(mu.Name) }
			for _, r := range rules {
				if says := r.play(mutate); says != "" && !*only {
					t.Logf("%s: noticed by %q: %s", mu.Rule, r.name, says)
					return
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
			t.Errorf("%s: survived %d seeds, and all stories unless they were left out", mu.Rule, *most)
		})
	}
}
