package fencehttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// newProxy returns a proxy before an upstream that speaks a protocol.
func newProxy(t *testing.T, g *fence.Guard, upstream http.Handler, protocol string) *fencehttp.Handler {
	t.Helper()
	s := serve(t, upstream, protocol)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var transport http.RoundTripper
	switch protocol {
	case "h2c":
		at.Scheme = "h2c"
	case "h2":
		transport = s.Client().Transport
	}
	// A proxy may read the end of a body after a greater token has come, and counts that as a part that was forwarded:
	// the request is then in flight for Lost.
	h, err := fencehttp.NewProxy(g, at, transport, fencehttp.Config{MayClaim: fencehttp.Anyone, Lost: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Streams in both directions at once, and trailers in both, pass; over HTTP/2 on both
// sides, and over HTTP/1.1 one after the other.
func TestProxyPassesStreamsAndTrailers(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(fencehttp.Header) != "r;5" || r.URL.Path != "/a" || r.Header.Get("X-Forwarded-For") == "" {
			t.Errorf("the upstream sees %s %v", r.URL, r.Header)
		}
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(http.StatusOK)
		rc := http.NewResponseController(w)
		if r.ProtoMajor == 1 {
			_ = rc.EnableFullDuplex()
		}
		_ = rc.Flush()
		for in := bufio.NewScanner(r.Body); in.Scan(); {
			fmt.Fprintln(w, "echo", in.Text())
			_ = rc.Flush()
		}
		w.Header().Set("Sum", "got "+r.Trailer.Get("Check"))
	})
	for _, c := range []struct {
		front, back string
		duplex      bool
	}{{"", "", false}, {"h2", "", false}, {"h2", "h2", true}, {"h2c", "h2c", true}, {"", "h2c", false}, {"h2c", "", false}} {
		t.Run(c.front+" to "+c.back, func(t *testing.T) {
			s := serve(t, newProxy(t, newGuard(t, new(fence.Memory), fence.GuardConfig{}), upstream, c.back), c.front)
			body, say := io.Pipe()
			r, _ := http.NewRequestWithContext(fence.NewContext(t.Context(), 5), http.MethodPost, s.URL+"/a", body)
			r.Trailer = http.Header{"Check": nil}
			line := func(n int) {
				if n == 2 {
					r.Trailer.Set("Check", "sum")
				}
				fmt.Fprintln(say, "line", n)
			}
			if !c.duplex {
				go func() { line(1); line(2); say.Close() }()
			}
			resp, err := leader(s).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if c.front != "" && resp.ProtoMajor != 2 {
				t.Errorf("the protocol is %s", resp.Proto)
			}
			in := bufio.NewReader(resp.Body)
			for n := 1; n <= 2; n++ {
				if c.duplex {
					go line(n) // only now: what comes back is an answer to it
				}
				if text, err := in.ReadString('\n'); text != fmt.Sprintln("echo line", n) {
					t.Fatalf("it says %q, %v", text, err)
				}
			}
			say.Close()
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
				t.Errorf("%q, %v is left", rest, err)
			}
			if got := resp.Trailer.Get("Sum"); got != "got sum" {
				t.Errorf("the trailer is %q", got)
			}
		})
	}
}

// An upgraded connection passes, and is cut on both sides before a greater token is
// admitted.
func TestProxyCutsUpgraded(t *testing.T) {
	gone := make(chan struct{})
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
		close(gone)
	})
	for _, tlsToo := range []bool{false, true} {
		gone = make(chan struct{})
		protocol := ""
		if tlsToo {
			protocol = "h2"
		}
		g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
		s := serve(t, newProxy(t, g, upstream, ""), protocol)
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if tlsToo {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n%s: r;5\r\n\r\n", fencehttp.Header)
		in := bufio.NewReader(conn)
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		fmt.Fprint(conn, "x")
		if b, err := in.ReadByte(); b != 'x' || err != nil {
			t.Fatal(b, err)
		}
		if err := await(t, "the claim", claimed(t, s)); err != nil {
			t.Error(err)
		}
		if n := g.InFlight("r"); n != 0 {
			t.Errorf("%d in flight", n)
		}
		await(t, "the end of the upstream's", gone)
		if _, err := in.ReadByte(); err == nil {
			t.Error("the connection lives")
		}
	}
}

