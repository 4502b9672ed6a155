package group

import (
	"fmt"
	"time"
)

// The limits of settings.
const (
	longest     = 24 * time.Hour
	maxBits     = 16
	mostMembers = 1 << 16 // that another's word is believed for
)

// Validate returns an error if a group cannot run with these settings.
func (s *Settings) Validate() error {
	if err := s.Drift.Validate(); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	rho := float64(s.Drift.PPM) / 1e6
	claim, need := s.Drift.Claim(s.Promise), s.Drain+2*s.Poll
	switch {
	case s.Promise <= 0 || s.Promise > longest:
		return fmt.Errorf("group: a promise of %v; want more than 0 and at most %v", s.Promise, longest)
	case s.Cover < s.Promise || s.Cover > longest:
		return fmt.Errorf("group: a cover of %v; want at least the promise, %v, and at most %v, because a new coordinator waits for the promises of the one before; to make both longer, raise the cover everywhere first", s.Cover, s.Promise, longest)
	case s.Poll <= 0:
		return fmt.Errorf("group: a poll every %v; want more than 0", s.Poll)
	case s.Drain < 0:
		return fmt.Errorf("group: a drain of %v; want 0 or more", s.Drain)
	case claim <= need:
		return fmt.Errorf("group: of a promise of %v a member may claim %v · (1 − %g) / (1 + %g) − %v = %v; want more than the drain and 2 polls, %v + 2 · %v = %v, so that one lost answer does not cost the keys",
			s.Promise, s.Promise, rho, rho, s.Drift.Guard, claim, s.Drain, s.Poll, need)
	case s.Vouchers < 0:
		return fmt.Errorf("group: %d vouchers; want 0 for all sessions, or more", s.Vouchers)
	case s.Bits == 0 || s.Bits > maxBits:
		return fmt.Errorf("group: %d bits for the number of an assignment; want 1 to %d", s.Bits, maxBits)
	}
	return nil
}
