//go:build mutants

package group

import (
	"github.com/electd/elect/internal/mutation"
	machine "github.com/electd/elect/internal/protocol/group"
)

// mutateMember switches on the machine's mutant that the environment chooses, if any.
func mutateMember(c *machine.MemberConfig) {
	if name := chosen(); name != "" {
		c.Mutate(name)
	}
}

// mutateCoordinator is the same for the other machine.
func mutateCoordinator(c *machine.CoordinatorConfig) {
	if name := chosen(); name != "" {
		c.Mutate(name)
	}
}

func chosen() string {
	for _, name := range mutation.OfGroups() {
		if mutation.Is(name) {
			return name
		}
	}
	return ""
}
