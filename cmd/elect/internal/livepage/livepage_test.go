package livepage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
)

const secret = "SECRET"

// cluster is one that a test makes: its events are numbers.
type cluster struct {
	*httptest.Server
	page *Handler

	mu   sync.Mutex
	last uint64
	more chan struct{}
	did  []string
}

func serve(t *testing.T) *cluster {
	c := &cluster{more: make(chan struct{})}
	var err error
	c.page, err = New(Config{
		Token: secret, About: map[string]string{"is": "a cluster"}, Since: c.since, Verbs: []string{"kill", "hang"},
		Do: func(ctx context.Context, verb, node string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.did = append(c.did, verb+" "+node)
			switch node {
			case "n2":
				return Refusal("n2 is dead.")
			case "n3":
				return errors.New("no such process")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Server = httptest.NewServer(c.page)
	t.Cleanup(func() {
		c.page.End("the test is over")
		c.Close()
	})
	return c
}

func (c *cluster) since(event uint64) Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := Batch{Last: c.last, Now: time.Duration(c.last), More: c.more}
	if event < c.last {
		var all []uint64
		for n := event + 1; n <= c.last; n++ {
			all = append(all, n)
		}
		b.Events = all
	}
	return b
}

func (c *cluster) happens(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last += n
	close(c.more)
	c.more = make(chan struct{})
}

// ask sends a request, with what change does to it.
func (c *cluster) ask(t *testing.T, method, path, body string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	a, err := c.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(text)
}

// TestPermitted has everybody refused who may not break the cluster, and nothing done for them.
func TestPermitted(t *testing.T) {
	c := serve(t)
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, q := range map[string]struct {
		method, path, body string
		change             func(*http.Request)
		status             int
		says               string
	}{
		"kill":                 {"POST", "/live/kill", `{"node":"n1"}`, nil, 200, `{"refused":""}`},
		"of no use":            {"POST", "/live/kill", `{"node":"n2"}`, nil, 200, `{"refused":"n2 is dead."}`},
		"failed":               {"POST", "/live/kill", `{"node":"n3"}`, nil, 502, "no such process"},
		"no token":             {"POST", "/live/kill", `{"node":"n1"}`, set("Authorization", ""), 401, "its token is missing"},
		"another token":        {"POST", "/live/kill", `{"node":"n1"}`, set("Authorization", "Bearer SECRET2"), 401, "its token is missing"},
		"not a token":          {"POST", "/live/kill", `{"node":"n1"}`, set("Authorization", secret), 401, "its token is missing"},
		"events, no token":     {"GET", "/live/events", "", set("Authorization", ""), 401, "its token is missing"},
		"the token in the URL": {"GET", "/live/events?token=" + secret, "", set("Authorization", ""), 401, "its token is missing"},
		"another site":         {"POST", "/live/kill", `{"node":"n1"}`, set("Origin", "http://evil.example"), 403, "another site"},
		"another site, fetch":  {"POST", "/live/kill", `{"node":"n1"}`, set("Sec-Fetch-Site", "cross-site"), 403, "another site"},
		"another name":         {"POST", "/live/kill", `{"node":"n1"}`, host("evil.example"), 421, "not of this server"},
		"another name, page":   {"GET", "/", "", host("evil.example:80"), 421, "not of this server"},
		"another address":      {"GET", "/", "", host("192.0.2.1"), 421, "not of this server"},
		"localhost":            {"GET", "/", "", host("localhost:1"), 200, "<!doctype html>"},
		"unknown verb":         {"POST", "/live/reboot", `{"node":"n1"}`, nil, 404, `want kill, hang`},
		"a form":               {"POST", "/live/kill", "node=n1", set("Content-Type", "application/x-www-form-urlencoded"), 415, "want Content-Type: application/json"},
		"no JSON":              {"POST", "/live/kill", "node", nil, 400, `want {"node":"ID"}`},
		"another field":        {"POST", "/live/kill", `{"nodes":"n1"}`, nil, 400, `want {"node":"ID"}`},
		"two bodies":           {"POST", "/live/kill", `{"node":"n1"}{"node":"n2"}`, nil, 400, `want {"node":"ID"}`},
		"a large body":         {"POST", "/live/kill", `{"node":"` + strings.Repeat("n", maxBody) + `"}`, nil, 400, `want {"node":"ID"}`},
		"by GET":               {"GET", "/live/kill", "", nil, 404, ""},
		"no number":            {"GET", "/live/events", "", set("Last-Event-ID", "x"), 400, "not a number"},
		"the machines":         {"GET", "/machines.wasm", "", nil, 404, ""},
	} {
		c.did = nil
		a, text := c.ask(t, q.method, q.path, q.body, q.change)
		if a.StatusCode != q.status || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), q.says) {
			t.Errorf("%s: %d %s; want %d with %q", name, a.StatusCode, text, q.status, q.says)
		}
		if policy := a.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		if want := q.method == "POST" && (q.status == 200 || q.status == 502); want != (len(c.did) == 1) {
			t.Errorf("%s: it did %q", name, c.did)
		}
	}
}

// TestIndex has the page told that it shows a cluster that runs.
func TestIndex(t *testing.T) {
	c := serve(t)
	_, text := c.ask(t, "GET", "/", "", nil)
	if strings.Count(text, live) != 1 || strings.Contains(text, laboratory) {
		t.Errorf("index.html is %s; want %s in it", text, live)
	}
	_, script, _ := strings.Cut(text, `src="`)
	script, _, _ = strings.Cut(script, `"`)
	if a, _ := c.ask(t, "GET", "/"+script, "", nil); a.StatusCode != 200 || !strings.Contains(a.Header.Get("Content-Type"), "javascript") {
		t.Errorf("%s: %d %s; want the script", script, a.StatusCode, a.Header.Get("Content-Type"))
	}
}

// stream is what a page hears.
type stream struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
}

