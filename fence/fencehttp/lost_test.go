package fencehttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// pipes is a network in memory, for fake time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	close func()

	mu     sync.Mutex
	dialed []net.Conn
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.done) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dialed = append(p.dialed, here)
		return here, nil
	case <-p.done:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	}
}

// cut closes what was dialed, as a network does between the two.
func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.dialed {
		_ = c.Close()
	}
}

// complaints are what a server logs: that a handler has panicked, but for aborting.
type complaints struct{ t *testing.T }

func (c complaints) Write(b []byte) (int, error) {
	c.t.Errorf("a server says: %s", b)
	return len(b), nil
}

// serve serves a handler there until the test ends.
func (p *pipes) serve(t *testing.T, h http.Handler) {
	server := &http.Server{Handler: h, ErrorLog: log.New(complaints{t}, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(p) }()
	t.Cleanup(func() {
		_ = server.Close()
		p.cut()
		<-served
	})
}

// client is one that shows the token of its context, over these pipes.
func (p *pipes) client(t *testing.T) *http.Client {
	base := &http.Transport{DialContext: p.dial}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: &fencehttp.Transport{Resource: "r", Base: base}}
}

// scene is a proxy in fake time, between a leader and an upstream.
type scene struct {
	guard       *fence.Guard
	front, back *pipes
	client      *http.Client // a leader's
}

func newScene(t *testing.T, upstream http.Handler, guarding fence.GuardConfig, cfg fencehttp.Config) *scene {
	t.Helper()
	s := &scene{guard: newGuard(t, new(fence.Memory), guarding), front: newPipes(), back: newPipes()}
	to := fencehttp.NewTransport("http")
	to.DialContext = s.back.dial
	h, err := fencehttp.NewProxy(s.guard, &url.URL{Scheme: "http", Host: "upstream"}, to, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(to.CloseIdleConnections)
	s.front.serve(t, h)
	s.back.serve(t, upstream)
	s.client = s.front.client(t)
	return s
}

// The times of these tests: what the upstream needs for a request, how long one counts as at
// work that was lost, and the time after which all is cut.
const (
	needs  = 2 * time.Second
	counts = 5 * time.Second
	drains = 20 * time.Second
)

// An upstream whose connection broke may be at work all the same, and so may one whose client
// broke off in the middle of the answer. A greater token waits for it.
func TestLostUpstream(t *testing.T) {
	for _, c := range []struct {
		name   string
		begins bool // to answer before it has done its work
		gone   bool // the client is, and not the connection to the upstream
		drain  time.Duration
		lost   time.Duration
		want   time.Duration // that a claim waits
	}{
		{"before its answer", false, false, drains, counts, counts},
		{"in the middle of its answer", true, false, drains, counts, counts},
		{"by a client that broke off in its middle", true, true, drains, counts, needs + counts},
		{"and all is cut before", false, false, 3 * time.Second, counts, 3 * time.Second},
		{"and all is cut at once", false, false, 0, counts, 0},
		{"and it does not count", false, false, drains, -1, 0},
		{"by default", false, false, -1, 0, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := make(chan struct{})
				var mu sync.Mutex
				atWork := false
				work := func(is bool) { mu.Lock(); defer mu.Unlock(); atWork = is }
				upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					work(true)
					defer work(false)
					if c.begins {
						_, _ = io.WriteString(w, "half")
						w.(http.Flusher).Flush()
					}
					close(began)
					time.Sleep(needs)
					if c.begins {
						_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) // more than fits on the way
					}
				})
				linger := drains
				if c.drain < 0 {
					linger = -1
				}
				s := newScene(t, upstream, fence.GuardConfig{Drain: c.drain}, fencehttp.Config{MayClaim: fencehttp.Anyone, Linger: linger, Lost: c.lost})
				answered := make(chan error, 1)
				go func() {
					resp, err := send(t, s.client, "http://proxy", 5, strings.NewReader("x"))
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
						if err == nil && resp.StatusCode != http.StatusBadGateway {
							err = errors.New(resp.Status)
						}
					}
					answered <- err
				}()
				<-began
				synctest.Wait()
				if c.gone {
					s.front.cut()
				} else {
					s.back.cut()
				}
				if err := <-answered; err != nil && !c.begins {
					t.Errorf("the older leader is told %v; want 502 at once", err)
				}
				start := time.Now()
				if err := s.guard.Claim(t.Context(), "r", 6); err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				if waited := time.Since(start); waited != c.want || atWork != (c.want < needs) {
					t.Errorf("claimed after %v, and the upstream is at work: %v; want %v", waited, atWork, c.want)
				}
				mu.Unlock()
				if n := s.guard.InFlight("r"); n != 0 {
					t.Errorf("%d in flight", n)
				}
				time.Sleep(needs) // the upstream ends
			})
		})
	}
}

