package fence

import (
	"errors"
	"log/slog"
)

// Result is a decision of a guard.
type Result string

// The results, which are values of a metric's label and never change.
const (
	Passed    Result = "passed"    // admitted
	Raised    Result = "raised"    // the mark was raised to a greater token
	Stale     Result = "stale"     // refused: a smaller token than the mark
	Missing   Result = "missing"   // refused: no token
	Malformed Result = "malformed" // refused: not a token, or one that no leader can have
	Foreign   Result = "foreign"   // refused: the resource is not guarded here
	// refused: a token greater than the mark that was not claimed, or a claim without the right to it
	Unclaimed Result = "unclaimed"
	Busy      Result = "busy"   // refused: work of smaller tokens has not ended
	Failed    Result = "failed" // refused: the mark could not be read or raised
	Ended     Result = "ended"  // the work's context was ended because a greater token came
)

// Err is the sentinel of a refusal, and [ErrUnknownOutcome] for [Ended]. It is nil for [Passed], [Raised] and [Failed],
// whose error is the mark's.
func (r Result) Err() error {
	switch r {
	case Stale:
		return ErrStale
	case Missing:
		return ErrMissing
	case Malformed:
		return ErrToken
	case Foreign:
		return ErrResource
	case Unclaimed:
		return ErrUnclaimed
	case Busy:
		return ErrBusy
	case Ended:
		return ErrUnknownOutcome
	}
	return nil
}

// ResultOf returns the result of a guard's error; nil is [Passed].
func ResultOf(err error) Result {
	if err == nil {
		return Passed
	}
	for _, r := range [...]Result{Stale, Missing, Malformed, Foreign, Unclaimed, Busy} {
		if errors.Is(err, r.Err()) {
			return r
		}
	}
	return Failed
}

// Decision is a decision of a guard, with its details.
type Decision struct {
	Resource Resource
	Shown    Token // 0: none
	Highest  Token // the mark, as far as the guard knows; for Ended, the token that came
	Result   Result
}

// DecisionOf returns the decision of a guard's error; nil is [Passed]. Its Highest is that of a [StaleError], or
// highest, 0 if not known; after Passed it is at least the token.
func DecisionOf(resource Resource, shown, highest Token, err error) Decision {
	if stale, ok := errors.AsType[*StaleError](err); ok {
		highest = stale.Highest
	}
	if err == nil {
		highest = max(highest, shown)
	}
	return Decision{Resource: resource, Shown: shown, Highest: highest, Result: ResultOf(err)}
}

// Report logs and counts a decision, as the packages below this one do: it logs err, which led to the decision, at
// level Warn unless it is nil, and calls observe unless that is nil. The logger must not be nil.
func (d Decision) Report(logger *slog.Logger, observe func(Decision), err error) {
	if err != nil {
		what := "refused"
		switch {
		case errors.Is(err, ErrUnknownOutcome):
			what = "outcome unknown"
		case d.Result == Failed:
			what = "failed"
		}
		// With String: MarshalText, which slog prefers, refuses an invalid token.
		logger.Warn(what, "resource", d.Resource, "shown", d.Shown.String(), "highest", d.Highest, "result", d.Result, "error", err)
	}
	if observe != nil {
		observe(d)
	}
}
