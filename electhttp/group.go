package electhttp

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// GroupConfig configures a [Group]. The zero value is valid.
type GroupConfig struct {
	Hosts   []string     // as [Config].Hosts
	Metrics http.Handler // serves /metrics, as [Config].Metrics
	Token   string       // as [Config].Token
	Trusted bool         // as [Config].Trusted
	Groups  http.Handler // as [Config].Groups
}

// Group serves several elections as one server: the paths below /v1/elections, of each election, and one of each other
// path. /livez and /readyz are about all elections. /leader and /follower are about one, so with several they are 404,
// and /v1/elections/NAME/leader and …/follower have the answer. Any number of goroutines may use it.
type Group struct {
	cfg   GroupConfig
	guard guard

	mu    sync.Mutex
	all   map[string]*Handler
	still bool                // maintenance is on
	set   func(on bool) error // turns it on and off, or nil
}

// NewGroup returns a Group without elections.
func NewGroup(cfg GroupConfig) *Group {
	return &Group{cfg: cfg, guard: guard{token: cfg.Token, trusted: cfg.Trusted}, all: map[string]*Handler{}}
}

// InMaintenance sets whether all participants were told not to stand, which /readyz and /v1/maintenance say, and what
// clients that may resign call to change that. Until then /v1/maintenance/on and …/off are not supported.
func (g *Group) InMaintenance(on bool, set func(on bool) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.still, g.set = on, set
}

func (g *Group) inMaintenance() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.still
}

// Put adds an election. It replaces the one of that name, which it does not close.
func (g *Group) Put(h *Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[h.cfg.Name] = h
}

// Remove removes an election, which it does not close, unless it was replaced.
func (g *Group) Remove(h *Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[h.cfg.Name] == h {
		delete(g.all, h.cfg.Name)
	}
}

// Close closes all elections of the Group.
func (g *Group) Close() {
	for _, h := range g.handlers() {
		h.Close()
	}
}

// Live returns an error if a participant is known to be stalled, as /livez does.
func (g *Group) Live() error {
	for _, h := range g.handlers() {
		if err := h.Live(); err != nil {
			return fmt.Errorf("%s: %w", h.cfg.Name, err)
		}
	}
	return nil
}

// handlers are those of all elections, by name.
func (g *Group) handlers() []*Handler {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*Handler
	for _, h := range g.all {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *Handler) int { return cmp.Compare(a.cfg.Name, b.cfg.Name) })
	return all
}

