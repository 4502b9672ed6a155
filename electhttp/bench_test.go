package electhttp_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// nowhere is a client without a network.
type nowhere http.Header

func (n nowhere) Header() http.Header         { return http.Header(n) }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// BenchmarkAnswer measures what answers cost without a server and a network.
func BenchmarkAnswer(b *testing.B) {
	p := join(b, memory.NewStore(0), "a", electhttp.Config{})
	p.win(b)
	for _, path := range []string{"/leader", "/follower", "/readyz", "/v1/elections/job"} {
		b.Run(path[1:], func(b *testing.B) {
			r := httptest.NewRequest("GET", path, nil)
			b.ReportAllocs()
			for b.Loop() {
				p.ServeHTTP(nowhere{}, r)
			}
		})
	}
}

const watchers = 1000

// BenchmarkWatchers measures how long it takes from the beginning of a campaign until each of 1,000 clients, which are
// in another process, has read who leads.
func BenchmarkWatchers(b *testing.B) {
	p := join(b, memory.NewStore(0), "a", electhttp.Config{})
	server := httptest.NewServer(p)
	defer server.Close()
	clients := exec.Command(os.Args[0], "-test.run=^TestWatchers$")
	clients.Env = append(os.Environ(), "WATCH="+server.Listener.Addr().String())
	clients.Stderr = os.Stderr
	out, err := clients.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := clients.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = clients.Process.Kill(); _ = clients.Wait() }()
	seen := make([]int64, watchers) // by the wall clock
	if err := binary.Read(out, binary.NativeEndian, seen); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now().UnixNano()
		term, err := p.election.Campaign(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := binary.Read(out, binary.NativeEndian, seen); err != nil {
			b.Fatal(err)
		}
		for _, at := range seen {
			took = append(took, time.Duration(at-begun))
		}
		_ = term.Release(b.Context())
	}
	slices.Sort(took)
	for name, i := range map[string]int{"ms-p50": len(took) / 2, "ms-p99": len(took) * 99 / 100, "ms-max": len(took) - 1} {
		b.ReportMetric(took[i].Seconds()*1e3, name)
	}
}

// TestWatchers is the clients of BenchmarkWatchers. It writes the time at which each of them has its first event, and
// then sees each leader.
func TestWatchers(t *testing.T) {
	server := os.Getenv("WATCH")
	if server == "" {
		t.Skip("this is the other process of BenchmarkWatchers")
	}
	seen := make(chan int64, watchers)
	for range watchers {
		c, err := net.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /v1/elections/job/watch HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		go func() {
			var last []byte
			first := true
			for in := bufio.NewReader(c); ; {
				line, err := in.ReadSlice('\n')
				if err != nil {
					return
				}
				if !bytes.HasPrefix(line, []byte("data: ")) {
					continue
				}
				_, token, led := bytes.Cut(line, []byte(`"leader":{"id":"a","token":`))
				token, _, _ = bytes.Cut(token, []byte(","))
				if first || led && !bytes.Equal(token, last) {
					seen <- time.Now().UnixNano()
					last, first = append(last[:0], token...), false
				}
			}
		}()
	}
	all := make([]int64, watchers)
	for {
		for i := range all {
			all[i] = <-seen
		}
		if err := binary.Write(os.Stdout, binary.NativeEndian, all); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}
