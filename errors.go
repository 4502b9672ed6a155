package elect

import (
	"errors"
	"fmt"

	"github.com/electd/elect/driver"
)

// Errors, for errors.Is: one for each decision of a caller.
var (
	// ErrNotLeader means that this term does not lead, or no longer leads. Every [LostError] matches it.
	ErrNotLeader = errors.New("not the leader")
	// ErrLost means that leadership has ended. Every [LostError] matches it.
	ErrLost = errors.New("leadership lost")
	// ErrNotExclusive means that the candidate is elected and not yet proven exclusive.
	ErrNotExclusive = driver.ErrNotExclusive
	// ErrNoLeader means that no leader is known.
	ErrNoLeader = driver.ErrNoLeader
	// ErrSuperseded means that another candidate leads.
	ErrSuperseded = driver.ErrSuperseded
	// ErrIneligible means that the named candidate cannot take over.
	ErrIneligible = driver.ErrIneligible
	// ErrUnsupported means that this back end lacks the ability.
	ErrUnsupported = driver.ErrUnsupported
	// ErrUnknownOutcome means that a write may or may not have been applied.
	ErrUnknownOutcome = driver.ErrUnknownOutcome
	// ErrBusy means that this Election already campaigns or leads.
	ErrBusy = errors.New("this election already campaigns or leads; one at a time")
	// ErrClosed means that the Election was closed.
	ErrClosed = driver.ErrClosed
)

// IsPermanent reports whether an error of [Openers.Open] or [Election.Campaign] is permanent: another attempt fails
// too.
func IsPermanent(err error) bool { return driver.IsPermanent(err) }

// Reason says why leadership ended.
type Reason string

// The reasons.
const (
	ReasonExpired          Reason = "expired"           // the proof ran out before it could be renewed
	ReasonSuperseded       Reason = "superseded"        // another candidate was elected, or the lock was replaced
	ReasonResigned         Reason = "resigned"          // given up, by the holder or at an operator's request
	ReasonStoreUnreachable Reason = "store-unreachable" // the store, or a majority, could not be reached
	ReasonUnhealthy        Reason = "unhealthy"         // this participant is ill: its own health check, its disk, or Term.GiveWay
	ReasonShutdown         Reason = "shutdown"          // the caller's context ended, or the Election was closed
)

// LostError is the end of a term: the cause of the work's context, and the result of [Term.Check] from then on.
type LostError struct {
	Reason Reason
	Token  Token // of the ended term
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

// lost classifies a driver's plain cause as a reason for the caller. An unknown cause counts as unreachable, because
// nothing was proven against this participant.
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
	case errors.Is(cause, driver.ErrUnreachable): // even if the lease expired for that reason
	case errors.Is(cause, driver.ErrExpired):
		reason = ReasonExpired
	}
	return &LostError{Reason: reason, Token: token, Err: cause}
}
