package electhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/group"
)

// coordinator is one that a test answers for.
type coordinator struct {
	status  group.Status
	holders map[string]elect.Leader
	err     error
	silent  bool
}

func (c *coordinator) answer(ctx context.Context) error {
	if c.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.err
}

func (c *coordinator) Status(ctx context.Context) (group.Status, error) {
	return c.status, c.answer(ctx)
}

func (c *coordinator) Lookup(ctx context.Context, key string) (elect.Leader, error) {
	if err := c.answer(ctx); err != nil {
		return elect.Leader{}, err
	}
	l, ok := c.holders[key]
	if !ok {
		return l, elect.ErrNoLeader
	}
	return l, nil
}

func newCoordinator() *coordinator {
	return &coordinator{
		status: group.Status{Group: "shards", Coordinator: "m1", Token: 7, Keys: 2, Held: 1, Version: 3, Members: []group.Member{
			{ID: "m1", Attached: true, Admitted: true, Weight: 100, Keys: 1}, {ID: "m2", Address: "127.0.0.1:1", Zone: "z", Draining: true, Weight: 1},
		}},
		holders: map[string]elect.Leader{"a": {ID: "m1", Token: 458753, Metadata: map[string]string{"at": "10.0.0.1:80"}}},
	}
}

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	h.ServeHTTP(w, r)
	return w
}

// TestKeysOpenAPI: each answer is described, and each answer that is described is given, by a server of its own and by
// those of one election and of several, which describe the paths of groups, too.
func TestKeysOpenAPI(t *testing.T) {
	hosts := []string{"example.com"}
	keys := func(c *coordinator) http.Handler { return electhttp.NewKeys("shards", c, hosts) }
	t.Run("alone", func(t *testing.T) {
		c := newCoordinator()
		describesKeys(t, c, keys(c), true)
	})
	t.Run("one election", func(t *testing.T) {
		c := newCoordinator()
		h, err := electhttp.New(electhttp.Config{Name: "job", ID: "a", Hosts: hosts, Groups: keys(c)})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		describesKeys(t, c, h, false)
	})
	t.Run("several elections", func(t *testing.T) {
		c := newCoordinator()
		describesKeys(t, c, electhttp.NewGroup(electhttp.GroupConfig{Hosts: hosts, Groups: keys(c)}), false)
	})
}

// describesKeys compares what a server with the group "shards" of c describes of groups, and with all of the rest, and
// what it answers.
func describesKeys(t *testing.T, c *coordinator, h http.Handler, all bool) {
	var doc document
	if err := json.Unmarshal(get(h, "/openapi.json").Body.Bytes(), &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Fatalf("%v, version %q", err, doc.OpenAPI)
	}
	described, given := doc.answers(t), map[string]bool{}
	if !all {
		maps.DeleteFunc(described, func(key string, _ schema) bool { return !strings.Contains(key, " /v1/groups/") })
	}
	pattern := regexp.MustCompile(`^/v1/groups/[^/]+`)
	try := func(path string, header ...string) {
		t.Helper()
		w := get(h, path, header...)
		content := w.Header().Get("Content-Type")
		var value any
		if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
		kind := ""
		if content == "application/problem+json" {
			kind = value.(map[string]any)["type"].(string)
			if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("ETag") != "" {
				t.Errorf("%s: an error may be stored: %v", path, w.Header())
			}
		}
		at := pattern.ReplaceAllString(path, "/v1/groups/{group}")
		if strings.Contains(at, "/keys/") {
			at = "/v1/groups/{group}/keys/{key}"
		}
		key := fmt.Sprintf("GET %s %d %s %s", at, w.Code, content, kind)
		if s, ok := described[key]; !ok {
			t.Errorf("%s is not described", key)
		} else if err := doc.allows(s, value, "the body"); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		given[key] = true
	}
	paths := []string{"/v1/groups/shards", "/v1/groups/shards/keys/a", "/openapi.json"}
	if !all {
		paths = paths[:2]
	}
	for _, path := range paths {
		try(path)
		try(path, "Accept", "text/html")
		try(path, "Host", "evil.example")
	}
	try("/v1/groups/other")
	try("/v1/groups/other/keys/a")
	try("/v1/groups/shards/keys/nobody-holds-it")
	try("/v1/groups/shards/keys/" + strings.Repeat("k", 200))
	c.err = fmt.Errorf("%w: gone", driver.ErrUnreachable)
	try(paths[0])
	try(paths[1])
	for _, key := range slices.Sorted(maps.Keys(described)) {
		if !given[key] {
			t.Errorf("%s is described, and was not given", key)
		}
	}
}

