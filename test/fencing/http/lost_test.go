//go:build linux

package http_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestLost: the connection between a proxy and its upstream breaks, as by a firewall or a load
// balancer between them, while the upstream is at work for an older leader. The proxy answers 502
// at once, and admits a newer leader when the upstream cannot be at work any more. Without that the
// older write lands last.
func TestLost(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	t.Parallel()
	elect := harness.Build(t, "../../../cmd/elect")
	for drain, want := range map[string]int64{"0": 5, "4s": 6} {
		t.Run(drain, func(t *testing.T) {
			upstream := startUpstream(t)
			between := relay(t, strings.TrimPrefix(upstream, "http://"))
			_, at := startProxy(t, elect, "http://"+between.addr, t.TempDir(), "--drain", drain)
			claim(t, at, 5)
			ctx := fence.NewContext(t.Context(), 5)
			done := make(chan error, 1)
			go func() { done <- write(ctx, leader(nil), at+"/?after=2s", 5, 0) }()
			busy := func() int64 {
				n, err := read(t.Context(), http.DefaultClient, upstream+"/busy")
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			harness.Eventually(t, "the write is at the upstream", func() bool { return busy() == 1 })
			between.cut()
			if err := <-done; err == nil || busy() != 1 {
				t.Errorf("the older leader is told %v, and %d are at work; want 502 while one is", err, busy())
			}
			claim(t, at, 6)
			if err := write(fence.NewContext(t.Context(), 6), leader(nil), at+"/", 6, 0); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, "the older write has landed", func() bool { return busy() == 0 })
			if value, err := directly(upstream)(t.Context()); value != want || err != nil {
				t.Errorf("the register has %d, %v; want %d", value, err, want)
			}
		})
	}
}

// relayed is a link that can be cut.
type relayed struct {
	addr string

	mu    sync.Mutex
	conns []net.Conn
}

// relay passes connections on to an address.
func relay(t *testing.T, to string) *relayed {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relayed{addr: l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
		all.Wait()
	})
	all.Go(func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = here.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, here, there)
			r.mu.Unlock()
			all.Go(func() { _, _ = io.Copy(here, there); _ = here.Close() })
			all.Go(func() { _, _ = io.Copy(there, here); _ = there.Close() })
		}
	})
	return r
}

// cut closes all connections that there are. New ones pass.
func (r *relayed) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}
