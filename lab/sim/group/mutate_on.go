//go:build mutants

package group

import machine "github.com/electd/elect/internal/protocol/group"

const mutated = true

func mutateMember(c *machine.MemberConfig, name string)           { c.Mutate(name) }
func mutateCoordinator(c *machine.CoordinatorConfig, name string) { c.Mutate(name) }
