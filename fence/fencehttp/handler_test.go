package fencehttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

const patience = 20 * time.Second

func newGuard(t *testing.T, mark fence.Mark, cfg fence.GuardConfig, more ...fence.Resource) *fence.Guard {
	t.Helper()
	g, err := fence.NewGuard(mark, append(more, "r"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serve starts a server of a handler, over HTTP/1.1 unless protocol says "h2" or "h2c".
func serve(t *testing.T, h http.Handler, protocol string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	switch protocol {
	case "h2":
		s.EnableHTTP2 = true
		s.StartTLS()
	case "h2c":
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		s.Client().Transport = &http.Transport{Protocols: p}
	default:
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// leader is a client that shows the token of its context for r.
func leader(s *httptest.Server) *http.Client {
	return &http.Client{Transport: &fencehttp.Transport{Resource: "r", Base: s.Client().Transport}}
}

func send(t *testing.T, c *http.Client, url string, token fence.Token, body io.Reader) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), token), http.MethodPut, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(r)
}

func put(t *testing.T, c *http.Client, url string, token fence.Token) error {
	t.Helper()
	resp, err := send(t, c, url, token, strings.NewReader("x"))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// failing is a mark that cannot be reached.
type failing struct{ fence.Mark }

var errMark = errors.New("user:secret@db does not answer")

func (failing) Raise(context.Context, fence.Resource, fence.Token) error { return errMark }
func (failing) Highest(context.Context, fence.Resource) (fence.Token, error) {
	return 0, errMark
}

// Each refusal has its code, its headers and its error, and the handler is not reached.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		values []string
		status int
		result fence.Result
		err    error // nil: the answer is the handler's
	}{
		{[]string{"r;7"}, 200, fence.Passed, nil},
		{[]string{"r;6"}, 412, fence.Stale, fence.ErrStale},
		{nil, 428, fence.Missing, fence.ErrMissing},
		{[]string{"r;x"}, 400, fence.Malformed, fence.ErrToken},
		{[]string{"a b;7"}, 400, fence.Malformed, fence.ErrToken},
		{[]string{"r;7", "r;7"}, 400, fence.Malformed, fence.ErrToken},
		{[]string{"r;281474976710656"}, 400, fence.Malformed, fence.ErrToken},
		{[]string{"s;7"}, 421, fence.Foreign, fence.ErrResource},
		{[]string{"busy;8"}, 503, fence.Busy, fence.ErrBusy},
	} {
		t.Run(fmt.Sprint(c.values), func(t *testing.T) {
			var mu sync.Mutex
			var results []fence.Result
			observe := func(d fence.Decision) { mu.Lock(); defer mu.Unlock(); results = append(results, d.Result) }
			g := newGuard(t, new(fence.Memory), fence.GuardConfig{Drain: -1, Patience: time.Millisecond, Observe: observe}, "busy")
			if err := g.Claim(t.Context(), "r", 7); err != nil {
				t.Fatal(err)
			}
			old, err := g.Begin(t.Context(), "busy", 7)
			if err != nil {
				t.Fatal(err)
			}
			defer old.End()
			reached := false
			s := serve(t, fencehttp.NewHandler(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached = true
				if token, ok := fence.FromContext(r.Context()); !ok || token != 7 {
					t.Errorf("the context carries %v, %v", token, ok)
				}
			}), fencehttp.Config{MayClaim: fencehttp.Anyone, Observe: observe, RetryAfter: 1500 * time.Millisecond}), "")
			request := func(client *http.Client) (*http.Response, error) {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, nil)
				r.Header[fencehttp.Header] = c.values
				return client.Do(r)
			}
			resp, err := request(s.Client())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.status || reached != (c.err == nil) {
				t.Errorf("%s, and the handler reached: %v; want %d", resp.Status, reached, c.status)
			}
			mu.Lock()
			if results[len(results)-1] != c.result {
				t.Errorf("observed %v; want %v last", results, c.result)
			}
			mu.Unlock()
			if c.err == nil {
				return
			}
			var body struct {
				Result                 fence.Result
				Shown, Highest         fence.Token
				Resource, Error, Extra string
			}
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Result != c.result || body.Error == "" {
				t.Errorf("the body is %+v, %v", body, err)
			}
			if got := resp.Header.Get(fencehttp.ResultHeader); got != string(c.result) {
				t.Errorf("the result is %q", got)
			}
			if got := resp.Header.Get(fencehttp.Header); (got == "r;7") != (c.result == fence.Stale) || body.Highest == 7 != (c.result == fence.Stale) {
				t.Errorf("the answer shows %q, %+v", got, body)
			}
			if got := resp.Header.Get("Retry-After"); (got == "2") != (c.status == 503) {
				t.Errorf("Retry-After: %q", got)
			}
			if _, err := request(leader(s)); !errors.Is(err, c.err) || errors.Is(err, fence.ErrUnknownOutcome) {
				t.Errorf("the transport says %v; want %v", err, c.err)
			} else if stale, ok := errors.AsType[*fence.StaleError](err); ok && *stale != (fence.StaleError{Shown: 6, Highest: 7}) {
				t.Errorf("the transport says %+v", stale)
			}
		})
	}
}

