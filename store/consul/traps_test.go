package consul

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// stand begins a campaign. What is received is nil if it was not won.
func stand(t *testing.T, e driver.Elector) <-chan driver.Mandate {
	won := make(chan driver.Mandate, 1)
	go func() {
		m, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true})
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		won <- m
	}()
	return won
}

// closed closes a participant.
func closed(t *testing.T, e driver.Elector) {
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func released(t *testing.T, m driver.Mandate) {
	t.Helper()
	if err := m.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// hour has times so long that only a watch tells anything.
var hour = Config{Lease: time.Hour, MaxLease: time.Hour, Poll: time.Hour}

// TestWatch: a release is heard of at once, and a renewal makes nobody read.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a := f.open(t, "e", "a", hour)
		defer closed(t, a)
		m := <-stand(t, a)
		b := f.open(t, "e", "b", hour)
		defer closed(t, b)
		won := stand(t, b)
		time.Sleep(time.Second)
		count := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.reads }
		before := count()
		time.Sleep(25 * time.Minute) // it is renewed every 15
		if n := count() - before; n > 0 {
			t.Errorf("%d reads, though nothing is new", n)
		}
		begun := time.Now()
		released(t, m)
		n := <-won
		if took := time.Since(begun); took > time.Second || n.Token() <= m.Token() {
			t.Errorf("token %v after %v, %v after the release; want it to hear of that", n.Token(), m.Token(), took)
		}
		released(t, n)
	})
}

// TestWatchBackwards: the index of a blocking query goes back, as after a restore, and the watch goes on. So it does
// after errors.
func TestWatchBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c, _ := f.client()
		k := &key{client: c, Config: Config{Key: "e"}}
		var mu sync.Mutex
		changes := 0
		take := func() int { mu.Lock(); defer mu.Unlock(); n := changes; changes = 0; return n }
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			k.Watch(ctx, func() { mu.Lock(); defer mu.Unlock(); changes++ })
			close(over)
		}()
		put := func(text string) {
			f.set(func() { f.keys["e"] = pair{Key: "e", Value: []byte(text), ModifyIndex: f.index} })
			time.Sleep(time.Minute)
			if n := take(); n != 1 {
				t.Errorf("%d changes heard of for %s; want 1", n, text)
			}
		}
		time.Sleep(time.Minute)
		take()
		put("1")
		restore := f.snapshot()
		put("2")
		restore()
		time.Sleep(time.Minute)
		if n := take(); n != 1 {
			t.Errorf("%d changes heard of for a restore; want 1", n)
		}
		put("3")
		f.set(func() {
			f.refuse = func(*http.Request) (int, string) { return http.StatusTooManyRequests, "rate limit exceeded" }
		})
		time.Sleep(time.Minute)
		f.set(func() { f.refuse = nil })
		time.Sleep(time.Minute)
		put("4")
		f.set(func() { delete(f.keys, "e") })
		time.Sleep(time.Minute)
		if n := take(); n != 1 {
			t.Errorf("%d changes heard of for a deletion; want 1", n)
		}
		cancel()
		<-over
	})
}

// TestWatches: a client has so many blocking queries at a time, and no more.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		c, _ := f.client()
		var mu sync.Mutex
		asked := 0
		f.refuse = func(r *http.Request) (int, string) { mu.Lock(); defer mu.Unlock(); asked++; return 0, "" }
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 * mostWatches {
			all.Go(func() { (&key{client: c, Config: Config{Key: "e"}}).Watch(ctx, func() {}) })
		}
		synctest.Wait()
		time.Sleep(30 * time.Second)
		mu.Lock()
		if asked != 2*mostWatches { // each first asks for the index
			t.Errorf("%d requests; want two of each of %d", asked, mostWatches)
		}
		mu.Unlock()
		cancel()
		all.Wait()
	})
}

// TestRefusals: for a while all requests are refused. A short while costs no term; in a long one the term ends in time,
// and then somebody leads again.
func TestRefusals(t *testing.T) {
	for says, status := range map[string]int{
		"No cluster leader": http.StatusInternalServerError,
		"rate limit exceeded, try again later or against a different server": http.StatusTooManyRequests,
		"Permission denied: token lacks permission 'key:read' on \"e\"":      http.StatusForbidden,
		"upstream not found": http.StatusNotFound, // by a proxy
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				cfg := Config{Lease: 4 * time.Second, MaxLease: 4 * time.Second}
				a, b := f.open(t, "e", "a", cfg), f.open(t, "e", "b", cfg)
				defer closed(t, a)
				defer closed(t, b)
				m := <-stand(t, a)
				won := stand(t, b)
				time.Sleep(time.Second) // it is admitted
				down := func(d time.Duration) {
					f.set(func() { f.refuse = func(*http.Request) (int, string) { return status, says } })
					time.Sleep(d)
					f.set(func() { f.refuse = nil })
				}
				down(1500 * time.Millisecond)
				time.Sleep(2 * time.Second)
				if err := m.Check(); err != nil {
					t.Fatalf("a short trouble costs the term: %v", err)
				}
				down(5 * time.Second)
				if m.Check() == nil {
					t.Error("it is proven without an answer for longer than a lease")
				}
				released(t, m)
				n := <-won
				if n == nil || n.Token() <= m.Token() {
					t.Fatalf("%v after %v", n, m.Token())
				}
				released(t, n)
			})
		})
	}
}

