package group

import (
	"context"
	"slices"
)

// Shrink drops the faults that a violation does not need, those of E's world too, and returns the schedule that is left
// with its result. s has to violate something.
func Shrink(ctx context.Context, s *Schedule) (*Schedule, *Result, error) {
	best := *s
	r, err := Run(&best, nil)
	if err != nil || r.Violation == nil {
		return &best, r, err
	}
	want := r.Violation.Invariant
	still := func(less *Schedule) (bool, error) {
		got, err := Run(less, nil)
		if err != nil || got.Violation == nil || got.Violation.Invariant != want {
			return false, err
		}
		best, r = *less, got
		return true, nil
	}
	err = fewer(ctx, func() int { return len(best.Faults) }, func(i, j int) (bool, error) {
		less := best
		less.Faults = slices.Delete(slices.Clone(best.Faults), i, j)
		return still(&less)
	})
	if err == nil && best.Election != nil {
		err = fewer(ctx, func() int { return len(best.Election.Ops) }, func(i, j int) (bool, error) {
			less, election := best, *best.Election
			election.Ops = slices.Delete(slices.Clone(election.Ops), i, j)
			less.Election = &election
			return still(&less)
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return &best, r, nil
}

// fewer tries to drop items from a list, more at once at first. drop reports whether those from i to j were dropped.
func fewer(ctx context.Context, length func() int, drop func(i, j int) (bool, error)) error {
	for size := max(length()/2, 1); ; size /= 2 {
		for i := 0; i < length() && ctx.Err() == nil; {
			dropped, err := drop(i, min(i+size, length()))
			if err != nil {
				return err
			}
			if !dropped {
				i += size
			}
		}
		if size <= 1 {
			return nil
		}
	}
}
