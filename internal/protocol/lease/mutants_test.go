//go:build mutants

package lease

import "testing"

// TestMutants shows that what looks for mistakes finds them.
func TestMutants(t *testing.T) {
	const seeds = 500
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				n := newNet(seed, func(c *Config) { c.Mutate(mu.Name) })
				if err := n.run(); err != nil {
					t.Logf("%d seeds: %v", seed+1, err)
					return
				}
			}
			t.Errorf("survived %d seeds; should have been seen: %s", seeds, mu.Seen)
		})
	}
}