// A mark that fails is 503, and its words stay here.
func TestMarkThatFails(t *testing.T) {
	s := serve(t, fencehttp.NewHandler(newGuard(t, failing{}, fence.GuardConfig{}), nil, fencehttp.Config{MayClaim: fencehttp.Anyone}), "")
	err := put(t, leader(s), s.URL, 7)
	if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrUnknownOutcome) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if _, err := highest(t.Context(), nil, s.URL, "r"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the status says %v", err)
	}
}

func TestClaimAndStatus(t *testing.T) {
	g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
	for _, protocol := range []string{"", "h2", "h2c"} {
		s := serve(t, fencehttp.NewHandler(g, nil, fencehttp.Config{MayClaim: fencehttp.Anyone}), protocol)
		if err := claim(t.Context(), s.Client(), s.URL+"/app?x", fencehttp.Secret{}, "r", 7); err != nil {
			t.Error(err)
		}
		if err := claim(t.Context(), leader(s), s.URL, fencehttp.Secret{}, "r", 6); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a smaller one: %v", err)
		}
		if highest, err := highest(t.Context(), s.Client(), s.URL, "r"); highest != 7 || err != nil {
			t.Errorf("the mark is %v, %v", highest, err)
		}
		if _, err := highest(t.Context(), s.Client(), s.URL, "s"); !errors.Is(err, fence.ErrResource) {
			t.Errorf("the mark of another: %v", err)
		}
		for path, method := range map[string]string{fencehttp.ClaimPath: http.MethodGet, fencehttp.StatusPath: http.MethodPost} {
			r, _ := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 405 || resp.Header.Get("Allow") == "" {
				t.Errorf("%s %s: %s", method, path, resp.Status)
			}
		}
	}
	// Who answers everything with 204 guards nothing.
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }), "")
	if err := claim(t.Context(), nil, s.URL, fencehttp.Secret{}, "r", 7); !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("a claim of who guards nothing: %v", err)
	}
	for base, want := range map[string]error{"": nil, "ftp://x": nil, "http://": nil} {
		if err := claim(t.Context(), nil, base, fencehttp.Secret{}, "r", 7); err == nil {
			t.Errorf("base %q: %v", base, want)
		}
	}
	if err := claim(t.Context(), nil, s.URL, fencehttp.Secret{}, "r", 0); !errors.Is(err, fence.ErrMissing) {
		t.Errorf("a claim of nobody: %v", err)
	}
}

