//go:build mutants

package teeth

import (
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

func mutated(m Mutant) (*sim.Protocol, error) { return protocols.Mutated(m.Protocol, m.Name) }