// What came of a stream after the greater token had come has not had the time of Drain when all
// is cut. A stream that stands still has.
func TestStreamThatIsCut(t *testing.T) {
	for _, c := range []struct {
		name            string
		upgrade, goesOn bool
		want            time.Duration
	}{
		{"an upload", false, true, 7*time.Second + counts},
		{"an upload that stands still", false, false, 8 * time.Second},
		{"a switched protocol", true, true, 7*time.Second + counts},
		{"a switched protocol that stands still", true, false, 8 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					in := io.Reader(r.Body)
					if c.upgrade {
						conn, rw, err := w.(http.Hijacker).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						defer conn.Close()
						fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
						_ = rw.Flush()
						in = rw
					}
					_, _ = io.Copy(io.Discard, in)
					time.Sleep(needs) // for the last piece, with the connection open
				})
				s := newScene(t, upstream, fence.GuardConfig{Drain: 8 * time.Second}, fencehttp.Config{MayClaim: fencehttp.Anyone, Linger: drains, Lost: counts})
				conn, err := s.front.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				if c.upgrade {
					fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n%s: r;5\r\n\r\n", fencehttp.Header)
				} else {
					fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n%s: r;5\r\n\r\nx", fencehttp.Header)
				}
				synctest.Wait()
				time.Sleep(time.Millisecond)
				start := time.Now()
				if c.goesOn {
					go func() {
						time.Sleep(7 * time.Second)
						_, _ = conn.Write([]byte("x"))
					}()
				}
				if err := s.guard.Claim(t.Context(), "r", 6); err != nil || time.Since(start) != c.want {
					t.Errorf("claimed after %v, %v; want %v", time.Since(start), err, c.want)
				}
				time.Sleep(drains)
			})
		})
	}
}

// An upstream that nobody could connect to is not at work.
func TestUpstreamThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, http.NotFoundHandler(), fence.GuardConfig{Drain: drains}, fencehttp.Config{MayClaim: fencehttp.Anyone})
		_ = s.back.Close()
		resp, err := send(t, s.client, "http://proxy", 5, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		start := time.Now()
		if err := s.guard.Claim(t.Context(), "r", 6); err != nil || time.Since(start) != 0 || resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s, and claimed after %v, %v", resp.Status, time.Since(start), err)
		}
	})
}

// Of a connection that has switched protocols no answer tells the end: the upstream's closing
// it does. Before that it may be at work on what came last.
func TestUpgradedUpstream(t *testing.T) {
	for _, c := range []struct {
		name     string
		upstream bool // closes the connection; else the client does
		want     time.Duration
	}{{"the upstream has closed it", true, 0}, {"the client has gone", false, counts}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					conn, rw, err := w.(http.Hijacker).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n%s: passed\r\n\r\n", fencehttp.ResultHeader)
					_ = rw.Flush()
					if !c.upstream {
						_, _ = io.Copy(io.Discard, rw)
						time.Sleep(needs)
					}
				})
				s := newScene(t, upstream, fence.GuardConfig{Drain: drains}, fencehttp.Config{MayClaim: fencehttp.Anyone, Linger: drains, Lost: counts})
				conn, err := s.front.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n%s: r;5\r\n\r\n", fencehttp.Header)
				in := bufio.NewReader(conn)
				if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 || resp.Header.Get(fencehttp.ResultHeader) != "" {
					t.Fatal(resp, err)
				}
				if c.upstream {
					_, _ = io.Copy(io.Discard, in)
				}
				_ = conn.Close()
				start := time.Now()
				if err := s.guard.Claim(t.Context(), "r", 6); err != nil || time.Since(start) != c.want {
					t.Errorf("claimed after %v, %v; want %v", time.Since(start), err, c.want)
				}
			})
		})
	}
}

