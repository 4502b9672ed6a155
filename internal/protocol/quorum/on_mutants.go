//go:build mutants

package quorum

import "github.com/electd/elect/internal/protocol/internal/mutant"

// Mutate switches the mutant with that name on. It exists only in builds with the tag mutants.
func (c *Config) Mutate(name string) { c.mutants = mutant.On(name) }
