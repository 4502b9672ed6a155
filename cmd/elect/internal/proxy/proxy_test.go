package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

const patience = 20 * time.Second

// served is a proxy that serves.
type served struct {
	url, metrics string
	stop         context.CancelFunc
	ended        chan result
}

type result struct {
	cut int
	err error
}

func start(t *testing.T, upstream http.Handler, change func(*Config)) served {
	t.Helper()
	u := httptest.NewServer(upstream)
	t.Cleanup(func() { u.CloseClientConnections(); u.Close() })
	at, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	cfg := Config{Upstream: at, Mark: new(fence.Memory), Resources: []fence.Resource{"r"}, MayClaim: fencehttp.Anyone, Grace: patience, Logger: slog.New(slog.DiscardHandler)}
	change(&cfg)
	l, metrics := listen(), listen()
	ctx, stop := context.WithCancel(t.Context())
	s := served{url: "http://" + l.Addr().String(), metrics: "http://" + metrics.Addr().String(), stop: stop, ended: make(chan result, 1)}
	go func() {
		cut, err := Serve(ctx, l, metrics, cfg)
		s.ended <- result{cut, err}
	}()
	return s
}

func (s served) end(t *testing.T) result {
	t.Helper()
	s.stop()
	select {
	case r := <-s.ended:
		return r
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	return result{}
}

func get(t *testing.T, client *http.Client, url, shown string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown != "" {
		r.Header.Set("Fencing-Token", shown)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(text)
}

// What is in flight when it is told to end, ends as ever.
func TestEndsWhatIsInFlight(t *testing.T) {
	arrived, leave, ending := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-leave
		fmt.Fprint(w, "done")
	}), func(c *Config) { c.Ending = func(inFlight int) { ending <- inFlight } })
	answered := make(chan string, 1)
	go func() {
		_, text := get(t, http.DefaultClient, s.url, "r;5")
		answered <- text
	}()
	<-arrived
	s.stop()
	if n := <-ending; n != 1 {
		t.Errorf("%d requests are in flight at the end; want 1", n)
	}
	select {
	case r := <-s.ended:
		t.Fatalf("it has not waited: %+v", r)
	case <-time.After(50 * time.Millisecond): // only makes the test weaker if it is too short
	}
	close(leave)
	if text := <-answered; text != "done" {
		t.Errorf("the answer is %q", text)
	}
	if r := s.end(t); r.cut != 0 || r.err != nil {
		t.Errorf("it ended with %+v", r)
	}
}

// An upgraded connection counts as in flight, and is cut when the grace is over.
func TestCutsWhatDoesNotEnd(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}), func(c *Config) { c.Grace = 100 * time.Millisecond; c.Open = []string{"GET"} })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	upgrade := func(shown string) int {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n%s\r\n", shown)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if status := upgrade(""); status != 428 { // although a GET needs no token here
		t.Errorf("without a token: %d", status)
	}
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\nFencing-Token: r;5\r\n\r\n")
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	if _, text := get(t, http.DefaultClient, s.metrics+"/metrics", ""); !strings.Contains(text, `elect_fence_in_flight{resource="r"} 1`) {
		t.Errorf("the metrics are\n%s", text)
	}
	if r := s.end(t); r.cut != 1 || r.err != nil {
		t.Errorf("it ended with %+v", r)
	}
}

// Both protocols are spoken over TLS, and HTTP/2 without it, too.
func TestProtocols(t *testing.T) {
	other := httptest.NewTLSServer(nil) // for its certificate
	defer other.Close()
	for _, secure := range []bool{false, true} {
		s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto")) }), func(c *Config) {
			if secure {
				c.Certificate = &other.TLS.Certificates[0]
			}
		})
		scheme := "http"
		if secure {
			scheme = "https"
		}
		for _, version := range []int{1, 2} {
			p := new(http.Protocols)
			p.SetHTTP1(version == 1)
			p.SetHTTP2(version == 2)
			p.SetUnencryptedHTTP2(version == 2)
			client := &http.Client{Transport: &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			if status, text := get(t, client, strings.Replace(s.url, "http", scheme, 1), "r;5"); status != 200 || text != scheme {
				t.Errorf("%s, HTTP/%d: %d %q", scheme, version, status, text)
			}
			client.CloseIdleConnections()
		}
		if r := s.end(t); r.cut != 0 || r.err != nil {
			t.Errorf("it ended with %+v", r)
		}
	}
}

// broken is a mark that breaks.
type broken struct {
	fence.Memory
	err chan error
}

func (b *broken) Highest(ctx context.Context, r fence.Resource) (fence.Token, error) {
	select {
	case err := <-b.err:
		return 0, err
	default:
		return b.Memory.Highest(ctx, r)
	}
}

// The health is that of the mark; without one that can be read it does not begin.
func TestHealth(t *testing.T) {
	mark := &broken{err: make(chan error, 1)}
	s := start(t, http.NotFoundHandler(), func(c *Config) { c.Mark = mark })
	if status, text := get(t, http.DefaultClient, s.metrics+"/healthz", ""); status != 200 || text != "ok\n" {
		t.Errorf("%d %q", status, text)
	}
	mark.err <- errors.New("user:secret@db")
	if status, text := get(t, http.DefaultClient, s.metrics+"/healthz", ""); status != 503 || strings.Contains(text, "secret") {
		t.Errorf("%d %q", status, text)
	}
	get(t, http.DefaultClient, s.url, "made-up;5")
	if _, text := get(t, http.DefaultClient, s.metrics+"/metrics", ""); strings.Contains(text, "made-up") || !strings.Contains(text, `elect_fence_checks_total{resource="",result="foreign"} 1`) {
		t.Errorf("the metrics are\n%s", text)
	}
	if r := s.end(t); r.err != nil {
		t.Error(r.err)
	}
	mark.err <- errors.New("broken")
	if r := start(t, http.NotFoundHandler(), func(c *Config) { c.Mark = mark }).end(t); r.err == nil || !strings.Contains(r.err.Error(), "broken") {
		t.Errorf("it began with %+v", r)
	}
}
