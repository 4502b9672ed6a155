package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/cli/exit"
)

const (
	// glance is how often a candidate that stands by polls for the leader when there are no notifications. It costs a
	// few system calls each time. Errors are reported no more often than that.
	glance = 5 * time.Second

	// newGlance is how soon it checks whether a new election makes it wait.
	newGlance = 50 * time.Millisecond

	// firstGlance is how soon it checks again if there is no leader at first: a candidate that is about to win needs no
	// line about it.
	firstGlance = 500 * time.Millisecond

	// oneTry is how long --wait 0 gives an election without a leader: a back end may need a moment to prove a leader
	// that was just elected.
	oneTry = 2 * time.Second

	// lastLook is how long it may take, after the wait ran out, to find out the reason.
	lastLook = time.Second
)

// standby is what runs beside a campaign: it reports the leader, and gives up after the wait.
type standby struct {
	stop context.CancelFunc
	done chan struct{}
}

// startStandby begins it, unless it is running: a campaign that failed and is repeated is the same standby.
func (r *run) startStandby() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.standby != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.life)
	s := &standby{stop: cancel, done: make(chan struct{})}
	r.standby, r.trouble = s, nil
	r.prepareDone = r.startPrepare(ctx, r.prepareDone)
	giveUp := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.standby == s { // not elected meanwhile
			r.cancel(errWaitOver)
		}
	}
	var limit *time.Timer
	switch wait := r.cfg.Wait; wait {
	case NoLimit:
	case 0:
		first := time.Duration(0)
		if r.cfg.Health.Check != nil {
			first = r.cfg.Health.Timeout
		}
		limit = time.AfterFunc(oneTry+first, giveUp)
	default:
		limit = time.AfterFunc(wait, giveUp)
	}
	go func() {
		defer close(s.done)
		defer cancel()
		if limit != nil {
			defer limit.Stop()
		}
		switch {
		case r.cfg.Wait == 0:
			r.awaitOther(ctx, giveUp)
		case r.election.Limits().Lease > 0: // a candidate is always notified of its leader
			r.tellChanges(ctx)
		default:
			r.tellLeader(ctx)
		}
		<-ctx.Done()
	}()
}

func (r *run) stopStandby() {
	r.mu.Lock()
	s := r.standby
	r.standby = nil
	r.mu.Unlock()
	if s != nil {
		s.stop()
		<-s.done // otherwise it could report a standby after the victory
	}
}

// tellLeader reports the leader, and each change. It polls and does not watch: in an election without a lease, a
// candidate that stands by costs nothing.
func (r *run) tellLeader(ctx context.Context) {
	said := ""
	pauses := []time.Duration{newGlance, firstGlance - newGlance, glance}
	for early := true; ; early = len(pauses) > 1 {
		l, err := r.election.Leader(ctx)
		if ctx.Err() != nil {
			return
		}
		text := ""
		switch {
		case err == nil:
			text = "behind " + l.ID + ", token " + l.Token.String()
		case early && !errors.Is(err, file.ErrHoldOff):
			// This candidate may lead in a moment.
		case errors.Is(err, elect.ErrNoLeader):
			text = "nobody leads"
			_, cause, ok := strings.Cut(err.Error(), elect.ErrNoLeader.Error()+": ")
			switch {
			case errors.Is(err, file.ErrHoldOff):
				text = cause
			case ok:
				text += ": " + cause
			}
		default:
			text = err.Error()
		}
		if text != "" && text != said {
			r.tellStandby(text)
			said = text
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauses[0]):
		}
		pauses = pauses[min(1, len(pauses)-1):]
	}
}