// TestRestored: a snapshot is restored in which the key is free. The leader after it ends its term, and the next one,
// which has seen it, waits for the longest lease.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		cfg := Config{Lease: time.Second, MaxLease: 10 * time.Second}
		a, b := f.open(t, "e", "a", cfg), f.open(t, "e", "b", cfg)
		defer closed(t, a)
		defer closed(t, b)
		released(t, <-stand(t, a))
		restore := f.snapshot()
		m := <-stand(t, a)
		won := stand(t, b)
		time.Sleep(3 * time.Second)
		restore()
		restored := time.Now()
		<-m.Context().Done()
		if took := time.Since(restored); took > time.Second {
			t.Errorf("its term ends %v after the restore; want it at the next renewal", took)
		}
		released(t, m)
		n := <-won
		if took := time.Since(restored); took < 10*time.Second || n.Token() <= m.Token() {
			t.Errorf("token %v after %v, %v after the restore; want max_lease", n.Token(), m.Token(), took)
		}
		released(t, n)
	})
}

// TestDeleted: tokens rise after the key was deleted, also if no participant is left that has seen one.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		cfg := Config{Lease: time.Second, MaxLease: 2 * time.Second}
		var last fence.Token
		for _, id := range []string{"a", "b", "c"} {
			e := f.open(t, "e", id, cfg)
			for range 3 {
				m := <-stand(t, e)
				if m.Token() <= last {
					t.Errorf("token %v after %v", m.Token(), last)
				}
				last = m.Token()
				released(t, m)
			}
			closed(t, e)
			f.set(func() { delete(f.keys, "e") })
		}
	})
}

// TestRefusedKeys: what the key must not be, and who must not ask, is said at the start, in one line.
func TestRefusedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		is   pair
		key  string
		says func(*http.Request) (int, string)
		want string
	}{
		"session":   {is: pair{Session: "8f246b77-f3e1-ff88-5b48-8ec93abf3e05", Value: []byte("x")}, want: "is held by session 8f246b77"},
		"flag":      {is: pair{Flags: flagOfLocks}, want: "has the flag of Consul's own locks, 0x2ddccbc058a50c18"},
		"ACL":       {says: func(*http.Request) (int, string) { return http.StatusForbidden, "ACL not found" }, want: "Consul answers 403: ACL not found; want a token"},
		"namespace": {says: func(*http.Request) (int, string) { return http.StatusBadRequest, "Namespaces are a\nfeature" }, want: "400: Namespaces are a feature"},
		"TLS": {says: func(*http.Request) (int, string) {
			return http.StatusBadRequest, "Client sent an HTTP request to an HTTPS server.\n"
		}, want: "want tls=on"},
		"slash": {key: "/x", want: `key "/x"; want UTF-8`},
		"dots":  {key: "a/../x", want: `key "a/../x"; want UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.refuse = c.says
			c.is.Key, c.is.ModifyIndex = "e", 5
			f.keys["e"] = c.is
			cl, _ := f.client()
			_, err := newElector(t.Context(), cl, "e", "a", Config{Key: c.key}, nil)
			if err == nil || !driver.IsPermanent(err) || errors.Is(err, ErrRefused) != (c.key == "") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want a refusal with %q, in one line", err, c.want)
			}
		})
	}
}

// TestNoWrites: a token that may only read is refused when it stands.
func TestNoWrites(t *testing.T) {
	f := newFake()
	f.refuse = func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut {
			return http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied: token with AccessorID 'x' lacks permission 'key:write' on \"e\""}]}`
		}
		return 0, ""
	}
	c, _ := f.client()
	e, err := newElector(t.Context(), c, "e", "a", Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	if _, err := e.Campaign(t.Context(), driver.Candidacy{Exclusive: true}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "'key:write'") || !strings.Contains(err.Error(), "has write for the key") {
		t.Errorf("%v; want a refusal that names the right", err)
	}
	found, err := e.Examine(t.Context())
	wrong := []string{}
	for _, f := range found {
		if f.Wrong {
			wrong = append(wrong, f.What+" "+f.Value)
		}
	}
	if text := strings.Join(wrong, ", "); err != nil || text != "mode dev, rights missing" {
		t.Errorf("%s, %v; want what is wrong", text, err)
	}
}

