package elect

import (
	"errors"
	"fmt"

	"github.com/electd/elect/driver"
)

// One sentinel for each decision that a caller makes. Compare with errors.Is.
var (
	// ErrNotLeader: this term does not lead, or does not lead any more. Every
	// [LostError] matches it.
	ErrNotLeader = errors.New("not the leader")
	// ErrLost: leadership was had and has ended. Every [LostError] matches it.
	ErrLost = errors.New("leadership lost")
	// ErrNotExclusive: elected, and not yet proven exclusive.
	ErrNotExclusive = driver.ErrNotExclusive
	// ErrNoLeader: nobody is known to lead.
	ErrNoLeader = driver.ErrNoLeader
	// ErrSuperseded: somebody else leads than the one that was meant.
	ErrSuperseded = driver.ErrSuperseded
	// ErrIneligible: the candidate that was named cannot take over.
	ErrIneligible = driver.ErrIneligible
	// ErrUnsupported: this back end cannot do that.
	ErrUnsupported = driver.ErrUnsupported
	// ErrUnknownOutcome: a write may or may not have landed.
	ErrUnknownOutcome = driver.ErrUnknownOutcome
	// ErrBusy: this Election campaigns or leads already.
	ErrBusy = errors.New("this election already campaigns or leads; one at a time")
	// ErrClosed: the Election was closed.
	ErrClosed = driver.ErrClosed
)

// IsPermanent reports whether an error of [Openers.Open] or [Election.Campaign]
// says that trying again is of no use. [Election.Lead] returns such errors and
// retries others by itself.
func IsPermanent(err error) bool { return driver.IsPermanent(err) }

// Reason says why leadership ended.
type Reason string

// The reasons.
const (
	ReasonExpired          Reason = "expired"           // the proof ran out before it could be renewed
	ReasonSuperseded       Reason = "superseded"        // somebody else was elected, or the lock was replaced
	ReasonResigned         Reason = "resigned"          // given up, by the holder or at an operator's word
	ReasonStoreUnreachable Reason = "store-unreachable" // the store, or a majority, could not be reached
	ReasonUnhealthy        Reason = "unhealthy"         // this participant's own health check failed
	ReasonShutdown         Reason = "shutdown"          // the caller's context ended, or the Election was closed
)

// LostError is the end of a term. It is the cause of the work's context, and
// what [Term.Check] returns from then on.
type LostError struct {
	Reason Reason
	Token  Token // of the term that ended
	Err    error // the plain cause; may be nil
}

// Error implements error.
func (e *LostError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("leadership of term %v lost: %s", e.Token, e.Reason)
	}
	return fmt.Sprintf("leadership of term %v lost: %s: %v", e.Token, e.Reason, e.Err)
}

// Is reports whether target is [ErrLost] or [ErrNotLeader].
func (e *LostError) Is(target error) bool { return target == ErrLost || target == ErrNotLeader }

// Unwrap returns the plain cause.
func (e *LostError) Unwrap() error { return e.Err }

// lost sorts a driver's plain cause into the reason that a caller acts on. An
// unknown cause counts as the store's, since nothing was proven against us.
func lost(token Token, cause error) *LostError {
	reason := ReasonStoreUnreachable
	switch {
	case errors.Is(cause, driver.ErrResigned):
		reason = ReasonResigned
	case errors.Is(cause, driver.ErrSuperseded):
		reason = ReasonSuperseded
	case errors.Is(cause, driver.ErrUnhealthy):
		reason = ReasonUnhealthy
	case errors.Is(cause, driver.ErrClosed):
		reason = ReasonShutdown
	case errors.Is(cause, driver.ErrUnreachable): // also if it expired for that
	case errors.Is(cause, driver.ErrExpired):
		reason = ReasonExpired
	}
	return &LostError{Reason: reason, Token: token, Err: cause}
}
