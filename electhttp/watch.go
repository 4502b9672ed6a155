package electhttp

import (
	"bytes"
	"fmt"
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

// gather is for how long publish waits for further changes, for each watcher: most do not come alone, and to send all of
// them to many clients takes longer. A write takes five times that.
const gather = 2 * time.Microsecond

// event is a state as all watchers get it.
type event struct {
	*snapshot
	number   uint64
	id       string
	text     []byte        // as it is sent
	replaced chan struct{} // closed when there is a newer one
}

// publish makes an event of each change.
func (h *Handler) publish() {
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.kick:
		}
		h.mu.Lock()
		wait := time.Duration(h.watchers) * gather
		h.mu.Unlock()
		select {
		case <-h.life.Done():
			return
		case <-time.After(wait):
		}
		h.render()
	}
}

// render replaces the latest event if the state differs from it.
func (h *Handler) render() {
	s := h.present()
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.latest
	if s.changes <= old.changes || bytes.Equal(s.text, old.snapshot.text) {
		return
	}
	next := &event{snapshot: s, number: old.number + 1, replaced: make(chan struct{})}
	next.id = h.prefix + "-" + strconv.FormatUint(next.number, 10)
	next.text = fmt.Appendf(nil, "id: %s\nevent: state\ndata: {\"time\":%q,%s\n\n", next.id, time.Now().Format(time.RFC3339Nano), s.text[1:])
	h.latest = next
	close(old.replaced)
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
		case <-e.replaced:
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
