//go:build mutants

package protocols

import (
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
)

// Mutated returns the protocol of that name with one rule of its machines switched off. It exists
// only in builds with the tag mutants. The error names the available mutants.
func Mutated(name, mutant string) (*sim.Protocol, error) {
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, fmt.Errorf("protocol %q; want quorum, lease, queue or queue-zookeeper", name)
	}
	var names []string
	switch name {
	case quorum.Name:
		for _, m := range QuorumMutants() {
			names = append(names, m.Name)
		}
	case lease.Name:
		for _, m := range lease.Mutants() {
			names = append(names, m.Name)
		}
	default:
		for _, m := range queue.Mutants() {
			names = append(names, m.Name)
		}
	}
	if !slices.Contains(names, mutant) {
		return nil, fmt.Errorf("%s: mutant %q; want one of %v", name, mutant, names)
	}
	return kinds()[i].protocol(mutant), nil
}

func mutateQuorum(c *quorum.Config, mutant string) { c.Mutate(mutant) }
func mutateLease(c *lease.Config, mutant string)   { c.Mutate(mutant) }
func mutateQueue(c *queue.Config, mutant string)   { c.Mutate(mutant) }
