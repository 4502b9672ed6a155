package fence

import (
	"errors"
	"fmt"
)

// ErrStale is matched by every refusal of an outdated token.
var ErrStale = errors.New("stale fencing token")

// StaleError is the refusal of a write whose token is smaller than the greatest that the resource has seen. Nothing was
// applied.
type StaleError struct {
	Shown   Token // the writer's token; 0 without one
	Highest Token // the greatest that the resource has seen
}

// Error implements error.
func (e *StaleError) Error() string {
	if e.Shown == 0 {
		return fmt.Sprintf("%v: none shown, the resource is guarded by token %v", ErrStale, e.Highest)
	}
	return fmt.Sprintf("%v: %v shown, the resource has seen %v", ErrStale, e.Shown, e.Highest)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }
