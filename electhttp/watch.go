package electhttp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Limits of watchers.
const (
	maxWatchers = 1024             // the default of Config.Watchers
	heartbeat   = 15 * time.Second // between two comments
	sendTime    = 10 * time.Second // of one write, before the client is given up
)

// To send a change to many clients takes the processors from what follows it, such as the start of the next leader's
// work. So publish waits for further changes, of which most do not come alone, and then wakes the watchers in batches.
// Both times are for each watcher, up to a limit: 1,000 watchers are to know of a change within 50 ms.
const (
	batches   = 16
	each      = 30 * time.Microsecond
	maxGather = 10 * time.Millisecond
	maxSpread = 15 * time.Millisecond
)

// event is a state as all watchers get it.
type event struct {
	*snapshot
	number   uint64
	id       string
	text     []byte                 // as it is sent
	replaced [batches]chan struct{} // closed one after the other when there is a newer one: a batch of watchers each
}

// publish makes an event of each change, and wakes the watchers.
func (h *Handler) publish() {
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.kick:
		}
		if !h.pause(min(h.crowd(), maxGather)) {
			return
		}
		h.render()
		h.mu.Lock()
		old := h.outdated
		h.outdated = nil
		h.mu.Unlock()
		if len(old) == 0 {
			continue
		}
		begun, spread := time.Now(), min(h.crowd(), maxSpread)
		for i := range batches {
			if left := spread*time.Duration(i)/batches - time.Since(begun); left > 0 && !h.pause(left) {
				return
			}
			for _, e := range old {
				close(e.replaced[i])
			}
		}
	}
}

// crowd is how long it takes to tell the watchers.
func (h *Handler) crowd() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(h.watchers) * each
}

// pause waits, or returns false if the Handler is closed.
func (h *Handler) pause(d time.Duration) bool {
	select {
	case <-h.life.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// render replaces the latest event if the state differs from it. publish, which a change has told, wakes the watchers.
func (h *Handler) render() {
	s := h.present()
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.latest
	if s.changes <= old.changes || bytes.Equal(s.text, old.snapshot.text) {
		return
	}
	next := newEvent(s, old.number+1)
	next.id = h.prefix + "-" + strconv.FormatUint(next.number, 10)
	next.text = fmt.Appendf(nil, "id: %s\nevent: state\ndata: {\"time\":%q,%s\n\n", next.id, time.Now().Format(time.RFC3339Nano), s.text[1:])
	h.latest = next
	h.outdated = append(h.outdated, old)
}

func newEvent(s *snapshot, number uint64) *event {
	e := &event{snapshot: s, number: number}
	for i := range e.replaced {
		e.replaced[i] = make(chan struct{})
	}
	return e
}

func (h *Handler) newest() *event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// admit counts a watcher, or returns false if there are too many.
func (h *Handler) admit(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > 0 && h.watchers >= h.cfg.Watchers {
		return false
	}
	h.watchers += n
	return true
}

// serveWatch sends the present state, unless the client has it, and each change. Between two writes it takes the
// latest event, so a client that reads slowly misses those in between.
func (h *Handler) serveWatch(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodHead {
		if !h.admit(1) {
			w.Header().Set("Retry-After", "5")
			problem(w, http.StatusServiceUnavailable, "", fmt.Sprintf("there are %d watchers; want fewer", h.cfg.Watchers))
			return
		}
		defer h.admit(-1)
		h.need(r.Context())
		h.render()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	batch := rand.IntN(batches)
	out := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(sendTime)) // a server without deadlines has none
		if _, err := w.Write(text); err != nil {
			return false
		}
		err := out.Flush()
		_ = out.SetWriteDeadline(time.Time{}) // in HTTP/2 a deadline that passes ends the stream, whatever is written
		return err == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	had := r.Header.Get("Last-Event-ID")
	if e := h.newest(); e.id == had && !send([]byte(": nothing has changed\n\n")) {
		return
	}
	for {
		e := h.newest()
		if e.id != had {
			if !send(e.text) {
				return
			}
			had = e.id
		}
		select {
		case <-e.replaced[batch]:
		case <-beat.C:
			if !send([]byte(":\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		case <-h.life.Done():
			return
		}
	}
}
