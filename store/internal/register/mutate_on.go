//go:build mutants

package register

import (
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol/lease"
)

// mutate switches on the machine's mutant that the environment chooses, if any.
func mutate(c *lease.Config) {
	if mutation.Is(mutation.LeaseFromAck) {
		c.Mutate("deadline-from-answer")
	}
}
