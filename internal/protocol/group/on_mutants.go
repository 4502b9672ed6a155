//go:build mutants

package group

import "github.com/electd/elect/internal/protocol/internal/mutant"

// Mutate switches the mutant with that name on. It exists only in builds with the tag mutants.
func (c *MemberConfig) Mutate(name string) { c.Mutant = mutant.On(name) }

// Mutate switches the mutant with that name on. It exists only in builds with the tag mutants.
func (c *CoordinatorConfig) Mutate(name string) { c.Mutant = mutant.On(name) }
