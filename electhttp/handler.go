package electhttp

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

// Config configures a [Handler]. Name and ID are required.
type Config struct {
	Name string // of the election
	ID   string // of this participant

	// Election is the URL of the election as clients may see it: without a password. It may be empty.
	Election string

	// Token is the bearer token of clients that may resign and transfer. Empty means that there is none, and that these
	// verbs are refused unless Trusted.
	Token string

	// Trusted lets every client resign and transfer, as where only trusted users can connect: on a Unix socket.
	Trusted bool

	// Hosts are the names of this server, without ports, that a request may have as its Host, beside localhost and
	// addresses of loopback; others get the status 421. So the page of another site whose name resolves to this server
	// (DNS rebinding) reads nothing. Nil allows any name: use it behind TLS, whose certificate has the name, on a Unix
	// socket, and in a server that checks the name itself. An empty slice allows no further name.
	Hosts []string

	// Watchers is the greatest number of clients that watch at the same time; 0 means 1024.
	Watchers int

	// Pause makes this participant stand aside, or stand again, and is called by clients that may resign. It is for a
	// program that can do so; nil means that these verbs are not supported.
	Pause func(on bool) error

	// Tenure is for how long a leader is not asked to resign or to transfer, from its victory on by the wall clocks of the
	// leader and of this server, unless the request has now. The leader's own tenure counts, too: see [TenureKey]. 0 adds
	// none.
	Tenure time.Duration

	// Metrics serves /metrics. Nil means that there is no such path.
	Metrics http.Handler

	// Groups serves the paths below /v1/groups/, as a handler of [NewKeys] does. Nil means that there are none.
	Groups http.Handler

	// Sidecar makes GET / answer {"name":"ID of the leader"}, as the leader-elector sidecar of Kubernetes did on its
	// port 4040.
	Sidecar bool
}

// Handler serves the paths of one election. Mount it with [http.StripPrefix] below any prefix. Make it with [New].
type Handler struct {
	cfg    Config
	mux    *http.ServeMux
	life   context.Context
	end    context.CancelFunc
	prefix string        // of the ids of events: another one for each Handler
	kick   chan struct{} // has an element while there is something to publish

	guard guard
	wake  chan struct{} // has an element while a state is needed and nobody observes

	mu       sync.Mutex
	election *elect.Election
	role     role
	health   string // well or ill; empty: nothing was checked
	starts   bool   // the work is not active yet; see Starting
	aside    Aside
	term     *elect.Term // from EventElected to EventReleased
	stuck    time.Time   // when the term was first seen to outlive its lease; zero if it does not
	state    elect.State
	known    chan struct{} // closed once state is the present one
	needed   time.Time     // when a client last needed the state
	waiting  int           // clients that wait for known
	changes  uint64        // counts those of what a snapshot shows
	shot     *snapshot     // the present one; nil until somebody needs it
	watchers int
	latest   *event
	outdated []*event // events that were replaced, and whose watchers publish is to wake
}

// role is what this participant does, under the name that clients see.
type role string

const (
	idle      role = "idle"      // it does not take part: not yet, not any more, or because it is ill
	failed    role = "failed"    // its last campaign has failed, and it has not begun another one
	candidate role = "candidate" // it stands
	starting  role = "starting"  // its term has begun, and its work is not active yet
	leader    role = "leader"    // its term has begun
	ending    role = "ending"    // its term has ended, and its work has not yet returned
)

var (
	errDetached = errors.New("no election is attached")
	errStalled  = errors.New("a term has outlived its lease by more than a lease, and its work has not returned")
)

// New returns a Handler, or an error if a field of cfg is wrong. Set its OnEvent as that of [elect.Config], and call
// Attach with the election; until then no leader is known.
func New(cfg Config) (*Handler, error) {
	if err := driver.CheckName(cfg.Name); err != nil {
		return nil, fmt.Errorf("electhttp.Config.Name: %w", err)
	}
	if err := driver.CheckID(cfg.ID); err != nil {
		return nil, fmt.Errorf("electhttp.Config.ID: %w", err)
	}
	if cfg.Watchers < 0 {
		return nil, fmt.Errorf("electhttp.Config.Watchers is %d; want 0 for %d, or more", cfg.Watchers, maxWatchers)
	}
	if strings.ContainsFunc(cfg.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("electhttp.Config.Token has a character that no bearer token has; want visible ASCII without spaces")
	}
	h := &Handler{
		cfg: cfg, mux: http.NewServeMux(), prefix: rand.Text()[:8], kick: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		guard: guard{token: cfg.Token, trusted: cfg.Trusted}, role: idle, known: make(chan struct{}), state: elect.State{Stale: true, Cause: errDetached},
	}
	h.cfg.Watchers = cmp.Or(cfg.Watchers, maxWatchers)
	h.life, h.end = context.WithCancel(context.Background())
	close(h.known)
	h.latest = newEvent(&snapshot{}, 0)
	h.changed()
	h.render()
	methods := map[string][]string{}
	for _, r := range h.routes() {
		h.mux.HandleFunc(r.method+" "+r.path, r.serve)
		methods[r.path] = append(methods[r.path], r.method)
	}
	for path, allowed := range methods {
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(allowed, http.MethodHead)
		}
		h.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			problem(w, http.StatusMethodNotAllowed, "", "want "+strings.Join(allowed, " or "))
		})
	}
	h.mux.HandleFunc("/", notFound)
	return h, nil
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	problem(w, http.StatusNotFound, "", "there is no such path; /openapi.json lists the paths")
}

