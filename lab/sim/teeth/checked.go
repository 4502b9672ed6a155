package teeth

import (
	"context"

	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/check"
)

// Checked is the kill of a mutant by the exhaustive checker.
type Checked struct {
	Invariant check.Invariant `json:"invariant"`
	States    uint64          `json:"states"` // that it took
	Steps     int             `json:"steps"`  // of the shortest way to the violation
}

// mostStates is how many states of its worlds a mutant may survive.
const mostStates = 8_000_000

// checked lets the checker hunt m, if it has a world for it. It returns nil if m survives.
func checked(ctx context.Context, m Mutant) (*Checked, error) {
	if m.Protocol != quorum.Name {
		return nil, nil
	}
	k, err := check.Hunt(m.Name, check.Options{Limit: mostStates, Look: func(check.Progress) bool { return ctx.Err() == nil }})
	if err != nil || k == nil {
		return nil, err
	}
	return &Checked{k.Violation.Invariant, k.States, len(k.Trail.Steps)}, ctx.Err()
}
