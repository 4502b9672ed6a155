//go:build !mutants

package teeth

import "github.com/electd/elect/lab/sim"

func mutated(Mutant) (*sim.Protocol, error) { return nil, ErrNoMutants }
