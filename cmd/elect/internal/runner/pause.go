package runner

import (
	"errors"
	"log/slog"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
)

// errPaused ends a Lead of a candidate that was told not to stand.
var errPaused = errors.New("it was told to stand aside")

const (
	eventPaused  elect.EventKind = "paused"
	eventResumed elect.EventKind = "resumed"
)

// stillFor makes this candidate stand aside for a reason, until there is none: a leader stops its work and hands over.
// It does not wait. Among peers it goes on to vote.
func (r *run) stillFor(why electhttp.Aside) {
	if h := r.cfg.HTTP.Handler; h != nil {
		h.StandsAside(why)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.still = why
	switch {
	case why == "" && r.resumed != nil:
		close(r.resumed)
		r.resumed = nil
	case why != "" && r.resumed == nil:
		r.resumed = make(chan struct{})
		if r.cancel != nil {
			r.cancel(errPaused)
		}
	}
}

var until = map[electhttp.Aside]string{electhttp.Paused: "is resumed", electhttp.Maintenance: "is over"}

// awaitResume returns when this candidate may stand, or false when it was told to end.
func (r *run) awaitResume() bool {
	r.mu.Lock()
	resumed, why := r.resumed, r.still
	r.mu.Unlock()
	if resumed == nil {
		return r.life.Err() == nil
	}
	r.tell(slog.LevelInfo, eventPaused, 0, "%s: standing aside in %s until it %s", why, r.cfg.Name, until[why])
	select {
	case <-resumed:
		r.tell(slog.LevelInfo, eventResumed, 0, "resumed")
		return true
	case <-r.life.Done():
		return false
	}
}
