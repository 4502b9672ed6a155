package elect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/driver"
)

// Health makes a participant give way while it is ill: as a candidate it stands aside, and as a leader it ends its term
// with [ReasonUnhealthy]. The zero value checks nothing.
type Health struct {
	// Check returns nil if this participant can do the work. It is called by one goroutine at a time, from the first
	// Campaign or Lead until Close, whether it leads or not. If it panics the program ends.
	Check func(ctx context.Context) error

	// Every is the time between the end of a check and the next one. 0 means 5 s.
	Every time.Duration

	// Timeout is when the context of a check ends, and the check has failed; no other begins before it has returned.
	// 0 means 5 s.
	Timeout time.Duration

	// Failures is how many checks in a row fail before a healthy participant is ill; 0 means 3. Successes is how many
	// succeed before an ill one is well; 0 means 2. The first check of all decides alone.
	Failures, Successes int

	// WhenAllIll says what happens if nobody leads, as when all are ill.
	WhenAllIll AllIll
}

// AllIll is a choice for [Health].WhenAllIll.
type AllIll int

const (
	// AllIllLead lets an ill participant stand after all when nobody has led for 10 s and the back end's
	// Limits.Takeover. The same holds for one that is well and stands aside because it was ill as a leader. The term
	// ends by illness only after it was ill and well again.
	AllIllLead AllIll = iota
	// AllIllNone lets nobody lead.
	AllIllNone
)

// The defaults of [Health].
const (
	defaultHealthTime = 5 * time.Second
	defaultFailures   = 3
	defaultSuccesses  = 2

	// leaderless is how long nobody leads, beside the time of a takeover, before an ill participant stands.
	leaderless = 10 * time.Second
)

// A leader that has given way stands aside for firstRest even if it is soon well, and for twice as long each further
// time, up to longestRest: a participant that fails only while it works must not take leadership back and forth. Time
// in which it leads and is well for longestRest makes it forget.
const (
	firstRest   = time.Minute
	longestRest = 16 * time.Minute
)

