package fencehttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// dying is a server that answers the first request of its first connection, takes the
// second one, which it may have applied, and closes the connection without an answer. On
// later connections it answers with last, or is not there at all if that is empty.
type dying struct {
	url   string
	taken atomic.Int32
}

func newDying(t *testing.T, last string) *dying {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dying{url: "http://" + l.Addr().String()}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	take := func(in *bufio.Reader) bool {
		r, err := http.ReadRequest(in)
		if err != nil {
			return false
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err == nil {
			d.taken.Add(1)
		}
		return err == nil
	}
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			if take(in) {
				if n > 0 {
					_, _ = io.WriteString(conn, last)
				} else {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					take(in)
					if last == "" {
						_ = l.Close()
					}
				}
			}
			_ = conn.Close()
		}
	}()
	return d
}

// What net/http sends twice by itself may have been applied the first time: neither a
// refusal nor a failure of the second try is told as that of the request.
func TestSentTwice(t *testing.T) {
	refused := "HTTP/1.1 412 Precondition Failed\r\nConnection: close\r\nFencing-Result: stale\r\nFencing-Token: r;9\r\nContent-Length: 0\r\n\r\n"
	answered := "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		name, method, key, last string
		body                    string
		taken                   int32
		known                   bool
	}{
		{"a read, refused", http.MethodGet, "", refused, "", 3, false},
		{"a read, and nobody is there", http.MethodGet, "", "", "", 2, false},
		{"a write with a key, refused", http.MethodPost, "1", refused, "", 3, false},
		{"a write with a key, and nobody is there", http.MethodPost, "1", "", "", 2, false},
		{"a write with a key, answered", http.MethodPost, "1", answered, "", 3, true},
		{"a write", http.MethodPost, "", answered, "", 2, false},
		{"a write with a key and a body", http.MethodPost, "1", answered, "x", 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDying(t, c.last)
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			client := &http.Client{Transport: &fencehttp.Transport{Resource: "r", Base: base}}
			if resp, err := send(t, client, d.url, 5, nil); err != nil {
				t.Fatal(err)
			} else {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), 5), c.method, d.url, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			resp, err := client.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != c.known || err != nil && (!errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale)) {
				t.Errorf("got %v", err)
			}
			if n := d.taken.Load(); n != c.taken {
				t.Errorf("taken %d times; want %d", n, c.taken)
			}
		})
	}
}

// A proxy does not let what may have landed be sent again: the upstream may be at work on
// the first try when the second has been answered. Reads land nothing.
func TestProxySendsOnce(t *testing.T) {
	for _, c := range []struct {
		method, name string
		taken        int32
	}{{http.MethodPost, "Idempotency-Key", 2}, {http.MethodPut, "X-Idempotency-Key", 2}, {http.MethodGet, "", 3}} {
		t.Run(fmt.Sprint(c.method, c.name), func(t *testing.T) {
			d := newDying(t, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			at, err := url.Parse(d.url)
			if err != nil {
				t.Fatal(err)
			}
			h, err := fencehttp.NewProxy(newGuard(t, new(fence.Memory), fence.GuardConfig{}), at, nil, fencehttp.Config{MayClaim: fencehttp.Anyone})
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, h, "")
			var resp *http.Response
			for range 2 {
				r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), 5), c.method, s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				if c.name != "" {
					r.Header.Set(c.name, "1")
				}
				if resp, err = leader(s).Do(r); err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if n := d.taken.Load(); n != c.taken || (resp.StatusCode == http.StatusOK) != (c.taken == 3) {
				t.Errorf("taken %d times, and the answer is %s; want %d times", n, resp.Status, c.taken)
			}
		})
	}
}

// Whether a claim was taken whose mark has failed is not known, whatever the guard says of a
// request.
func TestClaimAtAMarkThatFails(t *testing.T) {
	s := serve(t, fencehttp.NewHandler(newGuard(t, failing{}, fence.GuardConfig{}), nil, fencehttp.Config{MayClaim: fencehttp.Anyone}), "")
	err := claim(t.Context(), nil, s.URL, fencehttp.Secret{}, "r", 7)
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "nothing") {
		t.Errorf("got %v; want an unknown outcome", err)
	}
}
