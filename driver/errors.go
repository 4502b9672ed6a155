package driver

import (
	"errors"

	"github.com/electd/elect/fence"
)

// The plain reasons for which a mandate ends, and the outcomes that a caller
// tells apart. A driver wraps them with what it knows: which store, what it
// answered.
var (
	// ErrExpired: the proof ran out before it could be renewed.
	ErrExpired = errors.New("lease expired")
	// ErrSuperseded: somebody else was elected, or the lock was replaced.
	ErrSuperseded = errors.New("superseded")
	// ErrResigned: leadership was asked back, by its holder or an operator.
	ErrResigned = errors.New("resigned")
	// ErrUnreachable: the store, or a majority of peers, cannot be reached.
	ErrUnreachable = errors.New("store or peers unreachable")
	// ErrUnhealthy: a health check of this participant failed.
	ErrUnhealthy = errors.New("unhealthy")
	// ErrClosed: the Elector was closed.
	ErrClosed = errors.New("elector closed")

	// ErrNoLeader: nobody is known to lead.
	ErrNoLeader = errors.New("no leader")
	// ErrNotExclusive: elected, and not yet proven exclusive.
	ErrNotExclusive = errors.New("not proven exclusive")
	// ErrIneligible: the candidate that was named cannot take over.
	ErrIneligible = errors.New("cannot take over")
	// ErrUnsupported: this back end cannot do that.
	ErrUnsupported = errors.New("not supported by this back end")
	// ErrUnknownOutcome: a write may or may not have landed, and could not be
	// resolved by reading. A guarded resource's is the same.
	ErrUnknownOutcome = fence.ErrUnknownOutcome
)

// Permanent marks an error that trying again will not mend: configuration,
// credentials, a state directory of another version. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or what it wraps, was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
