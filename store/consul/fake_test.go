package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/storetest"
)

// fake answers as one server of Consul does: it has the requests that elect makes, and refuses all others. Its rules
// are those of Consul 1.21, which the tests in test/fencing/leases ask themselves.
type fake struct {
	mu      sync.Mutex
	index   uint64
	keys    map[string]pair
	changed chan struct{} // closed, and replaced, by each change
	refuse  func(*http.Request) (status int, says string)
	reads   int // that are consistent
}

func newFake() *fake { return &fake{index: 10, keys: map[string]pair{}, changed: make(chan struct{})} }

// set changes the keys by hand.
func (f *fake) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	do()
	f.wake()
}

func (f *fake) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// snapshot returns what restores the present state.
func (f *fake) snapshot() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := map[string]pair{}
	maps.Copy(old, f.keys)
	return func() { f.set(func() { f.keys = old }) }
}

// ServeHTTP implements [http.Handler].
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body := f.answer(w.Header(), r)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (f *fake) answer(h http.Header, r *http.Request) (status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if status, says := f.refuse(r); status != 0 {
			return status, says
		}
	}
	q := r.URL.Query()
	for name := range q {
		if !strings.Contains(" dc consistent stale index wait ", " "+name+" ") {
			return http.StatusBadRequest, "unknown parameter " + name
		}
	}
	show := func(v any) string { text, _ := json.Marshal(v); return string(text) }
	key, isKey := strings.CutPrefix(r.URL.Path, "/v1/kv/")
	switch {
	case isKey && r.Method == http.MethodGet && q.Has("consistent") != q.Has("stale"):
		if q.Has("consistent") {
			f.reads++
		}
		index := f.wait(r.Context(), key, q)
		h.Set("X-Consul-Index", strconv.FormatUint(index, 10))
		if p, there := f.keys[key]; there {
			return http.StatusOK, show([]pair{p})
		}
		return http.StatusNotFound, ""
	case r.URL.Path == "/v1/txn" && r.Method == http.MethodPut:
		var ops []operation
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&ops); err != nil || len(ops) != 1 || ops[0].KV.Verb != "cas" {
			return http.StatusBadRequest, fmt.Sprintf("%+v, %v", ops, err)
		}
		f.index++ // a failed one is in the log, too
		op := ops[0].KV
		p, there := f.keys[op.Key]
		if there != (op.Index > 0) || p.ModifyIndex != op.Index {
			return http.StatusConflict, show(map[string]any{"Results": nil, "Errors": []map[string]any{{"OpIndex": 0, "What": fmt.Sprintf("failed to set key %q, index is stale", op.Key)}}})
		}
		if !there {
			p = pair{Key: op.Key, CreateIndex: f.index}
		}
		if string(p.Value) != string(op.Value) || !there { // an identical write changes nothing
			p.Value, p.ModifyIndex = op.Value, f.index
			f.keys[op.Key] = p
			f.wake()
		}
		p.Value = nil
		return http.StatusOK, show(map[string]any{"Results": []map[string]any{{"KV": p}}, "Errors": nil})
	case r.URL.Path == "/v1/status/leader":
		return http.StatusOK, `"127.0.0.1:8300"`
	case r.URL.Path == "/v1/status/peers":
		return http.StatusOK, `["127.0.0.1:8300"]`
	case r.URL.Path == "/v1/agent/self":
		return http.StatusOK, `{"Config":{"Datacenter":"dc1","Version":"1.21.0"},"DebugConfig":{"DevMode":true}}`
	}
	return http.StatusMethodNotAllowed, r.Method + " " + r.URL.String()
}

// wait is a blocking query, if it is one, and returns the index of a key.
func (f *fake) wait(ctx context.Context, key string, q url.Values) uint64 {
	of := func() uint64 {
		if p, there := f.keys[key]; there {
			return p.ModifyIndex
		}
		return f.index
	}
	from, _ := strconv.ParseUint(q.Get("index"), 10, 64)
	longest, _ := time.ParseDuration(q.Get("wait"))
	for until := time.Now().Add(longest); from > 0 && of() <= from; {
		changed := f.changed
		f.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-ctx.Done():
			over = true
		case <-time.After(time.Until(until)):
			over = true
		}
		f.mu.Lock()
		if over || of() < from {
			break
		}
	}
	return of()
}

// line is the way of one participant to Consul.
type line struct {
	storetest.Way
	to http.Handler
}

// RoundTrip implements [http.RoundTripper].
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := l.Pass(r.Context()); err != nil {
		return nil, err
	}
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(text)))
	w := httptest.NewRecorder()
	l.to.ServeHTTP(w, r)
	var err error
	if r.URL.Query().Has("stale") {
		err = l.Pass(r.Context())
	} else {
		var ops []operation
		_ = json.Unmarshal(text, &ops)
		err = l.Back(r.Context(), len(ops) > 0 && strings.Contains(string(ops[0].KV.Value), `"holder":"`))
	}
	if err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// client returns a client of the fake in the bubble of a test, and its way.
func (f *fake) client() (*client, *line) {
	l := &line{to: f}
	return newClient("http", "consul", &http.Client{Transport: l}, "", ""), l
}

// open opens a participant in the bubble of a test.
func (f *fake) open(t testing.TB, name, id string, cfg Config) electtest.Participant {
	t.Helper()
	c, l := f.client()
	cfg.now = storetest.Now
	e, err := newElector(t.Context(), c, name, id, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return electtest.Participant{Elector: e, Cut: l.Cut, Lose: l.Lose, Delay: l.Delay}
}

// TestConformance runs the suite in fake time.
func TestConformance(t *testing.T) {
	var f *fake
	var of testing.TB
	var era uint16
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant {
		if of != t {
			f, of, era = newFake(), t, 0
		}
		return f.open(t, name, id, Config{Key: "jobs/" + name, Lease: time.Second, MaxLease: 2 * time.Second, Era: era})
	}, electtest.Config{
		Bubble: true,
		Cannot: map[electtest.Fault]string{
			electtest.Freeze: "a goroutine cannot freeze another: see the conformance of processes in test/fencing/leases",
			electtest.Crash:  "as Freeze",
		},
		Restart:  func(testing.TB) { f.set(func() {}) },
		Recreate: func(testing.TB) { f.set(func() { clear(f.keys) }); era++ },
	})
}
