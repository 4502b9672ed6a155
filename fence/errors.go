package fence

import "errors"

// ErrMissing is matched by the refusal of a write to a guarded resource without a token.
var ErrMissing = errors.New("no fencing token shown")

// ErrUnclaimed is matched by the refusal of a token greater than the mark: its leader has not claimed the resource, or
// the resource was restored from an older backup. A leader that claims, and reads its state again, may go on. It is
// also the refusal of a claim without the right to claim.
var ErrUnclaimed = errors.New("not claimed with this token")

// ErrBusy is matched by the refusal of a sufficient token while work of smaller ones has not ended. The caller should
// try again; the mark may be raised already.
var ErrBusy = errors.New("the work of earlier leaders has not ended")

// ErrUnknownOutcome is matched by an error after which it is not known whether a write, or a claim, was applied. It is
// never a refusal. A caller that needs to know reads; a claim is made again.
var ErrUnknownOutcome = errors.New("outcome unknown")