// ServeHTTP implements [http.Handler].
func (g *Group) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all := g.handlers()
	if name, below := strings.CutPrefix(r.URL.Path, "/v1/elections/"); below {
		name, _, _ = strings.Cut(name, "/")
		g.mu.Lock()
		h := g.all[name]
		g.mu.Unlock()
		if h != nil {
			h.ServeHTTP(w, r)
			return
		}
	}
	upkeep := r.URL.Path == "/v1/maintenance" || strings.HasPrefix(r.URL.Path, "/v1/maintenance/")
	if len(all) == 1 && r.URL.Path != "/metrics" && !upkeep { // it is as if the Group were that Handler
		all[0].ServeHTTP(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	if !hasName(g.cfg.Hosts, r.Host) {
		misdirected(w, r, g.cfg.Hosts)
		return
	}
	serve := map[string]http.HandlerFunc{
		"/livez":          g.serveLive,
		"/readyz":         func(w http.ResponseWriter, r *http.Request) { g.serveReady(w, r, all) },
		"/v1/elections":   produces(jsonType, func(w http.ResponseWriter, r *http.Request) { serveStates(w, r, all) }),
		"/v1/maintenance": produces(jsonType, func(w http.ResponseWriter, _ *http.Request) { writeMaintenance(w, g.inMaintenance()) }),
		"/openapi.json":   produces(jsonType, serveOpenAPI(g.cfg.Groups != nil)),
		"/leader":         several,
		"/follower":       several,
	}[r.URL.Path]
	change := map[string]http.HandlerFunc{
		"/v1/maintenance/on":  g.serveMaintenance(true),
		"/v1/maintenance/off": g.serveMaintenance(false),
	}[r.URL.Path]
	if r.URL.Path == "/metrics" && g.cfg.Metrics != nil {
		serve = g.cfg.Metrics.ServeHTTP
	}
	if strings.HasPrefix(r.URL.Path, "/v1/groups/") && g.cfg.Groups != nil {
		serve = g.cfg.Groups.ServeHTTP
	}
	switch {
	case change != nil && r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		problem(w, http.StatusMethodNotAllowed, "", "want POST")
	case change != nil:
		produces(jsonType, g.guard.permitted(change))(w, r)
	case serve == nil && strings.HasPrefix(r.URL.Path, "/v1/elections/"):
		var names []string
		for _, h := range all {
			names = append(names, h.cfg.Name)
		}
		problem(w, http.StatusNotFound, "", "there is no such election here; want one of: "+strings.Join(names, ", "))
	case serve == nil:
		notFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		problem(w, http.StatusMethodNotAllowed, "", "want GET or HEAD")
	default:
		serve(w, r)
	}
}

func (g *Group) serveLive(w http.ResponseWriter, _ *http.Request) {
	if err := g.Live(); err != nil {
		problem(w, http.StatusServiceUnavailable, stalled, err.Error())
		return
	}
	text(w, "live\n")
}

// serveMaintenance has all participants of this process, and no other, stand aside or stand again.
func (g *Group) serveMaintenance(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !readOrder(w, r) {
			return
		}
		g.mu.Lock()
		set := g.set
		g.mu.Unlock()
		if set == nil {
			problem(w, http.StatusNotImplemented, unsupported, "this server knows no maintenance")
			return
		}
		if err := set(on); err != nil {
			problem(w, http.StatusBadGateway, unreachable, err.Error())
			return
		}
		writeMaintenance(w, on)
	}
}

func writeMaintenance(w http.ResponseWriter, on bool) {
	writeJSON(w, struct {
		Maintenance bool `json:"maintenance"`
	}{on})
}

func (g *Group) serveReady(w http.ResponseWriter, r *http.Request, all []*Handler) {
	if g.inMaintenance() {
		problem(w, http.StatusServiceUnavailable, notReady, "all participants stand aside: maintenance")
		return
	}
	eachOf(all, func(_ int, h *Handler) { h.need(r.Context()) })
	for _, h := range all {
		if why := h.unready(); why != "" {
			problem(w, http.StatusServiceUnavailable, notReady, h.cfg.Name+": "+why)
			return
		}
	}
	text(w, "ready\n")
}

func serveStates(w http.ResponseWriter, r *http.Request, all []*Handler) {
	states := make([]string, len(all))
	eachOf(all, func(i int, h *Handler) { states[i] = string(h.appendState(r.Context(), nil)) })
	respond(w, http.StatusOK, jsonType, []byte("["+strings.Join(states, ",")+"]\n"))
}

// eachOf calls do for all Handlers at once: each may wait for its back end.
func eachOf(all []*Handler, do func(int, *Handler)) {
	var waiting sync.WaitGroup
	for i, h := range all {
		waiting.Go(func() { do(i, h) })
	}
	waiting.Wait()
}

func several(w http.ResponseWriter, r *http.Request) {
	problem(w, http.StatusNotFound, "", "this server has several elections, or none; want /v1/elections/NAME"+r.URL.Path)
}

// unready is why the participant is not ready; empty if it is. The caller has called need.
func (h *Handler) unready() string {
	v := h.present().view
	switch {
	case v.Aside != "":
		return "the participant stands aside: " + string(v.Aside)
	case v.State == idle && v.Ill:
		return "the participant stands aside, because it is ill"
	case v.State != candidate && v.State != starting && v.State != leader:
		return "the participant does not take part; its state is " + string(v.State)
	case v.Stale || v.Leader == nil:
		return cmp.Or(v.Cause, "no leader is known")
	}
	return ""
}