// tellChanges reports the leader at each change. It reports the absence of a leader, or that the leader is not known,
// when that has lasted a little.
func (r *run) tellChanges(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	states := make(chan elect.State)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		for s, err := range r.election.Watch(ctx) {
			if err != nil {
				return // a permanent error: it also ends the campaign, which reports it
			}
			select {
			case states <- s:
			case <-ctx.Done():
				return
			}
		}
	})
	text, said := "", ""
	var trouble time.Time // when trouble was last reported
	var later <-chan time.Time
	for {
		known := true
		select {
		case <-ctx.Done():
			return
		case s := <-states:
			if text, known = r.standing(s); known {
				later = nil // the pending line is out of date
			}
		case <-later:
			later, trouble = nil, time.Now()
		}
		switch {
		case text == said || text == "":
		case known:
			r.tellStandby(text)
			said = text
		case later == nil:
			later = time.After(max(firstGlance, time.Until(trouble.Add(glance))))
		}
	}
}

// tellStandby says who leads meanwhile.
func (r *run) tellStandby(text string) {
	if r.aside.Load() {
		r.tell(slog.LevelInfo, eventStandingAside, 0, "standing aside in %s (%s)", r.cfg.Name, text)
		return
	}
	r.tell(slog.LevelInfo, eventStandingBy, 0, "standing by for %s (%s)", r.cfg.Name, text)
}

// rests says how long this candidate stands aside after a term that has ended by its illness. The illness of a peer's
// disk has no such time.
func (r *run) rests(loss *elect.LostError) {
	var ill interface{ StandsAside() time.Duration }
	if errors.As(loss, &ill) {
		r.aside.Store(true)
		why := strings.TrimPrefix(because(loss), string(elect.ReasonUnhealthy)+": ")
		r.tell(slog.LevelInfo, eventStandingAside, 0, "standing aside for %v: it was ill (%s)", ill.StandsAside(), why)
	}
}

// standing is a state in the words of a candidate that stands by. known reports whether it names a leader. There is
// usually nothing to say about this candidate itself: it leads in a moment.
func (r *run) standing(s elect.State) (text string, known bool) {
	switch l := s.Leader; {
	case s.Stale:
		text = "cannot tell who leads"
	case l == nil:
		text = "nobody leads"
	case l.ID == r.cfg.ID: // just elected, or its earlier life is remembered
		return "earlier leases are not over yet", false
	default:
		return "behind " + l.ID + ", token " + l.Token.String(), true
	}
	if s.Cause != nil {
		text += ": " + s.Cause.Error()
	}
	return text, false
}

// awaitOther gives up as soon as another leader is seen.
func (r *run) awaitOther(ctx context.Context, giveUp func()) {
	for s, err := range r.election.Watch(ctx) {
		if err != nil {
			return
		}
		if s.Leader != nil && !s.Stale && s.Leader.ID != r.cfg.ID {
			giveUp()
			return
		}
	}
}

// gaveUp is the error after the wait ran out: it names the leader, or what failed. For a place that cannot be written
// a longer wait does not help, so that has its own exit code.
func (r *run) gaveUp() error {
	ctx, cancel := context.WithTimeout(r.life, lastLook)
	defer cancel()
	r.mu.Lock()
	why := r.trouble
	r.mu.Unlock()
	l, err := r.election.Leader(ctx)
	if l.ID == r.cfg.ID { // won at the instant when the wait was over, and released
		err = elect.ErrNoLeader
	}
	code := exit.WaitOver
	switch {
	case err == nil:
		why = fmt.Errorf("behind %s, token %v", l.ID, l.Token)
	case why == nil && errors.Is(err, file.ErrHoldOff):
		why = err
	case why == nil && errors.Is(err, elect.ErrNoLeader) && r.cfg.Wait < 2*file.HoldOff && strings.HasPrefix(r.cfg.URL, "file:"):
		why = fmt.Errorf("%w; the first leader of a new election waits %v before it begins", err, file.HoldOff)
	case why == nil:
		why = err
	}
	if e, ok := errors.AsType[*exit.Error](failed.Backend(why)); ok && e.Code == exit.CannotCreate {
		code = e.Code
	}
	return exit.With(code, fmt.Errorf("gave up standing by for %s after %v: %w", r.cfg.Name, r.cfg.Wait, why))
}
