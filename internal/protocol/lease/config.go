package lease

import (
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// The limits and defaults of a configuration.
const (
	defaultDuration = 15 * time.Second
	defaultRTT      = 5 * time.Millisecond
	longest         = 24 * time.Hour
	slowest         = time.Minute

	maxSelf = 128 // bytes of a name; what is in it is the back end's
)

// Config is a participant's configuration. Self is required; for the other fields zero means the
// documented default.
type Config struct {
	// Self is this participant's name in the record. Two participants with the same name by mistake
	// are distinguished by their nonces.
	Self protocol.NodeID `json:"self"`

	// Duration is D: how long the others wait for a holder that has fallen silent. The default is
	// 15 s, or MaxDuration if that is less. It may differ between participants, and may be below a
	// second.
	Duration time.Duration `json:"duration,omitzero"`
	// MaxDuration is the longest Duration that any participant may have. It has to be the same in
	// the whole election: participants wait for it where the record does not tell whose lease may
	// be left, which is when the record is absent, was emptied by another program, or comes from
	// another incarnation of the store. The default is 15 s; a longer Duration is refused (L11).
	MaxDuration time.Duration `json:"max_duration,omitzero"`
	// Drift is the assumption about clocks; protocol.DefaultDrift() by default.
	// Its guard is at least 4·protocol.JumpTolerance.
	Drift protocol.Drift `json:"drift,omitzero"`
	// RenewEvery is the time from the sending of one renewal to the next. The default is a quarter
	// of Duration. A back end should give up on an answer after the same time (StatusUnknown).
	RenewEvery time.Duration `json:"renew_every,omitzero"`
	// Poll is the mean time between two reads of a participant that waits, with or without a watch.
	// The default is a quarter of Duration; with reliable watches it may be longer than Duration.
	Poll time.Duration `json:"poll,omitzero"`
	// RTT is a usual round trip to the store, 5 ms by default, at most a minute: candidates spread
	// their attempts over 8 round trips (L10).
	RTT time.Duration `json:"rtt,omitzero"`
	// GlobalVersions says that the store's versions rise over all of its records, deleted ones
	// included. Then a count is above the version it replaces, and tokens go on rising even after
	// the record was deleted (L6).
	GlobalVersions bool `json:"global_versions,omitzero"`

	mutants mutant.Switch
}

// normal returns c with its defaults filled in, or an error if it cannot hold.
func (c Config) normal() (Config, error) {
	if c.MaxDuration == 0 {
		c.MaxDuration = defaultDuration
	}
	if c.Duration == 0 {
		c.Duration = min(defaultDuration, c.MaxDuration)
	}
	if c.Drift == (protocol.Drift{}) {
		c.Drift = protocol.DefaultDrift()
	}
	if c.RenewEvery == 0 {
		c.RenewEvery = c.Duration / 4
	}
	if c.Poll == 0 {
		c.Poll = c.Duration / 4
	}
	if c.RTT == 0 {
		c.RTT = defaultRTT
	}
	if len(c.Self) == 0 || len(c.Self) > maxSelf {
		return c, fmt.Errorf("lease: self %.20q of %d bytes; want 1 to %d", c.Self, len(c.Self), maxSelf)
	}
	if err := c.Drift.Validate(); err != nil {
		return c, fmt.Errorf("lease: %w", err)
	}
	return c, c.possible()
}

// possible returns an error if the times cannot hold together.
func (c Config) possible() error {
	switch {
	case c.MaxDuration < 0 || c.MaxDuration > longest:
		return fmt.Errorf("lease: a longest duration of %v; want more than 0 and at most %v", c.MaxDuration, longest)
	case c.Duration < 0:
		return fmt.Errorf("lease: a duration of %v; want more than 0", c.Duration)
	case c.Duration > c.MaxDuration:
		return fmt.Errorf("lease: a duration of %v is above the longest allowed, %v; raise max_duration at every participant first, or other participants would not wait long enough after a deletion of the record", c.Duration, c.MaxDuration)
	case c.Drift.Guard < 4*protocol.JumpTolerance:
		return fmt.Errorf("lease: a guard of %v; want at least %v, four times the precision to which a clock's jump can be told", c.Drift.Guard, 4*protocol.JumpTolerance)
	case c.RenewEvery <= 0:
		return fmt.Errorf("lease: a renewal every %v; want more than 0", c.RenewEvery)
	case c.Poll <= 0 || c.Poll > longest:
		return fmt.Errorf("lease: a poll every %v; want more than 0 and at most %v", c.Poll, longest)
	case c.RTT <= 0 || c.RTT > slowest:
		return fmt.Errorf("lease: a round trip of %v; want more than 0 and at most %v", c.RTT, slowest)
	}
	// A renewal that is never answered costs one RenewEvery until that is known; then a read
	// decides the outcome, and the next renewal is sent.
	rho := float64(c.Drift.PPM) / 1e6
	claim, need := c.claim(), 2*c.RenewEvery+2*c.RTT
	if claim <= need {
		return fmt.Errorf("lease: of a duration of %v a holder may claim %v · (1 − %g) / (1 + %g) − %v = %v; want more than 2 renewals and 2 round trips, 2 · %v + 2 · %v = %v, so that one lost answer does not cost the lease",
			c.Duration, c.Duration, rho, rho, c.Drift.Guard, claim, c.RenewEvery, c.RTT, need)
	}
	return nil
}

// claim is how long a holder may lead from the sending of a write.
func (c Config) claim() time.Duration { return c.Drift.Claim(c.Duration) }

// spread is J, the time over which candidates spread their attempts (L10).
func (c Config) spread() time.Duration { return 8 * c.RTT }

// pause is the mean time until a failed operation is tried again.
func (c Config) pause() time.Duration { return max(c.RenewEvery/4, 1) }

// WorstTakeover is the longest time, in true time, from the moment when a holder falls silent until
// another participant leads, if the store answers within RTT, watches report nothing, every
// participant has this configuration, and no attempts collide. On the slowest clock allowed it is
//
//	(lag + Duration + 8 · RTT + 2 · RTT) / (1 − ρ)
//
// where lag is how late the last renewal may be seen: 3/2 · Poll, or, if that leaves no time for a
// read before Duration is over, Duration + 10 · RTT, because then the participant's own write finds
// out. A working watch saves the lag. Where the record does not tell whose lease may be left,
// MaxDuration takes the place of Duration. It is 0 for an invalid configuration.
func (c Config) WorstTakeover() time.Duration {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	attempt := c.spread() + 2*c.RTT
	lag := c.Poll + c.Poll/2
	if lag+c.RenewEvery > c.Duration {
		lag = c.Duration + attempt
	}
	return time.Duration(float64(lag+c.Duration+attempt) / (1 - float64(c.Drift.PPM)/1e6))
}

// RequestTimeout is how long a back end should wait for an answer before it reports StatusUnknown.
func (c Config) RequestTimeout() time.Duration {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	return c.RenewEvery
}
