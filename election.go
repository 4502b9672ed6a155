package elect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// Election is one participant in one election. Its methods may be called by any number of goroutines; it campaigns or
// leads once at a time.
type Election struct {
	elector driver.Elector
	limits  Limits
	cfg     Config

	mu       sync.Mutex
	busy     bool              // campaigning or leading
	metadata map[string]string // of the next candidacy

	health  *health
	eventMu sync.Mutex // serializes cfg.OnEvent
}

// New makes an Election of a back end's participant, and owns it, unless New returns an error: [Election.Close] closes
// the elector.
func New(elector driver.Elector, cfg Config) (*Election, error) {
	if cfg.ID != "" {
		return nil, fmt.Errorf("elect.Config.ID is %q, and the elector was made with its id; want it empty with New", cfg.ID)
	}
	limits := elector.Limits()
	if err := cfg.complete(limits); err != nil {
		return nil, err
	}
	cfg.Metadata = maps.Clone(cfg.Metadata)
	e := &Election{elector: elector, limits: limits, cfg: cfg, metadata: cfg.Metadata}
	e.health = newHealth(e)
	return e, nil
}

// Limits describes the back end as it is configured.
func (e *Election) Limits() Limits { return e.limits }

// Campaign waits until this participant is elected and returns its term, for programs with a loop of their own; most
// want [Election.Lead]. When the term's context ends the caller stops its work, and then calls [Term.Release], even for
// a lost term: until then another Campaign returns ErrBusy. If ctx ends first Campaign returns its cause. It does not
// retry.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	if err := e.claim(); err != nil {
		return nil, err
	}
	t, err := e.campaign(ctx, false)
	if err != nil {
		e.unclaim()
		return nil, err
	}
	return t, nil
}

func (e *Election) claim() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return ErrBusy
	}
	e.busy = true
	return nil
}

func (e *Election) unclaim() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = false
}

// campaign stands whenever this participant is well, until it has won.
func (e *Election) campaign(ctx context.Context, led bool) (*Term, error) {
	for {
		period, err := e.health.await(ctx)
		if err != nil {
			return nil, err
		}
		standing, stop := context.WithCancelCause(ctx)
		ends := context.AfterFunc(period, func() { stop(context.Cause(period)) })
		t, err := e.stand(standing, period, led)
		ends()
		stop(nil)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil || period.Err() == nil || driver.IsPermanent(err):
			return t, err
		}
	}
}

// stand stands once. period is how long this participant is well.
func (e *Election) stand(ctx, period context.Context, led bool) (*Term, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e.emit(EventCampaigning, nil, nil)
	m, err := e.elector.Campaign(ctx, e.candidacy())
	done := func() {}
	if err == nil {
		if err = e.sound(m); err == nil && e.cfg.Guardian != nil {
			done, err = e.cfg.Guardian.Lead(driver.Guarded{Mandate: m, Exclusive: !e.cfg.NonExclusive})
			if err == nil {
				if err = e.sound(m); err != nil { // it took longer than the lease
					done()
				}
			}
		}
		if err != nil {
			if rerr := e.release(m); rerr != nil {
				err = fmt.Errorf("%w; and it was not released: %w", err, rerr)
			}
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			e.emit(EventWithdrawn, nil, context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
		e.emit(EventFailed, nil, err)
		return nil, err
	}
	return e.begin(ctx, period, m, done, led), nil
}

// sound returns why a victory is of no use. A lease that has run out, or has so little left that the work would be
// stopped before it began, is a temporary error of the campaign and starts no work.
func (e *Election) sound(m driver.Mandate) error {
	if !m.Token().Valid() {
		return driver.Permanent(fmt.Errorf("the back end gave %d as a token; want one from 1 to %d", uint64(m.Token()), uint64(fence.MaxToken)))
	}
	if err := m.Check(); err != nil && !(e.cfg.NonExclusive && errors.Is(err, ErrNotExclusive)) {
		return fmt.Errorf("won, and not proven: %w", err)
	}
	if left, bounded := m.Remaining(); bounded && !e.cfg.NonExclusive && left <= e.cfg.Drain {
		return fmt.Errorf("%w: won with %v of it left, and the drain takes %v", driver.ErrExpired, left, e.cfg.Drain)
	}
	return nil
}

// release releases a mandate, within its own time limit: the context that ended the work must not prevent the
// release.
func (e *Election) release(m driver.Mandate) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.ReleaseTimeout)
	defer cancel()
	return m.Release(ctx)
}

