package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/internal/drive"
)

// server is an API server for Leases, as far as elections need one: resource versions from one counter, uids, updates
// that make what is not there, identical writes that change nothing, watches from a version with a history that can
// be forgotten, and rights. It is no other's code: test/fencing/leases asks a real one the same.
type server struct {
	t testing.TB

	mu       sync.Mutex
	revision int
	leases   map[string]map[string]any // by the path
	history  []change
	from     int           // older changes are forgotten
	moved    chan struct{} // closed, and replaced, by each change
	boots    int           // restarts; a watch ends with each
	lag      time.Duration // of watches
	throttle int           // the next requests are refused with 429
	after    string        // the Retry-After of these
	denied   []string      // verbs that the user lacks
	requests map[string]int
}

type change struct {
	revision int
	path     string
	event    []byte
	at       time.Time
}

func newServer(t testing.TB) *server {
	return &server{t: t, revision: 100, leases: map[string]map[string]any{}, moved: make(chan struct{}), requests: map[string]int{}}
}

// set changes the server.
func (s *server) set(do func()) { s.mu.Lock(); defer s.mu.Unlock(); do() }

func answer(code int, v any) *http.Response {
	text, _ := json.Marshal(v)
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}
}

func refuse(code int, reason, kind, message string) *http.Response {
	return answer(code, map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message, "details": map[string]any{"kind": kind}})
}

// changed notes a change, under the lock.
func (s *server) changed(kind, path string, o map[string]any) {
	event, _ := json.Marshal(map[string]any{"type": kind, "object": o})
	s.history = append(s.history, change{s.revision, path, event, time.Now()})
	close(s.moved)
	s.moved = make(chan struct{})
}

func meta(o map[string]any) map[string]any { return o["metadata"].(map[string]any) }

// delete deletes a Lease as kubectl does.
func (s *server) delete(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.leases[path]; o != nil {
		s.revision++
		last := maps.Clone(o)
		last["metadata"] = maps.Clone(meta(o))
		meta(last)["resourceVersion"] = strconv.Itoa(s.revision)
		delete(s.leases, path)
		s.changed("DELETED", path, last)
	}
}

// restart ends watches, and forgets the history.
func (s *server) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boots++
	s.history, s.from = nil, s.revision
	close(s.moved)
	s.moved = make(chan struct{})
}

// serve answers all but watches.
func (s *server) serve(r *http.Request, body []byte) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[r.Method]++
	if s.throttle > 0 {
		s.throttle--
		resp := refuse(http.StatusTooManyRequests, "TooManyRequests", "", "too many requests, please try again later")
		resp.Header.Set("Retry-After", s.after)
		return resp
	}
	var in map[string]any
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		return refuse(http.StatusBadRequest, "BadRequest", "", "not JSON")
	}
	dry := r.URL.Query().Get("dryRun") != ""
	switch path := r.URL.Path; {
	case slices.Contains(s.denied, map[string]string{"GET": "get", "POST": "create", "PUT": "update"}[r.Method]):
		return refuse(http.StatusForbidden, "Forbidden", "leases", "you may not")
	case path == "/version":
		return answer(http.StatusOK, map[string]string{"gitVersion": "v1.37.2"})
	case !strings.HasPrefix(path, "/apis/coordination.k8s.io/v1/namespaces/"):
		return refuse(http.StatusNotFound, "NotFound", "", "the server could not find the requested resource")
	case r.Method == http.MethodGet:
		o := s.leases[path]
		if o == nil {
			return refuse(http.StatusNotFound, "NotFound", "leases", "leases not found")
		}
		return answer(http.StatusOK, o)
	case dry && r.Method == http.MethodPost && s.leases[path+"/"+meta(in)["name"].(string)] == nil:
		return answer(http.StatusCreated, in)
	case dry && meta(in)["uid"] == nil && r.Method == http.MethodPut:
		s.t.Errorf("a dry run that would write %v", in)
		return refuse(http.StatusInternalServerError, "", "", "")
	case r.Method == http.MethodPost:
		return s.create(path+"/"+meta(in)["name"].(string), in)
	case r.Method == http.MethodPut:
		return s.update(path, in)
	}
	return refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "", r.Method)
}

func (s *server) create(path string, in map[string]any) *http.Response {
	if s.leases[path] != nil {
		return refuse(http.StatusConflict, "AlreadyExists", "leases", "already exists")
	}
	if resp := s.invalid(in); resp != nil {
		return resp
	}
	s.revision++
	meta(in)["uid"], meta(in)["resourceVersion"] = fmt.Sprintf("uid-%d", s.revision), strconv.Itoa(s.revision)
	s.leases[path] = in
	s.changed("ADDED", path, in)
	return answer(http.StatusCreated, in)
}

