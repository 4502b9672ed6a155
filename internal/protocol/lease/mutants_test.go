//go:build mutants

package lease

import (
	"slices"
	"testing"
)

// byHand are the mutants that show only where an operator writes an old record back. This net has
// no such operator. The simulator has: see docs/teeth.md.
var byHand = []string{"put-back-is-current", "mark-of-another"}

// TestMutants shows that the net detects mutants.
func TestMutants(t *testing.T) {
	const seeds = 500
	for _, mu := range Mutants() {
		t.Run(mu.Name, func(t *testing.T) {
			if slices.Contains(byHand, mu.Name) {
				t.Skip("no record is put back by hand here; the simulator hunts it")
			}
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
