package electhttp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/electd/elect"
)

const (
	// linger is how long a back end that polls is observed after the last client needed the state.
	linger = 200 * time.Millisecond

	// lookTime is how long a client waits for the first state of such a back end.
	lookTime = time.Second
)

var errUnanswered = errors.New("the back end has not yet answered")

// observe keeps the state until ctx ends.
func (h *Handler) observe(ctx context.Context, e *elect.Election) {
	for s, err := range e.Watch(ctx) {
		h.mu.Lock()
		if err != nil { // the last one
			s = elect.State{Leader: h.state.Leader, Stale: true, Cause: err}
		}
		if ctx.Err() == nil {
			h.state = s
			select {
			case <-h.known:
			default:
				close(h.known)
			}
			h.changed()
		}
		h.mu.Unlock()
	}
}

// observeIfNeeded keeps the state while clients need it. A back end without a lease polls, which would cost a standby
// more than all else that it does.
func (h *Handler) observeIfNeeded(e *elect.Election) {
	for {
		select {
		case <-h.wake:
		case <-h.life.Done():
			return
		}
		ctx, stop := context.WithCancel(h.life)
		go func() {
			defer stop()
			tick := time.NewTicker(linger)
			defer tick.Stop()
			for h.isNeeded() {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		}()
		h.observe(ctx, e)
		stop()
		h.mu.Lock()
		if h.life.Err() == nil {
			h.forget()
		}
		h.mu.Unlock()
	}
}

func (h *Handler) isNeeded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watchers > 0 || h.waiting > 0 || time.Since(h.needed) < linger
}

// forget makes later clients wait for a new state. h.mu is held.
func (h *Handler) forget() {
	h.known = make(chan struct{})
	h.state.Stale, h.state.Cause = true, errUnanswered
	h.changed()
}

// need waits until the state is the present one, for lookTime at most.
func (h *Handler) need(ctx context.Context) {
	h.mu.Lock()
	known := h.known
	h.needed = time.Now()
	h.mu.Unlock()
	select {
	case <-known:
		return
	default:
	}
	h.wait(1)
	defer h.wait(-1)
	select {
	case h.wake <- struct{}{}:
	default: // another client did
	}
	limit := time.NewTimer(lookTime)
	defer limit.Stop()
	select {
	case <-known:
	case <-limit.C:
	case <-ctx.Done():
	case <-h.life.Done():
	}
}

func (h *Handler) wait(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting += n
}

// changed notes a change, and tells publish. It does not block. h.mu is held.
func (h *Handler) changed() {
	h.changes++
	h.shot = nil
	select {
	case h.kick <- struct{}{}:
	default: // publish has not looked yet
	}
}

// view is a state of an election: the fields of "elect status -o json", and what this participant knows of itself.
// Before these an event has the field time, and after these the answer of a leader with a lease has lease_left_ms.
type view struct {
	Election string        `json:"election"`
	Name     string        `json:"name"`
	Leader   *elect.Leader `json:"leader"`
	Stale    bool          `json:"stale"`
	Cause    string        `json:"cause,omitempty"`
	ID       string        `json:"id"` // of this participant, as are the next four
	State    role          `json:"state"`
	Ill      bool          `json:"ill,omitempty"`
	Health   string        `json:"health,omitempty"`
	Aside    Aside         `json:"aside,omitempty"`
}

// snapshot is the state after a number of changes. It is not changed.
type snapshot struct {
	changes   uint64
	view      view
	text      []byte      // view as JSON
	term      *elect.Term // nil unless this participant leads
	leaseless bool        // the back end has no lease
}

// present returns the present state. It encodes a state once, for all clients.
func (h *Handler) present() *snapshot {
	h.mu.Lock()
	if s := h.shot; s != nil {
		h.mu.Unlock()
		return s
	}
	s := &snapshot{changes: h.changes, leaseless: h.election == nil || h.election.Limits().Lease == 0, view: view{
		Election: h.cfg.Election, Name: h.cfg.Name, Leader: h.state.Leader, Stale: h.state.Stale,
		ID: h.cfg.ID, State: h.role, Ill: h.health == "ill", Health: h.health, Aside: h.aside,
	}}
	if h.role == leader {
		s.term = h.term
		if h.starts {
			s.view.State = starting
		}
	}
	cause := h.state.Cause
	h.mu.Unlock()

	if cause != nil {
		s.view.Cause = strings.Join(strings.Fields(cause.Error()), " ")
	}
	s.text, _ = json.Marshal(s.view) // strings, numbers and truth values
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changes == s.changes {
		h.shot = s
	}
	return s
}
