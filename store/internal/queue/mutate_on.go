//go:build mutants

package queue

import (
	"github.com/electd/elect/internal/mutation"
	machine "github.com/electd/elect/internal/protocol/queue"
)

// mutate switches on the machine's mutant that the environment chooses, if any.
func mutate(c *machine.Config) {
	if mutation.Is(mutation.LeaseFromAck) {
		c.Mutate("deadline-from-answer")
	}
}
