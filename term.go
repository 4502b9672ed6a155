package elect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
)

// Term is one leadership as its holder sees it. It ends once and never revives. Its methods may be called by any number
// of goroutines.
type Term struct {
	election *Election
	mandate  driver.Mandate
	ctx      context.Context
	period   context.Context // ends with an illness when this participant is ill
	sicken   context.CancelCauseFunc
	began    time.Time
	end      context.CancelCauseFunc
	done     func() // tells Config.Guardian that the work was joined
	led      bool   // by Lead, which joins the work and releases
	sequence atomic.Uint64

	settled   chan struct{} // closed when the work was joined
	announced chan struct{} // closed when watch has sent its last event

	mu       sync.Mutex
	target   string // of a requested transfer
	released bool

	setting chan struct{} // held by the SetMetadata under way
}

// begin makes a Term of a new mandate and watches it. The term's context has the values of ctx, and an end of its
// own.
func (e *Election) begin(ctx, period context.Context, m driver.Mandate, done func(), led bool) *Term {
	t := &Term{
		election: e, mandate: m, began: time.Now(), done: done, led: led,
		settled: make(chan struct{}), announced: make(chan struct{}), setting: make(chan struct{}, 1),
	}
	t.ctx, t.end = context.WithCancelCause(context.WithoutCancel(ctx))
	t.period, t.sicken = context.WithCancelCause(period)
	e.emit(EventElected, t, nil)
	go t.watch()
	return t
}

// Context ends when leadership ends, or will end within [Config].Drain, with a *[LostError] as its cause. It carries
// the values of the campaign's context.
func (t *Term) Context() context.Context { return t.ctx }

// Token must accompany every write to a guarded resource. It is strictly greater in every later term of this election.
func (t *Term) Token() Token { return t.mandate.Token() }

// Remaining is how long leadership is proven from now on without another renewal; 0 once the term has ended. It reports
// false if the back end has no lease, as with a lock that the kernel holds.
func (t *Term) Remaining() (time.Duration, bool) {
	d, bounded := t.mandate.Remaining()
	if t.ctx.Err() != nil {
		return 0, bounded
	}
	return d, bounded
}

// Check returns nil while leadership is proven, by the clock, now. Call it before a side effect that cannot be fenced,
// or to serve a read. It does no network I/O. After the end it returns a *[LostError], and with [Config].NonExclusive
// ErrNotExclusive until the lease is proven.
func (t *Term) Check() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	err := t.mandate.Check()
	if err == nil || errors.Is(err, ErrNotExclusive) {
		return err
	}
	return t.finish(err)
}

