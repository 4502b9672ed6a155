package fencesql

import (
	"fmt"
	"strings"

	"github.com/electd/elect/fence"
)

// Refusal reads the error of a statement that wrote to a guarded table ([Guard.InstallTriggers]). If the trigger has
// refused the statement, the result matches err and what [Guard.Check] would have returned, such as a
// *fence.StaleError. It returns any other error unchanged.
//
// The SQLSTATEs are LF001 for a stale token, LF002 for none, LF003 for a malformed one, LF004 for a resource that was
// removed, LF005 for a token that was not claimed.
func Refusal(err error) error {
	if err == nil {
		return nil
	}
	switch state(err) {
	case stateStale:
		return fmt.Errorf("%w (%w)", staleIn(err.Error()), err)
	case stateMissing:
		return fmt.Errorf("%w (%w)", fence.ErrMissing, err)
	case stateMalformed:
		return fmt.Errorf("%w (%w)", fence.ErrToken, err)
	case stateForeign:
		return fmt.Errorf("%w (%w)", fence.ErrResource, err)
	case stateUnclaimed:
		return fmt.Errorf("%w (%w)", fence.ErrUnclaimed, err)
	}
	return err
}

// staleIn finds the refusal in the trigger's text, which is that of StaleError. If the text was lost the error still
// matches ErrStale.
func staleIn(text string) error {
	var s fence.StaleError
	_, tail, _ := strings.Cut(text, fence.ErrStale.Error()+": ")
	if _, err := fmt.Sscanf(tail, "%d shown, the resource has seen %d", &s.Shown, &s.Highest); err != nil || !s.Shown.Valid() || s.Highest <= s.Shown {
		return fence.ErrStale
	}
	return &s
}
