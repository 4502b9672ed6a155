package fence

import "errors"

// ErrUnknownOutcome is what an error matches after which it is not known whether a write,
// or a claim, was applied: its answer was lost. It is never a refusal. Who needs to
// know reads, or does it again where doing it twice is right, as a claim is.
var ErrUnknownOutcome = errors.New("outcome unknown")
