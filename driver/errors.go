package driver

import (
	"errors"

	"github.com/electd/elect/fence"
)

// The plain reasons for the end of a mandate, and the outcomes that a caller distinguishes. A driver wraps them with
// details.
var (
	// ErrExpired means that the proof ran out before it could be renewed.
	ErrExpired = errors.New("lease expired")
	// ErrSuperseded means that another candidate was elected, or the lock was replaced.
	ErrSuperseded = errors.New("superseded")
	// ErrResigned means that leadership was asked back, by its holder or an operator.
	ErrResigned = errors.New("resigned")
	// ErrUnreachable means that the store, or a majority of peers, cannot be reached.
	ErrUnreachable = errors.New("store or peers unreachable")
	// ErrUnhealthy means that a health check of this participant failed, or that its disk is ill.
	ErrUnhealthy = errors.New("unhealthy")
	// ErrClosed means that the Elector was closed.
	ErrClosed = errors.New("elector closed")

	// ErrNoLeader means that no leader is known.
	ErrNoLeader = errors.New("no leader")
	// ErrNotExclusive means that the candidate is elected and not yet proven exclusive.
	ErrNotExclusive = errors.New("not proven exclusive")
	// ErrIneligible means that the named candidate cannot take over.
	ErrIneligible = errors.New("cannot take over")
	// ErrUnsupported means that this back end lacks the ability.
	ErrUnsupported = errors.New("not supported by this back end")
	// ErrUnknownOutcome means that a write may or may not have been applied, and that reading could not resolve it.
	// Guarded resources return the same error.
	ErrUnknownOutcome = fence.ErrUnknownOutcome
)

// Permanent marks an error that another attempt will not mend: configuration, credentials, a state directory of another
// version. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error that it wraps, was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