// What is cut before the upstream answers gets an answer that says so, after which the
// outcome is not known; a frozen upload holds nobody up.
func TestProxyCuts(t *testing.T) {
	for _, protocol := range []string{"", "h2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			arrived, left := make(chan struct{}, 2), make(chan error, 2)
			upstream := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadFull(r.Body, make([]byte, 4))
				arrived <- struct{}{}
				_, err := io.ReadAll(r.Body)
				<-r.Context().Done()
				left <- err
			})
			back := protocol
			if back == "h2" {
				back = ""
			}
			s := serve(t, newProxy(t, newGuard(t, new(fence.Memory), fence.GuardConfig{}), upstream, back), protocol)
			whole, half := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := send(t, leader(s), s.URL, 5, strings.NewReader("whole"))
				whole <- err
			}()
			body, stall := io.Pipe()
			go func() { _, _ = stall.Write([]byte("half")) }()
			go func() {
				_, err := send(t, leader(s), s.URL, 5, body)
				half <- err
			}()
			await(t, "one", arrived)
			await(t, "the other", arrived)
			if err := await(t, "the claim", claimed(t, s)); err != nil {
				t.Error(err)
			}
			if err := await(t, "the whole", whole); !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
				t.Errorf("the whole: %v", err)
			}
			one, other := await(t, "the upstream", left), await(t, "the upstream", left)
			if (one == nil) == (other == nil) {
				t.Errorf("the upstream has read %v and %v; want one whole and one half", one, other)
			}
			_ = stall.CloseWithError(io.ErrUnexpectedEOF)
			if err := await(t, "the half", half); err == nil {
				t.Error("half is a whole")
			}
		})
	}
}

// An upstream that is not there is 502, and no refusal.
func TestProxyWithoutUpstream(t *testing.T) {
	at, _ := url.Parse("http://127.0.0.1:1")
	h, err := fencehttp.NewProxy(newGuard(t, new(fence.Memory), fence.GuardConfig{}), at, nil, fencehttp.Config{MayClaim: fencehttp.Anyone})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, h, "")
	resp, err := send(t, leader(s), s.URL, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 502 || resp.Header.Get(fencehttp.ResultHeader) != "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	for _, wrong := range []string{"", "localhost:80", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x#y", ":"} {
		at, err := fencehttp.ParseUpstream(wrong)
		if err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: %v", wrong, err)
		}
		if at == nil {
			continue
		}
		if _, err := fencehttp.NewProxy(nil, at, nil, fencehttp.Config{MayClaim: fencehttp.Anyone}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// slowMark says when it is asked to raise, and does it when it is told to.
type slowMark struct {
	fence.Memory
	asked, goOn chan struct{}
}

func (m *slowMark) Raise(ctx context.Context, r fence.Resource, token fence.Token) error {
	m.asked <- struct{}{}
	<-m.goOn
	return m.Memory.Raise(ctx, r, token)
}

// Nothing reaches the upstream before the mark is durable: a proxy that dies in between
// would forget a token that was at work.
func TestNothingIsForwardedBeforeTheMark(t *testing.T) {
	mark := &slowMark{asked: make(chan struct{}), goOn: make(chan struct{})}
	forwarded := make(chan struct{}, 1)
	s := serve(t, newProxy(t, newGuard(t, mark, fence.GuardConfig{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded <- struct{}{} }), ""), "")
	done := make(chan error, 1)
	go func() {
		err := put(t, leader(s), s.URL, 5)
		done <- err
	}()
	await(t, "the mark", mark.asked)
	select {
	case <-forwarded:
		t.Error("forwarded before the mark is raised")
	case <-time.After(50 * time.Millisecond): // only makes the test weaker if it is too short
	}
	close(mark.goOn)
	await(t, "the upstream", forwarded)
	if err := await(t, "the answer", done); err != nil {
		t.Error(err)
	}
}

// A request whose client has gone is at work until the upstream has answered, and a
// greater token waits for that.
func TestProxyWaitsForWhomNobodyWaits(t *testing.T) {
	began, answer := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(answer) })
	defer let()
	applied := false // by the upstream, at the end of the smaller token's request
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-answer
		applied = true
	})
	raised := make(chan struct{})
	g := newGuard(t, new(fence.Memory), fence.GuardConfig{Drain: time.Minute, Observe: func(d fence.Decision) {
		if d.Result == fence.Raised && d.Shown == 6 {
			close(raised)
		}
	}})
	at := serve(t, newProxy(t, g, upstream, "http"), "http").URL
	ctx, cancel := context.WithCancel(fence.NewContext(t.Context(), 5))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &fencehttp.Transport{Resource: "r"}}
	gave := make(chan error, 1)
	go func() {
		_, err := client.Do(r)
		gave <- err
	}()
	<-began
	cancel()
	if err := <-gave; !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v; want that it is not known what came of it", err)
	}
	claimed := make(chan error, 1)
	go func() { claimed <- claim(t.Context(), nil, at, fencehttp.Secret{}, "r", 6) }()
	<-raised
	select {
	case err := <-claimed:
		t.Fatalf("claimed (%v) while the upstream was at work for a smaller token", err)
	case <-time.After(300 * time.Millisecond): // in which nothing may happen
	}
	let()
	if err := <-claimed; err != nil || !applied {
		t.Errorf("claimed: %v, while the request of the smaller token had ended at the upstream: %v", err, applied)
	}
}
