package fence

import (
	"errors"
	"log/slog"
)

// Result is what a guard has decided.
type Result string

// The results. Each is a value of a metric's label, and stays what it is.
const (
	Passed    Result = "passed"    // admitted
	Raised    Result = "raised"    // the mark was raised to a greater token
	Stale     Result = "stale"     // refused: a smaller token than the mark
	Missing   Result = "missing"   // refused: no token
	Malformed Result = "malformed" // refused: not a token, or one that no leader can have
	Foreign   Result = "foreign"   // refused: not a resource that is guarded here
	Unclaimed Result = "unclaimed" // refused: a greater token than the mark, that was not claimed, or a claim without the right to it
	Busy      Result = "busy"      // refused: smaller ones at work still
	Failed    Result = "failed"    // refused: the mark could not be read or raised
	Ended     Result = "ended"     // the context of work was ended, for a greater token came
)

// Err is what an error of a result matches: that of a refusal, and
// [ErrUnknownOutcome] for [Ended]. It is nil for [Passed] and [Raised], and for [Failed],
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

// ResultOf says under which result an error of a guard counts; nil is [Passed].
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

// Decision is one that a guard has taken.
type Decision struct {
	Resource Resource
	Shown    Token // 0: none
	Highest  Token // the mark, as far as the guard knows; of Ended, the token that came
	Result   Result
}

// DecisionOf returns the decision that an error of a guard stands for; nil is [Passed]. The
// mark is that of a [StaleError], and without one it is highest, 0 where that is not known;
// what has passed has raised it to the token at least.
func DecisionOf(resource Resource, shown, highest Token, err error) Decision {
	if stale, ok := errors.AsType[*StaleError](err); ok {
		highest = stale.Highest
	}
	if err == nil {
		highest = max(highest, shown)
	}
	return Decision{Resource: resource, Shown: shown, Highest: highest, Result: ResultOf(err)}
}

// Report tells of a decision as the packages beneath this one do: it logs err, of which the
// decision came, at level Warn, unless it is nil; and it calls observe, unless that is nil.
// The logger must not be nil. Only a refusal is logged as one: an unknown outcome may be
// that of something that was applied.
func (d Decision) Report(logger *slog.Logger, observe func(Decision), err error) {
	if err != nil {
		what := "refused"
		switch {
		case errors.Is(err, ErrUnknownOutcome):
			what = "outcome unknown"
		case d.Result == Failed:
			what = "failed"
		}
		// By String: MarshalText, which slog prefers, has none for an invalid token.
		logger.Warn(what, "resource", d.Resource, "shown", d.Shown.String(), "highest", d.Highest, "result", d.Result, "error", err)
	}
	if observe != nil {
		observe(d)
	}
}