// A request that offers another protocol is one like others until that is taken up: its
// client's going does not end it.
func TestOfferedUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, applied := make(chan struct{}), false
		upstream := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			close(began)
			time.Sleep(needs)
			applied = true
		})
		s := newScene(t, upstream, fence.GuardConfig{Drain: drains}, fencehttp.Config{MayClaim: fencehttp.Anyone, Linger: drains, Lost: counts})
		conn, err := s.front.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n%s: r;5\r\n\r\nx", fencehttp.Header)
		<-began
		_ = conn.Close()
		synctest.Wait()
		start := time.Now()
		if err := s.guard.Claim(t.Context(), "r", 6); err != nil || !applied || time.Since(start) != needs {
			t.Errorf("claimed after %v, %v, and the upstream had ended: %v", time.Since(start), err, applied)
		}
	})
}

// The connection of a request that was cut is not used for another: what comes on it would
// begin with a client that has gone.
func TestConnectionThatWasCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := make(chan struct{})
		g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
		front := newPipes()
		front.serve(t, fencehttp.NewHandler(g, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if token, _ := fence.FromContext(r.Context()); token > 5 {
				synctest.Wait() // until what has happened before has come through
				if err := r.Context().Err(); err != nil {
					t.Errorf("the request of %v begins with %v", token, context.Cause(r.Context()))
				}
				return
			}
			close(running)
			<-r.Context().Done()
			synctest.Wait() // until it is cut, and the server has noticed
		}), fencehttp.Config{MayClaim: fencehttp.Anyone}))
		client := front.client(t)
		old := make(chan error, 1)
		go func() { old <- put(t, client, "http://x", 5) }()
		<-running
		claimed := make(chan error, 1)
		go func() { claimed <- g.Claim(t.Context(), "r", 6) }()
		if err := <-old; err != nil {
			t.Error(err)
		}
		if err := <-claimed; err != nil {
			t.Error(err)
		}
		for range 3 {
			if err := put(t, client, "http://x", 6); err != nil {
				t.Error(err)
			}
		}
	})
}

// A handler that returns while what it runs goes on has ended for the guard: so does
// http.TimeoutHandler. In front of the guard's it does no harm.
func TestTimeoutHandler(t *testing.T) {
	for _, behind := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			atWork := make(chan struct{})
			var over atomic.Bool
			work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				close(atWork)
				time.Sleep(needs)
				over.Store(true)
			})
			g := newGuard(t, new(fence.Memory), fence.GuardConfig{Drain: -1})
			var h http.Handler
			if behind {
				h = fencehttp.NewHandler(g, http.TimeoutHandler(work, time.Second, ""), fencehttp.Config{MayClaim: fencehttp.Anyone})
			} else {
				h = http.TimeoutHandler(fencehttp.NewHandler(g, work, fencehttp.Config{MayClaim: fencehttp.Anyone}), time.Second, "")
			}
			front := newPipes()
			front.serve(t, h)
			resp, err := send(t, front.client(t), "http://x", 5, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			<-atWork
			if err := g.Claim(t.Context(), "r", 6); err != nil || over.Load() == behind || resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("behind %v: %s, claimed: %v, and the work is over: %v", behind, resp.Status, err, over.Load())
			}
			time.Sleep(needs)
		})
	}
}