// route is a method of a path, in the pattern of [http.ServeMux]. GET also serves HEAD.
type route struct {
	method, path string
	serve        http.HandlerFunc
}

func (h *Handler) routes() []route {
	all := []route{
		{"GET", "/leader", h.serveLeader},
		{"GET", "/follower", h.serveFollower},
		{"GET", "/livez", h.serveLive},
		{"GET", "/readyz", h.serveReady},
		{"GET", "/v1/elections", produces(jsonType, h.serveAll)},
		{"GET", "/v1/elections/{name}", produces(jsonType, h.named(h.serveOne))},
		{"GET", "/v1/elections/{name}/leader", h.named(h.serveLeader)},
		{"GET", "/v1/elections/{name}/follower", h.named(h.serveFollower)},
		{"GET", "/v1/elections/{name}/watch", produces("text/event-stream", h.named(h.serveWatch))},
		{"POST", "/v1/elections/{name}/resign", produces(jsonType, h.named(h.guard.permitted(h.serveResign)))},
		{"POST", "/v1/elections/{name}/transfer", produces(jsonType, h.named(h.guard.permitted(h.serveTransfer)))},
		{"POST", "/v1/elections/{name}/pause", produces(jsonType, h.named(h.guard.permitted(h.servePause(true))))},
		{"POST", "/v1/elections/{name}/resume", produces(jsonType, h.named(h.guard.permitted(h.servePause(false))))},
		{"GET", "/openapi.json", produces(jsonType, serveOpenAPI(h.cfg.Groups != nil))},
	}
	if h.cfg.Groups != nil {
		all = append(all, route{"GET", "/v1/groups/", h.cfg.Groups.ServeHTTP})
	}
	if h.cfg.Metrics != nil {
		all = append(all, route{"GET", "/metrics", h.cfg.Metrics.ServeHTTP})
	}
	if h.cfg.Sidecar {
		all = append(all, route{"GET", "/{$}", h.serveSidecar})
	}
	return all
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !hasName(h.cfg.Hosts, r.Host) {
		misdirected(w, r, h.cfg.Hosts)
		return
	}
	clean := path.Clean("/" + r.URL.Path)
	if clean != "/" && strings.HasSuffix(r.URL.Path, "/") {
		clean += "/"
	}
	if clean != r.URL.Path { // the mux would redirect it, and knows no prefix
		notFound(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

func misdirected(w http.ResponseWriter, r *http.Request, hosts []string) {
	want := strings.Join(append(slices.Clip(hosts), "localhost"), " or ")
	problem(w, http.StatusMisdirectedRequest, "", fmt.Sprintf("the Host %.100q is not of this server; want %s", r.Host, want))
}

// hasName reports whether a Host is a name of this server, by [Config].Hosts. A request of HTTP/1.0 may have none, which
// no browser sends.
func hasName(hosts []string, host string) bool {
	if hosts == nil || host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsLoopback() {
		return true
	}
	same := func(name string) bool { return strings.EqualFold(name, host) }
	return same("localhost") || slices.ContainsFunc(hosts, same)
}

// Attach begins to observe the election whose events OnEvent gets. It is called once. It returns an error after Close,
// and if there is an election already.
func (h *Handler) Attach(e *elect.Election) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.life.Err() != nil:
		return errors.New("electhttp: the Handler was closed")
	case h.election != nil:
		return errors.New("electhttp: the Handler has an election; want one for each")
	}
	h.election = e
	go h.publish()
	if e.Limits().Lease > 0 {
		go h.observe(h.life, e)
	} else {
		h.forget()
		go h.observeIfNeeded(e)
	}
	return nil
}

// Close ends the subscription, and the answers of all watchers. It waits for neither. Later requests are answered as
// without an election.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end()
	h.state = elect.State{Stale: true, Cause: elect.ErrClosed}
	h.changed()
}

// OnEvent takes an event of the election; set it as [elect.Config].OnEvent, or call it from there. It does not block.
func (h *Handler) OnEvent(e elect.Event) {
	h.mu.Lock()
	switch e.Kind {
	case elect.EventCampaigning:
		h.role = candidate
	case elect.EventFailed:
		h.role = failed
	case elect.EventElected:
		h.role, h.term, h.stuck = leader, e.Term, time.Time{}
	case elect.EventEnded:
		h.role, h.stuck = ending, time.Time{}
	case elect.EventOverrun:
		h.stuck = e.At
	case elect.EventReleased:
		h.role, h.term, h.stuck = idle, nil, time.Time{}
	case elect.EventWithdrawn:
		h.role = idle
	case elect.EventIll:
		h.health = "ill"
	case elect.EventWell:
		h.health = "well"
	}
	h.changed()
	h.mu.Unlock()
}

