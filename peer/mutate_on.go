//go:build mutants

package peer

import (
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol/quorum"
)

// mutate switches on the machine's mutant that the environment chooses, if any.
func mutate(c *quorum.Config) {
	switch {
	case mutation.Is(mutation.LeaseFromAck):
		c.Mutate("lease-from-ack-arrival")
	case mutation.Is(mutation.NoResidual):
		c.Mutate("no-residual-wait")
	}
}