// TestKeysAreRevalidated: an answer that has not changed is not sent again, and each change changes the ETag.
func TestKeysAreRevalidated(t *testing.T) {
	c := newCoordinator()
	h := electhttp.NewKeys("shards", c, nil)
	seen := map[string]bool{}
	for _, step := range []struct {
		path   string
		change func()
	}{
		{"/v1/groups/shards/keys/a", func() {}},
		{"/v1/groups/shards/keys/a", func() { c.holders["a"] = elect.Leader{ID: "m2", Token: 458754} }},
		{"/v1/groups/shards/keys/a", func() {
			c.holders["a"] = elect.Leader{ID: "m2", Token: 458754, Metadata: map[string]string{"at": "10.0.0.2:80"}}
		}},
		{"/v1/groups/shards", func() {}},
		{"/v1/groups/shards", func() { c.status.Version++ }},
		{"/v1/groups/shards", func() { c.status.Token, c.status.Version = 8, 1 }},
	} {
		step.change()
		w := get(h, step.path)
		tag := w.Header().Get("ETag")
		if w.Code != 200 || tag == "" || seen[tag] || w.Header().Get("Cache-Control") != "no-cache" {
			t.Fatalf("%s: %d, %v; want 200, no-cache, and an ETag that is none of %v", step.path, w.Code, w.Header(), seen)
		}
		for _, has := range []string{tag, "W/" + tag, `"other", ` + tag} {
			if again := get(h, step.path, "If-None-Match", has); again.Code != 304 || again.Body.Len() > 0 || again.Header().Get("ETag") != tag {
				t.Errorf("%s with If-None-Match %s: %d, %v", step.path, has, again.Code, again.Header())
			}
		}
		for old := range seen {
			if again := get(h, step.path, "If-None-Match", old); again.Code != 200 {
				t.Errorf("%s with an ETag of before: %d; want 200", step.path, again.Code)
			}
		}
		seen[tag] = true
	}
}

// TestKeysWithoutCoordinator: who does not answer delays a client by 2 s at most, and the client is told to come again.
func TestKeysWithoutCoordinator(t *testing.T) {
	c := newCoordinator()
	h := electhttp.NewKeys("shards", c, nil)
	for _, err := range []error{elect.ErrNoLeader, driver.ErrUnreachable, errors.New("other")} {
		c.err = err
		if w := get(h, "/v1/groups/shards"); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%v: %d, %v; want 503 with Retry-After", err, w.Code, w.Header())
		}
	}
	c.silent = true
	began := time.Now()
	if w := get(h, "/v1/groups/shards/keys/a"); w.Code != 503 || time.Since(began) > 30*time.Second {
		t.Errorf("a silent coordinator: %d after %v; want 503 after 2 s", w.Code, time.Since(began))
	}
	r, w := httptest.NewRequest("POST", "/v1/groups/shards", nil), httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, %v", w.Code, w.Header())
	}
}

// TestHolder: a Client gets who holds a key, each time as the coordinator knows it, and the same answer only once.
func TestHolder(t *testing.T) {
	of := newCoordinator()
	of.holders["c"] = elect.Leader{ID: "m2", Token: 65537}
	h := electhttp.NewKeys("shards", of, nil)
	var codes []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		codes = append(codes, got.Code)
		maps.Copy(w.Header(), got.Header())
		w.WriteHeader(got.Code)
		_, _ = w.Write(got.Body.Bytes())
	}))
	defer server.Close()
	c := &electhttp.Client{URL: server.URL}
	asked := func(key string, want elect.Leader, is error) {
		t.Helper()
		if l, err := c.Holder(t.Context(), "shards", key); !reflect.DeepEqual(l, want) || !errors.Is(err, is) {
			t.Errorf("%s is held by %+v, %v; want %+v, %v", key, l, err, want, is)
		}
	}
	for range 2 {
		asked("a", of.holders["a"], nil)
		asked("c", of.holders["c"], nil)
		asked("b", elect.Leader{}, elect.ErrNoLeader)
	}
	of.holders["a"] = elect.Leader{ID: "m2", Token: 458754}
	asked("a", of.holders["a"], nil)
	delete(of.holders, "a")
	asked("a", elect.Leader{}, elect.ErrNoLeader)
	of.err = errors.New("the coordinator is new")
	if _, err := c.Holder(t.Context(), "shards", "a"); err == nil || !strings.Contains(err.Error(), "503: the coordinator is new") || errors.Is(err, elect.ErrNoLeader) {
		t.Errorf("without an answer: %v", err)
	}
	if _, err := c.Holder(t.Context(), "others", "a"); err == nil || !strings.Contains(err.Error(), "want shards") {
		t.Errorf("another group: %v", err)
	}
	if want := []int{200, 200, 404, 304, 304, 404, 200, 404, 503, 404}; !slices.Equal(codes, want) {
		t.Errorf("the answers are %v; want %v", codes, want)
	}
}
