package elect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/driver"
)

// Health makes a participant give way while it is ill: as a candidate it stands aside, and as a leader it ends its term
// with [ReasonUnhealthy]. The zero value checks nothing; [Term.GiveWay] works without a Check, too.
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

	// Losses is how many terms that end by a loss or by illness within Window make this participant rest, if the last
	// one is a loss: it is ill for that time, and another can lead. A resignation and the end of Lead's context do not
	// count. If nobody leads it stands, as with AllIllLead, whatever WhenAllIll is. 0 means that losses do not count.
	Losses int

	// Window is that time; 0 means 10 minutes.
	Window time.Duration

	// Rest is how long a leader that has given way stands aside, or that has lost too many terms, even if it is soon
	// well. Each further time it is twice as long, up to LongestRest; a term of twice LongestRest makes it forget. 0
	// means a minute and 16 minutes, or the other one if the default is beyond it.
	Rest, LongestRest time.Duration
}

// AllIll is a choice for [Health].WhenAllIll.
type AllIll int

const (
	// AllIllLead lets an ill participant stand after all when nobody has led for 10 s and the back end's
	// Limits.Takeover, and one that stands aside because it was ill as a leader. For the time of Health.Rest its illness
	// does not end the term; for twice as long each further time, up to LongestRest. If it is ill then, it gives way
	// again, so that one that is well can lead.
	AllIllLead AllIll = iota
	// AllIllNone lets nobody lead. It does not apply to the illness of a peer's disk, which is no check of Health.
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

// The defaults of Health.Rest, LongestRest and Window. A participant that fails only while it works, or has a bad
// network, must not take leadership back and forth.
const (
	firstRest   = time.Minute
	longestRest = 16 * time.Minute
	lossWindow  = 10 * time.Minute
)

func (h *Health) complete() error {
	if h.WhenAllIll != AllIllLead && h.WhenAllIll != AllIllNone {
		return fmt.Errorf("elect.Config.Health.WhenAllIll is %d; want AllIllLead or AllIllNone", h.WhenAllIll)
	}
	switch {
	case h.Losses < 0:
		return fmt.Errorf("elect.Config.Health.Losses is %d; want 0 for any number, or more", h.Losses)
	case h.Losses == 0 && h.Window != 0:
		return errors.New("elect.Config.Health.Window is set, and Losses is not; want both, or none")
	case min(h.Window, h.Rest, h.LongestRest) < 0:
		return fmt.Errorf("elect.Config.Health has Window %v, Rest %v and LongestRest %v; want 0 for the default, or more", h.Window, h.Rest, h.LongestRest)
	}
	h.Window = cmp.Or(h.Window, lossWindow)
	h.Rest = cmp.Or(h.Rest, shortest(h.LongestRest, firstRest))
	h.LongestRest = cmp.Or(h.LongestRest, max(longestRest, h.Rest))
	if h.Rest > h.LongestRest {
		return fmt.Errorf("elect.Config.Health.Rest is %v and LongestRest %v; want the first at most the second", h.Rest, h.LongestRest)
	}
	if h.Check == nil {
		if h.Every != 0 || h.Timeout != 0 || h.Failures != 0 || h.Successes != 0 {
			return errors.New("elect.Config.Health has no Check; want one, or no times and numbers of checks")
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
	return nil
}

// illness is the end of a term by a failed check or by [Term.GiveWay]. It matches [driver.ErrUnhealthy] and not what
// the check returned, which may be an error of another election.
type illness struct {
	why   error
	given bool          // by GiveWay
	rest  time.Duration // after the term
}

func (i illness) Error() string        { return driver.ErrUnhealthy.Error() + ": " + i.why.Error() }
func (i illness) Is(target error) bool { return target == driver.ErrUnhealthy }

// StandsAside returns how long the participant rests after the term. It is for elect run, which says so.
func (i illness) StandsAside() time.Duration { return i.rest }

// state is what the checks say.
type state byte

const (
	unknown state = iota
	well
	ill
)

// health is the state of a participant's health. Without a check the participant is well, unless it rests.
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
	why    error                   // the last failure, if it is ill
	turned chan struct{}           // closed, and replaced, when state changes
	period context.Context         // of the present or next time of health; ends with the failure that ended it
	fail   context.CancelCauseFunc // of period
	rest   time.Duration           // after the last term that ended by illness, or was one loss too many
	until  time.Time               // the end of that rest
	lossy  bool                    // that rest is for losses
	ends   []time.Time             // of terms, by a loss or by illness, within Health.Window
	gave   bool                    // it gave way by GiveWay, or rests for losses, and EventWell has not followed
}

func newHealth(e *Election) *health {
	h := &health{cfg: e.cfg.Health, election: e, turned: make(chan struct{})}
	if h.cfg.Check == nil {
		h.state, h.begun = well, true
	}
	h.life, h.stop = context.WithCancel(context.Background())
	h.period, h.fail = context.WithCancelCause(context.Background())
	return h
}

// closePatience is how long Close waits for a check whose context has ended, such as a command that is killed.
const closePatience = 2 * time.Second

// close ends the checks.
func (h *health) close() {
	h.mu.Lock()
	h.stop()
	h.mu.Unlock()
	h.running.Wait()
	if h.hanging != nil {
		select {
		case <-h.hanging:
		case <-time.After(closePatience):
		}
	}
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
			h.turn(ill, err) // first, because OnEvent may block
			h.election.emit(EventIll, nil, err)
		case succeeded >= h.cfg.Successes && h.state != well:
			h.mu.Lock()
			rests := h.gave
			h.mu.Unlock()
			if !rests {
				h.election.emit(EventWell, nil, nil) // before it stands
			}
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
	h.why = why
	if h.state == well {
		h.fail(illness{why: why})
		h.period, h.fail = context.WithCancelCause(context.Background())
	}
	h.state = to
	close(h.turned)
	h.turned = make(chan struct{})
}

// await waits until the participant may stand, and returns a context that ends when it is ill.
func (h *health) await(ctx context.Context) (period context.Context, err error) {
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
		after := h.cfg.WhenAllIll == AllIllLead || h.lossy && state == well
		h.mu.Unlock()
		var rested <-chan time.Time
		switch {
		case state == well && rest <= 0:
			h.recovered()
			return period, nil
		case state == well:
			rested = time.After(rest)
		}
		var gone <-chan struct{}
		if after {
			if nobody == nil {
				watching, stop := context.WithCancel(ctx)
				defer stop()
				nobody = h.leaderless(watching)
			}
			gone = nobody
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-h.life.Done():
			return nil, ErrClosed
		case <-turned:
		case <-rested:
		case <-gone:
			h.mu.Lock()
			plain := h.lossy && h.state == well
			h.mu.Unlock()
			if plain {
				h.election.cfg.Logger.Warn("nobody leads, so this candidate stands although it has lost leadership too often")
				h.recovered()
				return period, nil
			}
			h.election.cfg.Logger.Warn("nobody leads, so this candidate stands although it is or was ill")
			return h.patient(), nil
		}
	}
}

// patient is for a participant that stands although it is ill or rests. It returns a context that ends, at the earliest
// after a rest, when the participant is ill: then one that is well gets a chance.
func (h *health) patient() context.Context {
	h.takeRest(0)
	ctx, end := context.WithCancelCause(context.Background())
	var look func()
	look = func() {
		h.mu.Lock()
		if h.life.Err() == nil && time.Until(h.until) <= 0 && h.state == well {
			h.mu.Unlock()
			h.recovered()
			h.mu.Lock()
		}
		defer h.mu.Unlock()
		switch rest := time.Until(h.until); {
		case h.life.Err() != nil:
		case rest > 0:
			time.AfterFunc(rest, look)
		case h.state == ill:
			end(illness{why: h.why})
		default:
			period := h.period
			context.AfterFunc(period, func() { end(context.Cause(period)) })
		}
	}
	look()
	return ctx
}

// leaderless returns a channel that is closed when nobody has led for some time.
func (h *health) leaderless(ctx context.Context) <-chan struct{} {
	gone := make(chan struct{})
	tell := sync.OnceFunc(func() { close(gone) })
	after := leaderless + h.election.limits.Takeover
	go func() {
		var timer *time.Timer
		for s, err := range h.election.elector.Watch(ctx) {
			none := s.Leader == nil && !s.Stale
			switch {
			case err != nil:
				tell() // the campaign will say why
			case none && timer == nil:
				timer = time.AfterFunc(after, tell)
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

// gaveWay tells that the participant is ill, until [health.recovered].
func (h *health) gaveWay(why error) {
	h.mu.Lock()
	h.gave = true
	h.mu.Unlock()
	h.election.emit(EventIll, nil, why)
}

// recovered tells that a participant that gave way is well, if that was not told.
func (h *health) recovered() {
	h.mu.Lock()
	gave := h.gave
	h.gave = false
	h.mu.Unlock()
	if gave {
		h.election.emit(EventWell, nil, nil)
	}
}

// takeRest begins a rest, twice as long as the last one, and returns its length. lasted is how long the term lasted that
// has ended by illness; 0 is no term.
func (h *health) takeRest(lasted time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lasted > 0 {
		h.count()
	}
	h.lossy = false
	return h.takeRestLocked(lasted)
}

func (h *health) takeRestLocked(lasted time.Duration) time.Duration {
	if lasted >= 2*h.cfg.LongestRest {
		h.rest = 0
	}
	h.rest = min(max(2*h.rest, h.cfg.Rest), h.cfg.LongestRest)
	h.until = time.Now().Add(h.rest)
	return h.rest
}

// count notes the end of a term, and returns how many have ended within the window.
func (h *health) count() int {
	now := time.Now()
	h.ends = slices.DeleteFunc(h.ends, func(at time.Time) bool { return now.Sub(at) >= h.cfg.Window })
	if h.cfg.Losses > 0 {
		h.ends = append(h.ends, now)
	}
	return len(h.ends)
}

// lost is told of a term that has ended by a loss and had lasted so long. If it was one too many, the participant rests.
func (h *health) lost(lasted time.Duration) {
	h.mu.Lock()
	n := h.count()
	if h.cfg.Losses == 0 || n < h.cfg.Losses {
		h.mu.Unlock()
		return
	}
	h.lossy = true
	rest := h.takeRestLocked(lasted)
	h.mu.Unlock()
	h.gaveWay(fmt.Errorf("it has lost leadership %d times within %v, and stands aside for %v", n, h.cfg.Window, rest))
}
