package elect

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/electd/elect/driver"
)

// The defaults of the fields of [Config].
const (
	defaultReleaseTimeout = 5 * time.Second
	defaultStandAside     = time.Second
	defaultMinBackoff     = 100 * time.Millisecond
	defaultMaxBackoff     = 5 * time.Second

	// defaultDrainShare is the part of the lease that is kept for the work to stop. A fifth leaves a holder that renews
	// every quarter of its lease two failed attempts before its work is told.
	defaultDrainShare = 5
)

// Config configures an [Election]. The zero value is valid. A Config is copied; later changes have no effect.
type Config struct {
	// ID names this participant, and must differ between participants. Empty means [DefaultID]. [New] refuses one,
	// because the elector has its id.
	ID string

	// Metadata is shown to observers beside the leader's id: an address, a version. At most 4 KiB over all keys and
	// values. [Term.SetMetadata] changes it for one term.
	Metadata map[string]string

	// NonExclusive lets the work start when this participant is elected, before its lease is proven exclusive; until
	// then Term.Check returns ErrNotExclusive. It is for work whose every effect is fenced by the token, and the same
	// at every candidate of an election.
	NonExclusive bool

	// Priority decides among waiting candidates: the greatest wins, and any of equal ones. It is 1 to [MaxPriority], 0
	// for [DefaultPriority], or [NeverLead], with which Campaign waits until its context ends. It is a preference and
	// no veto. The back end decides whether a leader hands over to a greater one. Without [AbilityPriority] any but 0
	// is refused with ErrUnsupported.
	Priority int

	// Drain is how long before the end of the lease the work's context ends. 0 means a fifth of the lease; it must be
	// below the lease. It has no effect without a lease, or with NonExclusive.
	Drain time.Duration

	// Require names the abilities that this program needs. Open and New refuse a back end without one with
	// ErrUnsupported.
	Require []Ability

	// ReleaseTimeout bounds the release after the work was joined; what is not released by then lapses. 0 means 5 s.
	ReleaseTimeout time.Duration

	// StandAside is how long a leader that resigned waits for another before it stands again. 0 means 1 s.
	StandAside time.Duration

	// MinBackoff and MaxBackoff bound the pause after a temporary error of a campaign. It doubles from failure to
	// failure, and is drawn from its upper half. 0 means 100 ms and 5 s, or the other bound if the default is beyond
	// it.
	MinBackoff, MaxBackoff time.Duration

	// Guardian guards this process while it leads; Guard of package agent/supervise returns one. Nil means none.
	Guardian Guardian

	// Health makes this participant give way while it is ill. The zero value checks nothing.
	Health Health

	// Logger receives the log lines of Lead. Nil is silence.
	Logger *slog.Logger

	// OnEvent is called for each event of [Election.Lead] and [Election.Campaign], in order, by one goroutine at a
	// time. It must return quickly, and must not call methods of the Election or its terms. Nil means none.
	OnEvent func(Event)
}

// Guardian outlives the work of a leader: it ends the work before the lease does, and knows when all of it is dead. Its
// methods may be called by any number of goroutines. If it has a method Renew(), that is called before the context of a
// term ends. Then it asks the mandate for its lease at once, and does not wait: leadership may be lost.
type Guardian interface {
	// Lead passes each mandate to the guardian before its term begins. The lease of the mandate lasts until the work
	// was joined; that of the term ends a drain earlier. done is called once, when the work was joined, before the
	// mandate is released. After an error, which is one of the campaign, no work begins.
	Lead(m driver.Guarded) (done func(), err error)

	// InTime is called if the lease has ended and the work has not returned. It reports whether all that the work does
	// was over before the lease ended: then it is no overrun. It may wait until it knows, but not after the work has
	// returned.
	InTime() bool
}

func (c *Config) complete(l Limits) error {
	for _, a := range c.Require {
		if !slices.Contains(l.Abilities, a) {
			return fmt.Errorf("%w: ability %q is required; it has %v", ErrUnsupported, a, l.Abilities)
		}
	}
	if err := driver.CheckPriority(c.Priority); err != nil {
		return fmt.Errorf("elect.Config.Priority: %w", err)
	}
	if c.Priority != 0 && !slices.Contains(l.Abilities, AbilityPriority) {
		return fmt.Errorf("%w: elect.Config.Priority is %d, and it knows no priorities; want 0", ErrUnsupported, c.Priority)
	}
	if !c.NonExclusive && !l.Exclusive {
		return fmt.Errorf("%w: it cannot prove a leader exclusive; set NonExclusive if every effect of the work is fenced by its token", ErrUnsupported)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"Drain", &c.Drain, l.Lease / defaultDrainShare},
		{"ReleaseTimeout", &c.ReleaseTimeout, defaultReleaseTimeout},
		{"StandAside", &c.StandAside, defaultStandAside},
		{"MinBackoff", &c.MinBackoff, shortest(c.MaxBackoff, defaultMinBackoff)},
		{"MaxBackoff", &c.MaxBackoff, max(defaultMaxBackoff, c.MinBackoff)},
	} {
		if *d.value < 0 {
			return fmt.Errorf("elect.Config.%s is %v; want 0 for the default, or more", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if l.Lease > 0 && c.Drain >= l.Lease && !c.NonExclusive {
		return fmt.Errorf("elect.Config.Drain is %v and the lease %v: the work's context would end before it began; want a drain below the lease", c.Drain, l.Lease)
	}
	if c.MinBackoff > c.MaxBackoff {
		return fmt.Errorf("elect.Config.MinBackoff is %v and MaxBackoff %v; want the first at most the second", c.MinBackoff, c.MaxBackoff)
	}
	if err := c.Health.complete(); err != nil {
		return err
	}
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return fmt.Errorf("elect.Config.Metadata: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// shortest is the lesser of a bound and a default, or the default without a bound.
func shortest(bound, standard time.Duration) time.Duration {
	if bound > 0 {
		return min(bound, standard)
	}
	return standard
}