// Confirm proves leadership by a round trip, without trusting any clock. It returns nil if this term led at some
// instant between call and return, and a *[LostError] if it has ended. After any other error it is not known whether it
// leads. Back ends without the ability return [ErrUnsupported].
func (t *Term) Confirm(ctx context.Context) error {
	c, ok := t.mandate.(driver.Confirmer)
	if !ok {
		return fmt.Errorf("confirm: %w", ErrUnsupported)
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	err := c.Confirm(ctx)
	if err != nil && t.mandate.Context().Err() != nil {
		return t.finish(context.Cause(t.mandate.Context()))
	}
	return err
}

// SetMetadata replaces the metadata that observers see of this leader for the rest of the term. It returns nil when the
// back end has it; observers see it soon after. A term that has ended returns a *[LostError], and back ends without the
// ability return [ErrUnsupported]. After [ErrUnknownOutcome] it may be called again.
func (t *Term) SetMetadata(ctx context.Context, metadata map[string]string) error {
	m, ok := t.mandate.(driver.MetadataSetter)
	if !ok {
		return fmt.Errorf("changing metadata: %w", ErrUnsupported)
	}
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	select {
	case t.setting <- struct{}{}:
		defer func() { <-t.setting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	err := m.SetMetadata(ctx, maps.Clone(metadata))
	if err != nil && t.mandate.Context().Err() != nil {
		return t.finish(context.Cause(t.mandate.Context()))
	}
	return err
}

// Testament returns what a witness needs when this process is dead, for a keeper that another guardian than
// [Config].Guardian has; see [driver.Attestable]. It is empty if the back end believes no witness.
func (t *Term) Testament() driver.Testament {
	m, ok := t.mandate.(driver.Attestable)
	if !ok {
		return driver.Testament{}
	}
	return m.Testament()
}

// Next numbers a message of this leader: (token, 1), (token, 2), … It proves nothing; a receiver refuses a sequence
// that is not above the last it has seen.
func (t *Term) Next() Sequence {
	return Sequence{Token: t.Token(), Position: t.sequence.Add(1)}
}

// Resign ends the term's context with ReasonResigned, and does nothing else. Leadership is released when the work has
// returned: by [Election.Lead], or after [Election.Campaign] by [Term.Release].
func (t *Term) Resign() { _ = t.finish(driver.ErrResigned) }

// GiveWay ends the term's context with ReasonUnhealthy and the error why, as failed checks of [Config].Health do. This
// participant then stands aside for a minute or longer, as after these. For that time it is ill: EventIll has the error
// why, and EventWell comes when it may stand again. GiveWay is for a program that learns otherwise that its work is ill,
// as from a watchdog. The leadership is released as with Resign.
func (t *Term) GiveWay(why error) {
	t.sicken(illness{why: why, given: true})
	<-t.ctx.Done()
}

// Transfer is [Term.Resign] in favour of the candidate with the id to. It refuses a candidate that is known not to be
// able to take over with [ErrIneligible] and the reason, and back ends without the ability return [ErrUnsupported];
// the term then goes on. If the candidate fails after that, another may lead.
func (t *Term) Transfer(to string) error {
	m, ok := t.mandate.(driver.MandateTransferrer)
	if !ok {
		return fmt.Errorf("transfer: %w", ErrUnsupported)
	}
	if err := driver.CheckID(to); err != nil {
		return err
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if err := m.Eligible(to); err != nil {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		return err
	}
	t.mu.Lock()
	t.target = to
	t.mu.Unlock()
	t.Resign()
	return nil
}

// Release releases a term of [Election.Campaign], or hands it to the candidate that [Term.Transfer] named; call it when
// the work has been stopped and joined, even for lost terms. It ends the term's context. If ctx ends first, leadership
// lapses by itself if the back end has a lease. A second call does nothing. For terms of [Election.Lead], which Lead
// releases, it returns an error.
//
// Before that, Release calls what [Config].Guardian has returned for this term. ctx does not bound that call: a
// guardian of processes waits until they are dead, and leadership that is not lost is renewed meanwhile. A caller that
// cannot wait ends this process; its leadership then lapses, or is freed with its locks.
func (t *Term) Release(ctx context.Context) error {
	if t.led {
		return errors.New("a term of Lead is released by Lead, when its work has returned; to end it, call Resign or return from the work")
	}
	t.Resign()
	first, err := t.settle(ctx)
	if first {
		t.election.unclaim()
	}
	return err
}

// finish ends the term for good; the first cause stays. It returns that cause.
func (t *Term) finish(cause error) error {
	if g, ok := t.election.cfg.Guardian.(interface{ Renew() }); ok && t.ctx.Err() == nil {
		g.Renew() // before anybody is told
	}
	t.end(lost(t.Token(), cause))
	return context.Cause(t.ctx)
}

// settle releases the mandate, once, after the work was joined and the term was finished. It reports whether this
// call released it.
func (t *Term) settle(ctx context.Context) (first bool, err error) {
	t.mu.Lock()
	target, again := t.target, t.released
	t.released = true
	t.mu.Unlock()
	if again {
		return false, nil
	}
	close(t.settled)
	<-t.announced
	t.done()
	if tr, ok := t.mandate.(driver.MandateTransferrer); ok && target != "" {
		err = tr.Transfer(ctx, target)
	} else {
		if loss, ok := errors.AsType[*LostError](context.Cause(t.ctx)); ok {
			ctx = driver.WithEnding(ctx, string(loss.Reason))
		}
		err = t.mandate.Release(ctx)
	}
	t.election.emit(EventReleased, t, err)
	return true, err
}

// watch ends the term in time, and afterwards checks whether the work returned before the lease ended.
func (t *Term) watch() {
	cause := t.awaitEnd()
	late := t.toldLate(cause)
	if loss, ok := errors.AsType[*LostError](cause); ok && loss.Reason != ReasonResigned && loss.Reason != ReasonShutdown {
		if _, counted := errors.AsType[illness](loss.Err); !counted {
			t.election.health.lost(time.Since(t.began)) // before EventEnded, as after an illness
		}
	}
	t.election.emit(EventEnded, t, cause)
	if g := t.election.cfg.Guardian; t.overruns() && (g == nil || !g.InTime()) {
		t.election.emit(EventOverrun, t, cause)
		log := t.election.cfg.Logger
		if late && t.returns(max(t.election.cfg.Drain, thawTime)) {
			log.Warn("the lease ended before the work was told, as when this process did not run; the work returned when it was told", "token", t.Token())
		} else {
			log.Error("the lease has ended and the work has not returned", "token", t.Token())
		}
	}
	close(t.announced)
}

// thawTime is how long work may take to return, without an error, in a process that has just begun to run again and
// catches up.
const thawTime = time.Second

// toldLate reports whether the term ran out, or was seen to be superseded, only when its lease was over: this process
// did not run when the drain was due, so the work could not be told.
func (t *Term) toldLate(cause error) bool {
	loss, _ := errors.AsType[*LostError](cause)
	left, bounded := t.mandate.Remaining()
	return loss != nil && (loss.Reason == ReasonExpired || loss.Reason == ReasonSuperseded) && bounded && left <= 0
}

// returns reports whether the work is joined within d.
func (t *Term) returns(d time.Duration) bool {
	select {
	case <-t.settled:
		return true
	case <-time.After(d):
		return t.joined()
	}
}

// awaitEnd returns the cause once the term has ended. Renewals push the lease out, so it reads the lease again each
// time the drain would begin.
func (t *Term) awaitEnd() error {
	defer t.sicken(nil)
	m, cfg := t.mandate, &t.election.cfg
	for {
		var drain <-chan time.Time
		var lapse <-chan struct{} // in its place, if the mandate shares its lease
		if left, bounded := m.Remaining(); bounded && !cfg.NonExclusive {
			if left <= cfg.Drain {
				if err := m.Check(); err != nil {
					return t.finish(err) // the mandate's own reason
				}
				return t.finish(fmt.Errorf("%w: not renewed in time; the term ended %v before the lease", driver.ErrExpired, left.Round(time.Millisecond)))
			}
			if l, shares := m.(driver.Lapser); shares {
				lapse = l.Lapse(cfg.Drain)
			} else {
				drain = time.After(clock.Timer(left - cfg.Drain))
			}
		}
		select {
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		case <-m.Context().Done():
			return t.finish(context.Cause(m.Context()))
		case <-t.period.Done():
			i, _ := errors.AsType[illness](context.Cause(t.period)) // it has no other causes
			i.rest = t.election.health.takeRest(time.Since(t.began))
			cause := t.finish(i)
			if i.given {
				t.election.health.gaveWay(i.why) // last, because OnEvent may block
			}
			return cause
		case <-drain:
		case <-lapse:
		}
	}
}

// overruns waits until the work was joined or the proof of leadership has ended, and returns true if the latter came
// first. A driver renews until it is released, so overruns reads the lease again each time it would end.
func (t *Term) overruns() bool {
	m := t.mandate
	if t.election.cfg.NonExclusive {
		return false // the work may overlap: only tokens order it
	}
	ended := m.Context().Done()
	for {
		var lapse <-chan time.Time
		left, bounded := m.Remaining()
		switch {
		case bounded && left <= 0, !bounded && takenAway(m):
			return !t.joined()
		case bounded:
			lapse = time.After(clock.Timer(left))
		}
		select {
		case <-t.settled:
			return false
		case <-ended:
			ended = nil
		case <-lapse:
		}
	}
}

// takenAway reports whether a mandate without a lease is lost. One that was asked back is still held until it is
// released.
func takenAway(m driver.Mandate) bool {
	return m.Context().Err() != nil && !errors.Is(context.Cause(m.Context()), driver.ErrResigned)
}

func (t *Term) joined() bool {
	select {
	case <-t.settled:
		return true
	default:
		return false
	}
}