// Requests that are open need no token; those that show one are checked, and a
// WebSocket begins like a read.
func TestOpen(t *testing.T) {
	g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
	s := serve(t, fencehttp.NewHandler(g, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), fencehttp.Config{
		MayClaim: fencehttp.Anyone,
		Open:     func(r *http.Request) bool { return r.Method == http.MethodGet && !fencehttp.IsUpgrade(r) },
	}), "")
	if err := g.Claim(t.Context(), "r", 7); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, header, upgrade string
		want                    int
	}{
		{"GET", "", "", 200}, {"GET", "r;6", "", 412}, {"GET", "nonsense", "", 400}, {"POST", "", "", 428}, {"GET", "", "websocket", 428}, {"GET", "r;7", "", 200},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), c.method, s.URL, nil)
		if c.header != "" {
			r.Header.Set(fencehttp.Header, c.header)
		}
		if c.upgrade != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", c.upgrade)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%+v: %s", c, resp.Status)
		}
	}
}

// claimed claims with token 6 in the background, and sends what came of it.
func claimed(t *testing.T, s *httptest.Server) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- claim(t.Context(), s.Client(), s.URL, fencehttp.Secret{}, "r", 6) }()
	return done
}

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
	return v
}

// A stream is at work until its handler returns, and a greater token waits for that; its
// context ends meanwhile.
func TestStreamIsWaitedFor(t *testing.T) {
	for _, protocol := range []string{"", "h2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			told, leave := make(chan error), make(chan struct{})
			g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
			s := serve(t, fencehttp.NewHandler(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				told <- context.Cause(r.Context())
				<-leave
			}), fencehttp.Config{MayClaim: fencehttp.Anyone}), protocol)
			resp, err := send(t, leader(s), s.URL, 5, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			done := claimed(t, s)
			if stale, ok := errors.AsType[*fence.StaleError](await(t, "the end of the context", told)); !ok || stale.Highest != 6 {
				t.Errorf("its cause is %v", stale)
			}
			if err := put(t, leader(s), s.URL, 5); !errors.Is(err, fence.ErrStale) {
				t.Errorf("another of the smaller token: %v", err)
			}
			select {
			case err := <-done:
				t.Fatalf("the claim has not waited: %v", err)
			default:
			}
			if n := g.InFlight("r"); n != 1 {
				t.Errorf("%d in flight; want 1", n)
			}
			close(leave)
			if err := await(t, "the claim", done); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that stands still in the middle of an upload holds nobody up, whatever the
// handler does about its context.
func TestUploadThatStandsStill(t *testing.T) {
	for _, protocol := range []string{"", "h2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			reads, read := make(chan struct{}, 1), make(chan error, 1)
			s := serve(t, fencehttp.NewHandler(newGuard(t, new(fence.Memory), fence.GuardConfig{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadFull(r.Body, make([]byte, 4))
				reads <- struct{}{}
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour))
				_, err := io.ReadAll(r.Body)
				if undo := http.NewResponseController(w).SetReadDeadline(time.Time{}); !errors.Is(undo, fence.ErrStale) {
					t.Errorf("the cut can be undone: %v", undo)
				}
				read <- err
			}), fencehttp.Config{MayClaim: fencehttp.Anyone}), protocol)
			body, stall := io.Pipe()
			go func() {
				_, _ = stall.Write([]byte("half"))
			}()
			go func() {
				if resp, err := send(t, leader(s), s.URL, 5, body); err == nil {
					resp.Body.Close()
				}
			}()
			await(t, "half of it", reads)
			if err := await(t, "the claim", claimed(t, s)); err != nil {
				t.Error(err)
			}
			if err := await(t, "the reader", read); err == nil {
				t.Error("half of a body is the whole of it")
			}
			_ = stall.Close()
		})
	}
}

// A hijacked connection is closed under its handler, which is waited for until it has
// closed it, too: it may have something to do yet with what it has read.
func TestHijackedConnection(t *testing.T) {
	gone, leave, returned := make(chan error), make(chan struct{}), make(chan struct{})
	s := serve(t, fencehttp.NewHandler(newGuard(t, new(fence.Memory), fence.GuardConfig{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		go func() {
			_, err := io.Copy(conn, rw)
			gone <- err
			<-leave
			conn.Close()
			conn.Close()
		}()
		close(returned)
	}), fencehttp.Config{MayClaim: fencehttp.Anyone}), "")
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n%s: r;5\r\n\r\n", fencehttp.Header)
	in := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	await(t, "the handler", returned)
	for range 3 { // the handler has returned, and its connection goes on
		fmt.Fprint(conn, "x")
		if b, err := in.ReadByte(); b != 'x' || err != nil {
			t.Fatal(b, err)
		}
	}
	done := claimed(t, s)
	await(t, "the end of the connection", gone)
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection lives")
	}
	select {
	case err := <-done:
		t.Fatalf("the claim has not waited: %v", err)
	case <-time.After(20 * time.Millisecond): // only makes the test weaker if it is too short
	}
	close(leave)
	if err := await(t, "the claim", done); err != nil {
		t.Error(err)
	}
}

