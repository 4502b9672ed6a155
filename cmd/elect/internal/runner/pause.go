package runner

import (
	"errors"
	"log/slog"

	"github.com/electd/elect"
)

// errPaused ends a Lead of a candidate that was told not to stand.
var errPaused = errors.New("it was paused")

const (
	eventPaused  elect.EventKind = "paused"
	eventResumed elect.EventKind = "resumed"
)

// pause makes this candidate stand aside until resume: a leader stops its work and hands over. It does not wait.
// Among peers it goes on to vote.
func (r *run) pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resumed != nil {
		return
	}
	r.resumed = make(chan struct{})
	if r.cancel != nil {
		r.cancel(errPaused)
	}
}

func (r *run) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resumed != nil {
		close(r.resumed)
		r.resumed = nil
	}
}

// awaitResume returns when this candidate may stand, or false when it was told to end.
func (r *run) awaitResume() bool {
	r.mu.Lock()
	resumed := r.resumed
	r.mu.Unlock()
	if resumed == nil {
		return r.life.Err() == nil
	}
	r.tell(slog.LevelInfo, eventPaused, 0, "paused: standing aside in %s until it is resumed", r.cfg.Name)
	select {
	case <-resumed:
		r.tell(slog.LevelInfo, eventResumed, 0, "resumed")
		return true
	case <-r.life.Done():
		return false
	}
}