// Starting sets whether the work of the present term and of later ones is still starting, as while it fills a cache.
// While it is, the state of a leader is starting, and neither /leader nor /follower answers 200. It does not block.
func (h *Handler) Starting(is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starts = is
	h.changed()
}

// Aside is why a participant was told not to stand; empty if it was not.
type Aside string

const (
	Paused      Aside = "paused"      // in this election
	Maintenance Aside = "maintenance" // in all elections of this process
)

// StandsAside sets why this participant does not stand. It does not block.
func (h *Handler) StandsAside(why Aside) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aside = why
	h.changed()
}

// Live returns an error if the participant is known to be stalled, as /livez does.
func (h *Handler) Live() error {
	if h.stalled(time.Now()) {
		return errStalled
	}
	return nil
}

// leads returns nil if this process leads, proven now, whether its work is active or not.
func (h *Handler) leads() error {
	h.mu.Lock()
	term := h.term
	h.mu.Unlock()
	if term == nil {
		return elect.ErrNotLeader
	}
	return term.Check()
}

// stalled reports whether the participant is known to be stalled: for longer than a lease its term has outlived its
// lease, or its work has.
func (h *Handler) stalled(now time.Time) bool {
	h.mu.Lock()
	e, term, begun := h.election, h.term, h.role == leader
	h.mu.Unlock()
	if e == nil || term == nil || e.Limits().Lease == 0 {
		return false
	}
	var over error
	if begun {
		over = term.Check()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term != term {
		return false
	}
	if h.role == leader { // the goroutine that ends the term has not said that it did
		switch {
		case over == nil || errors.Is(over, elect.ErrNotExclusive):
			h.stuck = time.Time{}
		case h.stuck.IsZero():
			h.stuck = now
		}
	}
	return !h.stuck.IsZero() && now.Sub(h.stuck) > e.Limits().Lease
}

func (h *Handler) serveLeader(w http.ResponseWriter, _ *http.Request) {
	if err := h.leads(); err != nil {
		problem(w, http.StatusServiceUnavailable, notLeading, h.cfg.ID+" does not lead")
		return
	}
	if h.present().view.State == starting {
		problem(w, http.StatusServiceUnavailable, notLeading, h.cfg.ID+" leads, and its work is not active yet")
		return
	}
	text(w, "leads\n")
}

func (h *Handler) serveFollower(w http.ResponseWriter, _ *http.Request) {
	if err := h.leads(); err == nil {
		problem(w, http.StatusServiceUnavailable, leading, h.cfg.ID+" leads")
		return
	}
	text(w, "does not lead\n")
}

func (h *Handler) serveLive(w http.ResponseWriter, _ *http.Request) {
	if err := h.Live(); err != nil {
		problem(w, http.StatusServiceUnavailable, stalled, err.Error())
		return
	}
	text(w, "live\n")
}

func (h *Handler) serveReady(w http.ResponseWriter, r *http.Request) {
	h.need(r.Context())
	if why := h.unready(); why != "" {
		problem(w, http.StatusServiceUnavailable, notReady, why)
		return
	}
	text(w, "ready\n")
}

func (h *Handler) serveAll(w http.ResponseWriter, r *http.Request) {
	respond(w, http.StatusOK, jsonType, append(h.appendState(r.Context(), []byte("[")), "]\n"...))
}

func (h *Handler) serveOne(w http.ResponseWriter, r *http.Request) {
	respond(w, http.StatusOK, jsonType, append(h.appendState(r.Context(), nil), '\n'))
}

// appendState appends the present state, with the field lease_left_ms of a leader with a lease.
func (h *Handler) appendState(ctx context.Context, b []byte) []byte {
	h.need(ctx)
	s := h.present()
	b = append(b, s.text...)
	if s.term == nil || s.leaseless {
		return b
	}
	b = append(b[:len(b)-1], `,"lease_left_ms":`...)
	left, _ := s.term.Remaining()
	return append(strconv.AppendInt(b, left.Milliseconds(), 10), '}')
}

func (h *Handler) serveSidecar(w http.ResponseWriter, r *http.Request) {
	h.need(r.Context())
	v := h.present().view
	var answer struct {
		Name string `json:"name"`
	}
	if v.Leader != nil && !v.Stale {
		answer.Name = v.Leader.ID
	}
	writeJSON(w, answer)
}

//go:embed openapi.json
var openAPI []byte

// serveOpenAPI serves the description, with or without the paths of groups.
func serveOpenAPI(groups bool) http.HandlerFunc {
	described := openAPI
	if groups {
		described = withKeys()
	}
	return func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, jsonType, described) }
}