func (h *Health) complete() error {
	if h.Check == nil {
		if h.Every != 0 || h.Timeout != 0 || h.Failures != 0 || h.Successes != 0 || h.WhenAllIll != 0 {
			return errors.New("elect.Config.Health has no Check; want one, or no Health")
		}
		return nil
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
	}{{"Every", &h.Every}, {"Timeout", &h.Timeout}} {
		if *d.value < 0 {
			return fmt.Errorf("elect.Config.Health.%s is %v; want 0 for the default, or more", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = defaultHealthTime
		}
	}
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{{"Failures", &h.Failures, defaultFailures}, {"Successes", &h.Successes, defaultSuccesses}} {
		if *n.value < 0 {
			return fmt.Errorf("elect.Config.Health.%s is %d; want 0 for the default, or more", n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
	}
	if h.WhenAllIll != AllIllLead && h.WhenAllIll != AllIllNone {
		return fmt.Errorf("elect.Config.Health.WhenAllIll is %d; want AllIllLead or AllIllNone", h.WhenAllIll)
	}
	return nil
}

// state is what the checks say.
type state byte

const (
	unknown state = iota
	well
	ill
)

// health is the state of a participant's health. A nil health is always well.
type health struct {
	cfg      Health
	election *Election
	life     context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup // of run
	hanging  <-chan error   // the check that has not returned in time; owned by run

	mu     sync.Mutex
	begun  bool                    // run
	state  state                   // written by run alone
	turned chan struct{}           // closed, and replaced, when state changes
	period context.Context         // of the present or next time of health; ends with the failure that ended it
	fail   context.CancelCauseFunc // of period
	rest   time.Duration           // after the last term that ended by illness
	until  time.Time               // the end of that rest
}

func newHealth(e *Election) *health {
	if e.cfg.Health.Check == nil {
		return nil
	}
	h := &health{cfg: e.cfg.Health, election: e, turned: make(chan struct{})}
	h.life, h.stop = context.WithCancel(context.Background())
	h.period, h.fail = context.WithCancelCause(context.Background())
	return h
}

// close ends the checks. It does not wait for one that does not return.
func (h *health) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.stop()
	h.mu.Unlock()
	h.running.Wait()
}

// run checks until close.
func (h *health) run() {
	failed, succeeded := h.cfg.Failures, h.cfg.Successes // the first check decides
	for {
		err := h.check()
		if h.life.Err() != nil {
			return
		}
		if err != nil {
			failed, succeeded = failed+1, 0
		} else {
			failed, succeeded = 0, succeeded+1
		}
		switch {
		case failed >= h.cfg.Failures && h.state != ill:
			h.election.emit(EventIll, nil, err)
			h.turn(ill, err)
		case succeeded >= h.cfg.Successes && h.state != well:
			h.election.emit(EventWell, nil, nil)
			h.turn(well, nil)
		}
		if !sleep(h.life, h.cfg.Every) {
			return
		}
	}
}

// check makes one check. While an earlier one has not returned it makes none, and that is a failure.
func (h *health) check() error {
	ctx, cancel := context.WithTimeoutCause(h.life, h.cfg.Timeout, fmt.Errorf("the check took longer than %v", h.cfg.Timeout))
	defer cancel()
	if h.hanging != nil {
		select {
		case <-h.hanging:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	done := make(chan error, 1)
	go func() { done <- h.cfg.Check(ctx) }()
	select {
	case err := <-done:
		h.hanging = nil
		return err
	case <-ctx.Done():
		h.hanging = done
		return context.Cause(ctx)
	}
}

// turn changes the state.
func (h *health) turn(to state, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == well {
		h.fail(fmt.Errorf("%w: %w", driver.ErrUnhealthy, why))
		h.period, h.fail = context.WithCancelCause(context.Background())
	}
	h.state = to
	close(h.turned)
	h.turned = make(chan struct{})
}

// await waits until the participant may stand, and returns a context that ends when it is ill.
func (h *health) await(ctx context.Context) (period context.Context, err error) {
	if h == nil {
		return context.Background(), nil
	}
	h.mu.Lock()
	if !h.begun && h.life.Err() == nil {
		h.begun = true
		h.running.Go(h.run)
	}
	h.mu.Unlock()
	var nobody <-chan struct{}
	for {
		h.mu.Lock()
		state, turned, period, rest := h.state, h.turned, h.period, time.Until(h.until)
		h.mu.Unlock()
		var rested <-chan time.Time
		switch {
		case state == well && rest <= 0:
			return period, nil
		case state == well:
			rested = time.After(rest)
		}
		if nobody == nil && h.cfg.WhenAllIll == AllIllLead {
			watching, stop := context.WithCancel(ctx)
			defer stop()
			nobody = h.leaderless(watching)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-h.life.Done():
			return nil, ErrClosed
		case <-turned:
		case <-rested:
		case <-nobody:
			h.election.cfg.Logger.Warn("nobody leads: standing although it is ill, or has been until now")
			return h.afterIllness(state, period), nil
		}
	}
}

// afterIllness returns a context that ends with the illness after the next one, if the participant is well, or after
// the present one: of one that stands because nobody leads, it is known that it falls ill.
func (h *health) afterIllness(s state, period context.Context) context.Context {
	if s != well {
		return period
	}
	later, end := context.WithCancelCause(context.Background())
	context.AfterFunc(period, func() {
		h.mu.Lock()
		next := h.period
		h.mu.Unlock()
		context.AfterFunc(next, func() { end(context.Cause(next)) })
	})
	return later
}

// leaderless returns a channel that is closed when nobody has led for some time.
func (h *health) leaderless(ctx context.Context) <-chan struct{} {
	gone := make(chan struct{})
	after := leaderless + h.election.limits.Takeover
	go func() {
		var timer *time.Timer
		for s, err := range h.election.elector.Watch(ctx) {
			none := err == nil && s.Leader == nil && !s.Stale
			switch {
			case none && timer == nil:
				timer = time.AfterFunc(after, func() { close(gone) })
			case !none && timer != nil && timer.Stop():
				timer = nil
			}
		}
		if timer != nil {
			timer.Stop()
		}
	}()
	return gone
}

// gaveWay notes that a term has ended by illness, and how long it lasted.
func (h *health) gaveWay(lasted time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lasted >= longestRest {
		h.rest = 0
	}
	h.rest = min(max(2*h.rest, firstRest), longestRest)
	h.until = time.Now().Add(h.rest)
}
