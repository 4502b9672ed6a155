//go:build mutants

package queue

import "github.com/electd/elect/internal/protocol/internal/mutant"

// Mutate switches the mutant with that name on; see Mutants.
func (c *Config) Mutate(name string) { c.mutants = mutant.On(name) }