// sharing is a mark whose hold is lost.
type sharing struct{ fence.Memory }

func (*sharing) Share(context.Context, fence.Resource, fence.Token) (func() error, error) {
	return func() error { return errors.New("the session was terminated") }, nil
}

// Where the hold of a shared mark was lost there is no answer rather than a wrong one.
func TestLostHold(t *testing.T) {
	s := serve(t, fencehttp.NewHandler(newGuard(t, new(sharing), fence.GuardConfig{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), fencehttp.Config{MayClaim: fencehttp.Anyone}), "")
	if err := put(t, leader(s), s.URL, 5); !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
}

// The transport takes for a refusal only what is one.
func TestTransportIsNotFooled(t *testing.T) {
	for _, c := range []struct {
		result, shown string
		status        int
		want          error // nil: the response as it is
	}{
		{"", "", 412, nil}, // an entity tag did not match
		{"", "r;9", 412, nil},
		{"stale", "r;9", 409, nil},
		{"nonsense", "r;9", 412, nil},
		{"passed", "r;9", 200, nil},
		{"stale", "r;9", 412, fence.ErrStale},
		{"stale", "r;5", 412, fence.ErrUnknownOutcome}, // not greater
		{"stale", "s;9", 412, fence.ErrUnknownOutcome},
		{"stale", "", 412, fence.ErrUnknownOutcome},
		{"ended", "", 502, fence.ErrUnknownOutcome},
	} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.result != "" {
				w.Header().Set(fencehttp.ResultHeader, c.result)
			}
			if c.shown != "" {
				w.Header().Set(fencehttp.Header, c.shown)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, "words")
		}), "")
		resp, err := send(t, leader(s), s.URL, 5, nil)
		if c.want == nil {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
				continue
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != c.status || string(text) != "words" {
				t.Errorf("%+v: %s %q", c, resp.Status, text)
			}
			continue
		}
		if !errors.Is(err, c.want) || errors.Is(err, fence.ErrStale) != (c.want == fence.ErrStale) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// Nobody was connected to: nothing is unknown. Somebody was, and hung up: it is.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	client := &http.Client{Transport: &fencehttp.Transport{Resource: "r"}}
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1))
			conn.Close()
		}
	}()
	if _, err := send(t, client, url, 5, strings.NewReader("x")); !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("hung up: %v", err)
	}
	<-hung
	l.Close()
	if _, err := send(t, client, url, 5, nil); err == nil || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := send(t, &http.Client{Transport: &fencehttp.Transport{Resource: "a b"}}, url, 5, nil); !errors.Is(err, fence.ErrResource) {
		t.Errorf("no resource: %v", err)
	}
}

// claim claims by a client of its own.
func claim(ctx context.Context, by *http.Client, base string, secret fencehttp.Secret, resource fence.Resource, token fence.Token) error {
	c, err := fencehttp.NewClient(base, resource, fencehttp.ClientConfig{HTTP: by, Secret: secret})
	if err != nil {
		return err
	}
	return c.Claim(ctx, token)
}

// highest asks for a mark by a client of its own.
func highest(ctx context.Context, by *http.Client, base string, resource fence.Resource) (fence.Token, error) {
	c, err := fencehttp.NewClient(base, resource, fencehttp.ClientConfig{HTTP: by})
	if err != nil {
		return 0, err
	}
	return c.Highest(ctx)
}
