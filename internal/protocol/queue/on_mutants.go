//go:build mutants

package queue

import "github.com/electd/elect/internal/protocol/internal/mutant"

// Mutate switches the mutant of that name on, of those that Mutants returns.
func (c *Config) Mutate(name string) { c.mutants = mutant.On(name) }
