// Package livepage serves the page of package webpage on a cluster that runs: what happens there as server-sent events,
// and verbs to break it. The page is the laboratory's; it finds in its index.html that the cluster is a real one.
//
// The files are for everybody who can connect. Events and verbs need the token, which is in the fragment of the URL, and
// a browser sends no fragment to anybody. A request whose Host is another name than loopback's, and a verb that a page
// of another site sends, are refused.
//
// A Handler may be used by any number of goroutines. End ends all streams, and tells the pages why.
package livepage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/internal/webpage"
)

// Config configures a [Handler]. All fields are required.
type Config struct {
	Token string // of those that may watch, and break
	About any    // what the cluster is, for the page, as JSON has it

	// Since returns what has happened after an event, 0 for all.
	Since func(event uint64) Batch

	// Do does a verb to a node, and returns when it is done. Verbs has all verbs. A [Refusal] says why it is of no use.
	Do    func(ctx context.Context, verb, node string) error
	Verbs []string
}

// Batch is some events in a row.
type Batch struct {
	Events any // as JSON has them, in a list; nil if there are none
	Last   uint64
	Now    time.Duration   // since the cluster began
	More   <-chan struct{} // closed when there are more events
}

// Refusal is a reason not to do a verb, for people.
type Refusal string

func (r Refusal) Error() string { return string(r) }

const (
	maxPages  = 32
	maxBody   = 4 << 10
	verbTime  = 10 * time.Second
	sendTime  = 10 * time.Second       // of one write, before a page is given up
	gather    = 50 * time.Millisecond  // between two batches of a stream
	heartbeat = 500 * time.Millisecond // between two batches at most, so that a page sees that time passes
)

// policy lets the page run only its own files, and reach only this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The mark in index.html by which the page knows what it shows.
const (
	laboratory = `<meta name="elect" content="laboratory">`
	live       = `<meta name="elect" content="live">`
)

// Handler serves the page. Make it with [New].
type Handler struct {
	cfg    Config
	mux    *http.ServeMux
	index  []byte
	origin http.CrossOriginProtection
	ended  chan struct{} // closed by End

	mu    sync.Mutex
	pages int
	why   string // the cluster has ended
}

// New returns a Handler.
func New(cfg Config) (*Handler, error) {
	h := &Handler{cfg: cfg, mux: http.NewServeMux(), ended: make(chan struct{})}
	index, err := fs.ReadFile(webpage.Files(), "index.html")
	if err != nil {
		return nil, err
	}
	if bytes.Count(index, []byte(laboratory)) != 1 {
		return nil, errors.New("index.html does not say whose page it is; want " + laboratory + " in it, once")
	}
	h.index = bytes.Replace(index, []byte(laboratory), []byte(live), 1)
	h.mux.HandleFunc("GET /{$}", h.serveIndex)
	h.mux.HandleFunc("GET /index.html", h.serveIndex)
	h.mux.Handle("GET /", http.FileServerFS(webpage.Files()))
	h.mux.HandleFunc("GET /live/events", h.permitted(h.serveEvents))
	h.mux.HandleFunc("POST /live/{verb}", h.permitted(h.serveVerb))
	return h, nil
}

// End ends all streams, and says why; so do later requests.
func (h *Handler) End(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == "" {
		h.why = why
		close(h.ended)
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	if !loopback(r.Host) {
		problem(w, http.StatusMisdirectedRequest, fmt.Sprintf("the Host %.100q is not of this server; want 127.0.0.1 or localhost", r.Host))
		return
	}
	h.mux.ServeHTTP(w, r)
}

// loopback reports whether a Host names this machine. The page of another site whose name resolves to it (DNS
// rebinding) has another one.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

func (h *Handler) serveIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(h.index))
}

// permitted refuses pages of other sites, and whoever has not the token.
func (h *Handler) permitted(serve http.HandlerFunc) http.HandlerFunc {
	want := sha256.Sum256([]byte("Bearer " + h.cfg.Token))
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h.origin.Check(r); err != nil {
			problem(w, http.StatusForbidden, "the page of another site sent this request (its Origin is not this server)")
			return
		}
		got := sha256.Sum256([]byte(r.Header.Get("Authorization"))) // of one length
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "this address is not of this cluster: its token is missing, or of another one; want the address that elect demo --web has printed, in full")
			return
		}
		serve(w, r)
	}
}

// problem says what is wrong.
func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // a client that is gone misses it
}

// admit counts a page, or returns false if there are too many.
func (h *Handler) admit(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > 0 && h.pages >= maxPages {
		return false
	}
	h.pages += n
	return true
}

// serveEvents sends what has happened after the event of Last-Event-ID, and goes on with what happens. A page that
// reads slowly gets more at once, and misses nothing.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	var last uint64
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		var err error
		if last, err = strconv.ParseUint(text, 10, 64); err != nil {
			problem(w, http.StatusBadRequest, fmt.Sprintf("the Last-Event-ID %.100q is not a number; want that of an event", text))
			return
		}
	}
	if !h.admit(1) {
		problem(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages watch this cluster; want fewer", maxPages))
		return
	}
	defer h.admit(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(id uint64, kind string, data any) bool {
		text, err := json.Marshal(data)
		if err != nil {
			return false
		}
		_ = out.SetWriteDeadline(time.Now().Add(sendTime)) // a server without deadlines has none
		if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", id, kind, text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send(last, "about", h.cfg.About) {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		b := h.cfg.Since(last)
		last = b.Last
		if !send(last, "events", map[string]any{"now": b.Now, "events": b.Events}) {
			return
		}
		select {
		case <-time.After(gather):
		case <-h.ended:
		case <-r.Context().Done():
			return
		}
		select {
		case <-b.More:
		case <-beat.C:
		case <-h.ended:
			h.mu.Lock()
			why := h.why
			h.mu.Unlock()
			send(last, "end", map[string]string{"says": why})
			return
		case <-r.Context().Done():
			return
		}
	}
}

// serveVerb does a verb to the node that the body names: {"node":"n1"}. A refusal is an answer, and no failure:
// {"refused":"why"}, which is empty if the verb was done.
func (h *Handler) serveVerb(w http.ResponseWriter, r *http.Request) {
	verb := r.PathValue("verb")
	if !slices.Contains(h.cfg.Verbs, verb) {
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no verb %.40q; want %s", verb, strings.Join(h.cfg.Verbs, ", ")))
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		problem(w, http.StatusUnsupportedMediaType, "the body is not said to be JSON; want Content-Type: application/json")
		return
	}
	var body struct {
		Node string `json:"node"`
	}
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	in.DisallowUnknownFields()
	if err := in.Decode(&body); err != nil || in.Decode(&struct{}{}) != io.EOF {
		problem(w, http.StatusBadRequest, `the body cannot be read; want {"node":"ID"}`)
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), verbTime, fmt.Errorf("no answer within %v; it may be done all the same", verbTime))
	defer cancel()
	err := h.cfg.Do(ctx, verb, body.Node)
	refusal, refused := errors.AsType[Refusal](err)
	if err != nil && !refused {
		problem(w, http.StatusBadGateway, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"refused": string(refusal)}) // a client that is gone misses it
}
