package group

import (
	"context"
	"slices"
)

// Shrink drops the faults that a violation does not need, and returns the schedule that is left with its result. s has
// to violate something.
func Shrink(ctx context.Context, s *Schedule) (*Schedule, *Result, error) {
	best := *s
	r, err := Run(&best, nil)
	if err != nil || r.Violation == nil {
		return &best, r, err
	}
	want := r.Violation.Invariant
	for size := max(len(best.Faults)/2, 1); ; size /= 2 {
		for i := 0; i < len(best.Faults) && ctx.Err() == nil; {
			less := best
			less.Faults = slices.Delete(slices.Clone(best.Faults), i, min(i+size, len(best.Faults)))
			got, err := Run(&less, nil)
			if err != nil {
				return nil, nil, err
			}
			if got.Violation != nil && got.Violation.Invariant == want {
				best, r = less, got
			} else {
				i += size
			}
		}
		if size <= 1 {
			return &best, r, nil
		}
	}
}