func (c *cluster) listen(t *testing.T, last string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/live/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	a, err := c.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	if a.StatusCode != http.StatusOK {
		t.Fatalf("status %d; want a stream", a.StatusCode)
	}
	return &stream{t, a.Body, bufio.NewReader(a.Body)}
}

// next returns the next message that is more than a sign of life.
func (s *stream) next() (id uint64, kind, data string) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ends: %v", err)
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "id":
			if id, err = strconv.ParseUint(value, 10, 64); err != nil {
				s.t.Fatal(err)
			}
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if !strings.Contains(data, `"events":null`) {
				return id, kind, data
			}
		}
	}
}

// numbers reads events until one with the number last has come, and wants them in a row.
func (s *stream) numbers(from, last uint64) {
	s.t.Helper()
	for from <= last {
		id, kind, data := s.next()
		var batch struct{ Events []uint64 }
		if err := json.Unmarshal([]byte(data), &batch); err != nil || kind != "events" {
			s.t.Fatalf("%s %s: %v; want events", kind, data, err)
		}
		for _, n := range batch.Events {
			if n != from {
				s.t.Fatalf("event %d comes; want %d", n, from)
			}
			from++
		}
		if id != from-1 {
			s.t.Fatalf("the id is %d after event %d", id, from-1)
		}
	}
}

// TestEvents has pages hear everything once and in order: one that is there, one that comes late, one that comes back;
// and all of them hear of the end.
func TestEvents(t *testing.T) {
	c := serve(t)
	c.happens(3)
	first := c.listen(t, "")
	if _, kind, data := first.next(); kind != "about" || data != `{"is":"a cluster"}` {
		t.Errorf("%s %s; want what the cluster is", kind, data)
	}
	first.numbers(1, 3)
	c.happens(1)
	c.happens(1)
	first.numbers(4, 5)
	back := c.listen(t, "4")
	back.next()
	back.numbers(5, 5)
	c.happens(1)
	back.numbers(6, 6)
	first.numbers(6, 6)

	c.page.End("it was enough")
	late := c.listen(t, "")
	late.next()
	late.numbers(1, 6)
	for _, s := range []*stream{first, back, late} {
		if _, kind, data := s.next(); kind != "end" || data != `{"says":"it was enough"}` {
			t.Errorf("%s %s; want the end", kind, data)
		}
		if rest, err := io.ReadAll(s.in); err != nil || len(rest) > 0 {
			t.Errorf("after the end comes %q, %v; want nothing", rest, err)
		}
	}
}

// TestPages has too many pages refused, until one of them is gone.
func TestPages(t *testing.T) {
	c := serve(t)
	var all []*stream
	for range maxPages {
		s := c.listen(t, "")
		s.next()
		all = append(all, s)
	}
	if a, text := c.ask(t, "GET", "/live/events", "", nil); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "want fewer") {
		t.Errorf("one page more: %d %s; want it refused", a.StatusCode, text)
	}
	all[0].body.Close()
	c.happens(1) // what is sent to it finds it gone
	for tries := 0; ; tries++ {
		c.page.mu.Lock()
		n := c.page.pages
		c.page.mu.Unlock()
		if n < maxPages {
			break
		}
		if tries == 100 { // seconds, of which each tells the page something
			t.Fatal("a page that is gone is still counted")
		}
		all[1].numbers(c.last, c.last)
		c.happens(1)
	}
	c.listen(t, "").next()
}
