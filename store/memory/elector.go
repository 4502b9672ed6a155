package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// The lease that a participant asks for, and its bounds.
const (
	DefaultLease = time.Second
	MinLease     = 10 * time.Millisecond
	MaxLease     = time.Hour

	renewalsPerLease = 4
)

// Config configures a participant. The zero value is valid.
type Config struct {
	// Lease is how long the store keeps a leader that it does not hear from, from 10 ms to 1 h. 0
	// means 1 s.
	Lease time.Duration
}

// Elector is a participant, with its faults. It implements [driver.Elector], [driver.Resigner] and
// [driver.Transferrer]. Priorities decide among those that wait; a leader does not hand over to a
// waiter because of them.
type Elector struct {
	name   string // of the election
	id     string
	lease  time.Duration
	link   *link
	closed context.Context
	close  context.CancelCauseFunc
}

// New opens the participant id in the election called name; see [driver.CheckName] and
// [driver.CheckID].
func (s *Store) New(name, id string, cfg Config) (*Elector, error) {
	if err := driver.CheckName(name); err != nil {
		return nil, driver.Permanent(err)
	}
	if err := driver.CheckID(id); err != nil {
		return nil, driver.Permanent(err)
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Lease < MinLease || cfg.Lease > MaxLease {
		return nil, driver.Permanent(fmt.Errorf("lease %v; want %v to %v", cfg.Lease, MinLease, MaxLease))
	}
	e := &Elector{name: name, id: id, lease: cfg.Lease, link: newLink(s)}
	e.closed, e.close = context.WithCancelCause(context.Background())
	return e, nil
}

// Cut cuts the participant off from the store, or ends the cut.
func (e *Elector) Cut(on bool) { e.link.set(func() { e.link.cut = on }) }

// Freeze stops the participant, like a stopped process or a long pause: it sends and receives
// nothing until it is thawed. Calls of the test itself still run.
func (e *Elector) Freeze(on bool) { e.link.set(func() { e.link.frozen = on }) }

// LoseAnswers makes the next n requests be carried out and their answers lost.
func (e *Elector) LoseAnswers(n int) { e.link.set(func() { e.link.lose = n }) }

// DelayAnswer makes the answer to the next request arrive late by d.
func (e *Elector) DelayAnswer(d time.Duration) { e.link.set(func() { e.link.delay = d }) }

// Crash ends the participant like the death of its process: nothing is released, and nothing more
// is sent.
func (e *Elector) Crash() {
	e.Cut(true)
	_ = e.Close()
}

// Limits implements [driver.Elector].
func (e *Elector) Limits() driver.Limits {
	return driver.Limits{
		Lease: e.lease, MinLease: MinLease, MaxLease: MaxLease,
		Takeover:  e.lease + deference,
		Exclusive: true,
		Abilities: []driver.Ability{
			driver.AbilityConfirm, driver.AbilityTransfer, driver.AbilityResign, driver.AbilityPriority,
			driver.AbilityMetadata,
		},
		Assumes: "all participants are in one process",
	}
}

// Close implements [driver.Elector].
func (e *Elector) Close() error {
	e.close(driver.ErrClosed)
	return nil
}

// bound returns a context that ends with ctx or with the Elector.
func (e *Elector) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if e.closed.Err() != nil {
		cancel(driver.ErrClosed) // at once: AfterFunc would do it in a goroutine
	}
	stop := context.AfterFunc(e.closed, func() { cancel(driver.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// Campaign implements [driver.Elector].
func (e *Elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if e.closed.Err() != nil {
		return nil, driver.ErrClosed
	}
	if err := driver.CheckPriority(c.Priority); err != nil {
		return nil, driver.Permanent(err)
	}
	ctx, done := e.bound(ctx)
	defer done()
	if c.Priority == driver.NeverLead {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	priority := cmp.Or(c.Priority, driver.DefaultPriority)
	nonce := rand.Text()
	me := driver.Leader{ID: e.id, Metadata: c.Metadata}
	asked := false
	for {
		if ctx.Err() != nil { // then no further request is sent
			e.withdraw(nonce, asked)
			return nil, context.Cause(ctx)
		}
		_, linkChanged := e.link.changes()
		sent := time.Now()
		a, err := e.link.call(ctx, func() answer { return e.link.store.acquire(e.name, nonce, me, priority, e.lease) })
		asked = asked || err == nil || errors.Is(err, driver.ErrUnknownOutcome)
		switch {
		case ctx.Err() != nil:
			e.withdraw(nonce, asked)
			return nil, context.Cause(ctx)
		case errors.Is(err, driver.ErrUnknownOutcome):
			continue // repeating it is safe, and tells
		case err != nil:
			return nil, err // an earlier request may have been granted, and lapses
		case a.granted && time.Now().Before(sent.Add(e.lease)):
			return newMandate(e, nonce, a.leader, sent.Add(e.lease)), nil
		case a.granted:
			continue // it lapsed while the answer was under way
		}
		if err := e.link.await(ctx, a, linkChanged); err != nil {
			e.withdraw(nonce, asked)
			return nil, err
		}
	}
}

// withdraw withdraws a cancelled candidacy, and what it may have been granted. If the store is out
// of reach, the grant lapses.
func (e *Elector) withdraw(nonce string, asked bool) {
	if !asked || e.link.reachable() != nil {
		return
	}
	e.link.store.withdraw(e.name, nonce)
}

// Watch implements [driver.Elector].
func (e *Elector) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		ctx, done := e.bound(ctx)
		defer done()
		var last driver.State
		first := true
		for ctx.Err() == nil {
			storeChanged, linkChanged := e.link.changes()
			a, err := e.link.call(ctx, func() answer { return e.link.store.read(e.name) })
			if ctx.Err() != nil {
				return
			}
			now := driver.State{}
			switch {
			case errors.Is(err, driver.ErrUnknownOutcome) && e.link.reachable() == nil:
				continue // a read may be asked again
			case err != nil:
				now = driver.State{Leader: last.Leader, Stale: true, Cause: err}
				a = answer{changed: storeChanged}
			case a.holder != "":
				now.Leader = &a.leader
				now.Leader.Metadata = maps.Clone(a.leader.Metadata)
			}
			if first || changed(last, now) {
				if !yield(now, nil) {
					return
				}
			}
			first, last = false, now
			if e.link.await(ctx, a, linkChanged) != nil {
				return
			}
		}
	}
}

func changed(a, b driver.State) bool {
	return a.Stale != b.Stale || token(a.Leader) != token(b.Leader) ||
		a.Leader != nil && !maps.Equal(a.Leader.Metadata, b.Leader.Metadata)
}

func token(l *driver.Leader) fence.Token {
	if l == nil {
		return 0
	}
	return l.Token
}

// Resign implements [driver.Resigner].
func (e *Elector) Resign(ctx context.Context, want fence.Token) error {
	return e.Transfer(ctx, want, "")
}

// Transfer implements [driver.Transferrer].
func (e *Elector) Transfer(ctx context.Context, want fence.Token, to string) error {
	ctx, done := e.bound(ctx)
	defer done()
	a, err := e.link.call(ctx, func() answer { return e.link.store.recall(e.name, want, to) })
	switch {
	case err != nil:
		return err
	case a.refusal != nil:
		return a.refusal
	case a.granted:
		return nil
	case a.holder == "":
		return driver.ErrNoLeader
	}
	return fmt.Errorf("%w: the leader has token %v", driver.ErrSuperseded, a.leader.Token)
}