// TestSockets asks over a socket, with a token in a file that is written anew, and follows no redirect with it.
func TestSockets(t *testing.T) {
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "token"), filepath.Join(dir, "s")
	if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.refuse = func(r *http.Request) (int, string) {
		if r.Header.Get("X-Consul-Token") != "new" {
			return http.StatusForbidden, "ACL not found"
		}
		return 0, ""
	}
	at, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: f}
	go func() { _ = s.Serve(at) }()
	defer s.Close()
	target := func(query string) driver.Target {
		u, err := url.Parse("consul:///jobs?token_file=" + file + query)
		if err != nil {
			t.Fatal(err)
		}
		return driver.Target{URL: u, Name: "e", ID: "a"}
	}
	if _, err := Open(t.Context(), target("&socket="+socket)); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "old") {
		t.Errorf("%v; want a refusal of the token, without it", err)
	}
	if err := os.WriteFile(file, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONSUL_HTTP_ADDR", "unix://"+socket)
	e, err := Open(t.Context(), target(""))
	if err != nil {
		t.Fatal(err)
	}
	closed(t, e)

	got := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Consul-Token") }))
	defer thief.Close()
	agent := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer agent.Close()
	c, err := Agent{Address: agent.URL, Token: "mine"}.client()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&key{client: c, Config: Config{Key: "e"}}).read(t.Context()); err == nil || got != "" || !strings.Contains(err.Error(), "want the address of an agent") {
		t.Errorf("%v, and the token went on as %q", err, got)
	}
}

// TestTLS: what is wrong with certificates is said, with what would be right.
func TestTLS(t *testing.T) {
	f := newFake()
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	plain := httptest.NewServer(f)
	defer plain.Close()
	open := func(at, query string) error {
		u, err := url.Parse(strings.NewReplacer("https:", "consul:", "http:", "consul:").Replace(at) + "?" + query)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), driver.Target{URL: u, Name: "e", ID: "a"})
		if err == nil {
			closed(t, e)
		}
		return err
	}
	for query, want := range map[string]string{
		"tls=on":  "want cacert=FILE",
		"tls=off": "want tls=on",
	} {
		if err := open(s.URL, query); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
	if err := open(plain.URL, "tls=on"); err == nil || !strings.Contains(err.Error(), "want tls=off") {
		t.Errorf("plain text: %v", err)
	}
	if err := open(plain.URL, ""); err != nil {
		t.Error(err)
	}
	t.Setenv("CONSUL_HTTP_SSL", "true")
	t.Setenv("CONSUL_HTTP_SSL_VERIFY", "false")
	if err := open(s.URL, ""); err != nil {
		t.Error(err)
	}
}

// answers answers each request with the same text.
type answers struct {
	status int
	body   string
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"X-Consul-Index": {"7"}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// FuzzAnswers: no answer makes a read or a write panic, or succeed without a version.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`[{"Key":"e","Value":"eA==","ModifyIndex":7}]`, `[{"Key":"e","Value":null,"ModifyIndex":0}]`, `[]`, `null`, ``, `{}`, `[{"Key":"f","ModifyIndex":7}]`, `[{"Key":"e","ModifyIndex":-1}]`,
		`{"Results":[{"KV":{"Key":"e","ModifyIndex":8}}],"Errors":null}`, `{"Results":[{"KV":{"Key":"e","ModifyIndex":10}}]}`, `{"Results":[{"KV":null}]}`, `{"Results":null,"Errors":[{"OpIndex":0,"What":"index is stale"}]}`, `{"Errors":[]}`,
	} {
		f.Add(200, body)
		f.Add(404, body)
		f.Add(409, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		k := &key{client: newClient("http", "h", &http.Client{Transport: answers{status, body}}, "", ""), Config: Config{Key: "e"}}
		if kept, err := k.read(t.Context()); err == nil && (kept.Version == "") != (status == http.StatusNotFound) {
			t.Errorf("%d %s: %+v", status, body, kept)
		}
		if kept, err := k.Write(t.Context(), "7=", "x"); err == nil {
			index, _, _ := strings.Cut(kept.Version, "=")
			if n, err := strconv.ParseUint(index, 10, 64); err != nil || n <= 7 || kept.Text != "x" {
				t.Errorf("%d %s: %+v", status, body, kept)
			}
		}
	})
}