// update is a PUT: it makes a Lease that is not there, unless the uid says which one it is for.
func (s *server) update(path string, in map[string]any) *http.Response {
	old := s.leases[path]
	uid, _ := meta(in)["uid"].(string)
	version, _ := meta(in)["resourceVersion"].(string)
	switch {
	case old == nil && uid != "":
		return refuse(http.StatusConflict, "Conflict", "leases", "Precondition failed: UID in precondition: "+uid+", UID in object meta: ")
	case old == nil:
		return s.create(path, in)
	case version == "":
		return refuse(http.StatusUnprocessableEntity, "Invalid", "leases", "metadata.resourceVersion: must be specified for an update")
	case uid != "" && uid != meta(old)["uid"], version != meta(old)["resourceVersion"]:
		return refuse(http.StatusConflict, "Conflict", "leases", "the object has been modified")
	}
	if resp := s.invalid(in); resp != nil {
		return resp
	}
	was, _ := json.Marshal(old)
	is, _ := json.Marshal(in)
	if bytes.Equal(was, is) { // it is not written
		return answer(http.StatusOK, old)
	}
	s.revision++
	meta(in)["resourceVersion"] = strconv.Itoa(s.revision)
	s.leases[path] = in
	s.changed("MODIFIED", path, in)
	return answer(http.StatusOK, in)
}

// invalid is what Kubernetes validates of a spec.
func (s *server) invalid(in map[string]any) *http.Response {
	spec, _ := in["spec"].(map[string]any)
	if n, ok := spec["leaseDurationSeconds"].(float64); ok && (n <= 0 || n != float64(int32(n))) {
		return refuse(http.StatusUnprocessableEntity, "Invalid", "leases", "spec.leaseDurationSeconds: must be greater than 0")
	}
	for _, field := range []string{"renewTime", "acquireTime"} {
		if text, ok := spec[field].(string); ok {
			if _, err := time.Parse(microTime, text); err != nil {
				return refuse(http.StatusBadRequest, "BadRequest", "leases", field+" is no MicroTime")
			}
		}
	}
	return nil
}

// watch writes events until its request ends, or the server restarts.
func (s *server) watch(ctx context.Context, r *http.Request) *http.Response {
	path := r.URL.Path + "/" + strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests["WATCH"]++
	if from != 0 && from < s.from {
		return answer(http.StatusOK, map[string]any{"type": "ERROR", "object": map[string]any{"code": http.StatusGone, "reason": "Expired", "message": "too old resource version"}})
	}
	var first []byte
	if from == 0 {
		if from = s.revision; s.leases[path] != nil {
			first, _ = json.Marshal(map[string]any{"type": "ADDED", "object": s.leases[path]})
		}
	}
	boot := s.boots
	out, in := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		defer in.Close()
		_, _ = in.Write(first)
		for {
			s.mu.Lock()
			moved, ended, lag := s.moved, s.boots != boot, s.lag
			var next *change
			for i := range s.history {
				if c := &s.history[i]; c.revision > from && c.path == path {
					next = c
					break
				}
			}
			s.mu.Unlock()
			switch {
			case ended:
				return
			case next != nil:
				if late := time.Until(next.at.Add(lag)); late > 0 {
					select {
					case <-time.After(late):
					case <-ctx.Done():
						return
					}
				}
				if _, err := in.Write(next.event); err != nil {
					return
				}
				from = next.revision
				continue
			}
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: out}
}

// line is the way of one participant to a server.
type line struct {
	storetest.Way
	*server
}

// RoundTrip implements [http.RoundTripper].
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	ctx := r.Context()
	if err := l.Pass(ctx); err != nil {
		return nil, err
	}
	if r.URL.Query().Get("watch") != "" {
		l.server.mu.Lock()
		denied := slices.Contains(l.denied, "watch")
		l.server.mu.Unlock()
		if denied {
			return refuse(http.StatusForbidden, "Forbidden", "leases", "you may not watch"), nil
		}
		resp := l.server.watch(ctx, r)
		resp.Body = &behind{resp.Body, l, ctx}
		return resp, nil
	}
	resp := l.serve(r, body)
	if err := l.Back(ctx, r.Method == http.MethodPut && r.URL.Query().Get("dryRun") == ""); err != nil {
		return nil, err
	}
	return resp, nil
}

// behind is a watch behind a line.
type behind struct {
	io.ReadCloser
	l   *line
	ctx context.Context
}

func (b *behind) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if passed := b.l.Pass(b.ctx); passed != nil {
		return 0, passed
	}
	return n, err
}

var source = &url.URL{Scheme: "kubernetes", Host: "jobs"}

// at returns the API on a new line.
func (s *server) at() (*api, *line) {
	l := &line{server: s}
	client := &http.Client{Transport: l}
	return &api{server: &url.URL{Scheme: "https", Host: "cluster"}, requests: client, watches: client}, l
}

// open returns a participant with a lease of a second.
func (s *server) open(t testing.TB, era uint16, name, id string) electtest.Participant {
	t.Helper()
	a, l := s.at()
	e, err := newElector(t.Context(), a, name, id, Config{Namespace: "jobs", Lease: time.Second, MaxLease: 2 * time.Second, Era: era}, drive.Config{Now: storetest.Now, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	return electtest.Participant{Elector: e, Cut: l.Cut, Lose: l.Lose, Delay: l.Delay}
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/jobs/leases/"