// Leader returns the present leader, as far as the back end can prove it, or ErrNoLeader. If the store does not answer
// it returns the last known leader together with the cause.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	for s, err := range e.elector.Watch(ctx) {
		if err != nil {
			return Leader{}, err
		}
		var l Leader
		if s.Leader != nil {
			l = *s.Leader
		}
		switch {
		case s.Stale:
			return l, fmt.Errorf("cannot tell who leads: %w", cmp.Or(s.Cause, driver.ErrUnreachable))
		case s.Leader == nil:
			if s.Cause != nil {
				return l, fmt.Errorf("%w: %w", ErrNoLeader, s.Cause)
			}
			return l, ErrNoLeader
		}
		return l, nil
	}
	if ctx.Err() != nil {
		return Leader{}, context.Cause(ctx)
	}
	return Leader{}, ErrClosed
}

// Resign asks the leader with that token, or any leader if token is 0, to resign. It is for operators. It returns when
// that leader has accepted, before its work has stopped, or when its term has ended. It returns ErrNoLeader without a
// leader, ErrSuperseded if a leader with another token leads, and ErrUnsupported if the back end cannot.
func (e *Election) Resign(ctx context.Context, token Token) error {
	r, ok := e.elector.(driver.Resigner)
	if !ok {
		return fmt.Errorf("resign: %w", ErrUnsupported)
	}
	return r.Resign(ctx, token)
}

// Transfer is [Election.Resign] in favour of the candidate with the id to, or of the best one if to is empty. If that
// candidate cannot take over it returns ErrIneligible with the reason, and the leader stays.
func (e *Election) Transfer(ctx context.Context, token Token, to string) error {
	a, ok := e.elector.(driver.Transferrer)
	if !ok {
		return fmt.Errorf("transfer: %w", ErrUnsupported)
	}
	if to != "" {
		if err := driver.CheckID(to); err != nil {
			return err
		}
	}
	return a.Transfer(ctx, token, to)
}

// Metadata returns what observers see beside this participant's id when it has won its next campaign: that of the
// Config, or of the last SetMetadata. The caller may change the map.
func (e *Election) Metadata() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.metadata)
}

// SetMetadata replaces [Config].Metadata for the campaigns that begin after it. [Term.SetMetadata] changes it for one
// term.
func (e *Election) SetMetadata(metadata map[string]string) error {
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.metadata = maps.Clone(metadata)
	return nil
}

func (e *Election) candidacy() driver.Candidacy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return driver.Candidacy{Exclusive: !e.cfg.NonExclusive, Metadata: e.metadata, Priority: e.cfg.Priority}
}

// Measure returns what this participant measures of its part in the election, and false if its back end measures
// nothing. It waits for nothing.
func (e *Election) Measure() (driver.Measurements, bool) {
	m, ok := e.elector.(driver.Measurer)
	if !ok {
		return driver.Measurements{}, false
	}
	return m.Measure(), true
}

// Streamer returns what carries streams between the participants, and false if the back end has none.
func (e *Election) Streamer() (driver.Streamer, bool) {
	s, ok := e.elector.(driver.Streamer)
	return s, ok
}

// As reports whether the back end's part in the election is something of the type that target, a pointer, points to, and
// if so sets target to it. A back end's page says what it offers: one of a group has its *group.Group.
func (e *Election) As(target any) bool {
	a, ok := e.elector.(driver.Aser)
	return ok && a.As(target)
}

// Close ends a waiting campaign with ErrClosed, the context of a term with ReasonShutdown, and every Watch. It does not
// wait for the work: first end the context of [Election.Lead] and wait for Lead. It waits up to 2 s for a check of
// [Health] whose context has ended.
func (e *Election) Close() error {
	err := e.elector.Close()
	e.health.close()
	return err
}

func (e *Election) emit(kind EventKind, term *Term, err error) {
	if e.cfg.OnEvent == nil {
		return
	}
	event := Event{Kind: kind, At: time.Now(), Term: term, Err: err}
	if term != nil {
		event.Token = term.Token()
	}
	e.eventMu.Lock()
	defer e.eventMu.Unlock()
	e.cfg.OnEvent(event)
}
