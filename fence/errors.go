package fence

import "errors"

// ErrMissing is what the refusal of a write matches that shows no token to a
// guarded resource.
var ErrMissing = errors.New("no fencing token shown")

// ErrUnclaimed is what the refusal of a write matches whose token is greater than the
// mark: its leader has not claimed the resource, or the resource was restored from a
// backup that is older than its claim, and has forgotten it. Nothing was applied. A
// leader that claims, and reads anew what it builds on, may go on. The refusal of a claim
// matches it that has not shown the right to claim.
var ErrUnclaimed = errors.New("not claimed with this token")

// ErrBusy is what the refusal of a token matches that is great enough, while work of
// smaller ones has not ended. Asking again is right. The mark may be raised already.
var ErrBusy = errors.New("the work of earlier leaders has not ended")

// ErrUnknownOutcome is what an error matches after which it is not known whether a write,
// or a claim, was applied: its answer was lost. It is never a refusal. Whoever needs to
// know reads; what may be done twice, such as a claim, is done again.
var ErrUnknownOutcome = errors.New("outcome unknown")
