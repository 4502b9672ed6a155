package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/store/internal/queue"
)

// TestCandidates: which children are candidates, and in which order.
func TestCandidates(t *testing.T) {
	var others []string
	s := &store{warn: func(_ string, children []string) { others = children }}
	var names []string
	for _, c := range s.candidates([]string{
		"_c_b-latch-0000000010", "config", "a__lock__0000000009", "_c_a-lock-0000000011", "latch-0000000002", "latch-2", "x-0000000001", "_c_z-latch--2147483648",
	}) {
		names = append(names, c.name)
	}
	want := []string{"_c_z-latch--2147483648", "latch-0000000002", "a__lock__0000000009", "_c_b-latch-0000000010", "_c_a-lock-0000000011"}
	if !slices.Equal(names, want) {
		t.Errorf("candidates %q; want %q", names, want)
	}
	if want := []string{"config", "latch-2", "x-0000000001"}; !slices.Equal(others, want) {
		t.Errorf("others %q; want %q", others, want)
	}
	for layout, shape := range map[Layout]string{LeaderLatch: "_c_%-latch-", LeaderSelector: "_c_%-lock-", Kazoo: "%__lock__"} {
		p := layout.prefix()
		before, after, _ := strings.Cut(shape, "%")
		if !strings.HasPrefix(p, before) || !strings.HasSuffix(p, after) || p == layout.prefix() {
			t.Errorf("%s: prefix %q; want another %q each time", layout, p, shape)
		}
		for other := range layouts {
			if name := p + "0000000001"; other.has(name) != (other == layout) || !isCandidate.MatchString(name) {
				t.Errorf("%s: is %q of it: %t", other, name, other.has(name))
			}
		}
	}
	for digits, want := range map[string]bool{"0000000000": true, "2146435070": true, "2146435071": false, "2147483647": false, "-2147483648": false, "x": false} {
		if usable(digits) != want {
			t.Errorf("number %s: %t; want %t", digits, usable(digits), want)
		}
	}
}

// TestFindings: what a server's answer means.
func TestFindings(t *testing.T) {
	for text, want := range map[string]driver.Finding{
		"Zookeeper version: 3.8.0-11+deb12u2, built on x\nLatency min/avg/max: 0/0.1/9\nMode: follower\n": {Value: "version 3.8.0, follower", Means: "latency in ms (min/avg/max): 0/0.1/9"},
		"srvr is not executed because it is not in the whitelist.\n":                                      {Value: "not told", Means: "the server does not answer srvr (4lw.commands.whitelist)"},
		"This ZooKeeper instance is not currently serving requests\n":                                     {Value: "not serving", Means: "it has no connection to a majority, or is no ZooKeeper", Wrong: true},
	} {
		if got := told(driver.Finding{}, text); got != want {
			t.Errorf("%q: %+v; want %+v", text, got, want)
		}
	}
}

// TestHosts: names are looked up again when all addresses were tried. A name that is not found is tried as it is.
func TestHosts(t *testing.T) {
	failed := make(chan struct{})
	h := &hosts{all: []string{"127.0.0.1:1", "name.invalid:2", "[::1]:3"}, failed: failed}
	for round := range 3 {
		var all []string
		for i := range 3 {
			server, again := h.Next()
			if all = append(all, server); again != (round > 0 && i == 0) {
				t.Errorf("round %d, server %d: a new round is %t", round, i, again)
			}
		}
		if slices.Sort(all); !slices.Equal(all, []string{"127.0.0.1:1", "[::1]:3", "name.invalid:2"}) {
			t.Errorf("tried %q; want each once", all)
		}
		select {
		case <-failed:
			if round == 0 {
				t.Error("it has failed before all were tried")
			}
		default:
			if round > 0 {
				t.Error("all were tried, and it has not failed")
			}
		}
	}
	if h.name("[::1]:3") != "::1" || h.name("name.invalid:2") != "name.invalid" {
		t.Errorf("names %q", h.names)
	}
	for range 10 {
		server, _ := h.Next()
		for len(h.left) > 0 {
			server, _ = h.Next()
		}
		h.Connected()
		if next, again := h.Next(); again || next == server {
			t.Errorf("after a connection to %s: %s, and a new round is %t; want another server, and no pause", server, next, again)
		}
	}
}

// greeter answers connect requests and pings, and nothing else. It is what tests of a line need of a server.
type greeter struct {
	net.Listener
	answer func(session uint64) (is uint64, granted time.Duration) // 0: the session has expired; no time: there is no answer
	asked  atomic.Int64                                            // connect requests
}

func greet(t *testing.T, answer func(uint64) (uint64, time.Duration)) *greeter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	g := &greeter{Listener: l, answer: answer}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.serve(c)
		}
	}()
	return g
}

func (g *greeter) serve(c net.Conn) {
	defer c.Close()
	frame := func() []byte {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return nil
		}
		text := make([]byte, binary.BigEndian.Uint32(size[:]))
		_, _ = io.ReadFull(c, text) // the next read would fail, too
		return text
	}
	asks := frame() // protocol, zxid, timeout, session, password
	if len(asks) < 28 {
		return
	}
	g.asked.Add(1)
	is, granted := g.answer(binary.BigEndian.Uint64(asks[16:]))
	if granted > 0 {
		out := binary.BigEndian.AppendUint32(nil, 4+4+8+4+16)
		out = binary.BigEndian.AppendUint32(out, 0)
		out = binary.BigEndian.AppendUint32(out, uint32(granted.Milliseconds()))
		out = binary.BigEndian.AppendUint64(out, is)
		out = append(binary.BigEndian.AppendUint32(out, 16), make([]byte, 16)...)
		_, _ = c.Write(out)
	}
	for frame() != nil && granted >= 0 { // requests that are not answered
	}
}

func lineTo(t *testing.T, single bool, servers ...*greeter) *line {
	t.Helper()
	a := &connection{}
	for _, g := range servers {
		a.servers = append(a.servers, g.Addr().String())
	}
	l, err := a.dial(time.Second, single)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() })
	if err := l.opened(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestExpired: the client opens no session in place of one that has expired, and the line is gone. That of observers
// goes on in another one.
func TestExpired(t *testing.T) {
	for _, single := range []bool{true, false} {
		t.Run(fmt.Sprint(single), func(t *testing.T) {
			t.Parallel()
			var opened atomic.Uint64
			g := greet(t, func(session uint64) (uint64, time.Duration) {
				switch {
				case session != 0:
					return 0, 300 * time.Millisecond // and then it has ended
				case opened.Add(1) == 1:
					return 1, 300 * time.Millisecond // pings are not answered, so the client connects again
				}
				return opened.Load(), time.Minute
			})
			l := lineTo(t, single, g)
			if session, granted := l.granting(); session != 1 || granted != 300*time.Millisecond {
				t.Errorf("session %d of %v; want 1 of 300ms", session, granted)
			}
			harness.Eventually(t, "it has another session, or none", func() bool {
				session, _ := l.granting()
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.over || session == 2
			})
			if single {
				if _, err := l.look(t.Context(), "/x", false); !errors.Is(err, queue.ErrGone) {
					t.Errorf("%v; want that the session is gone", err)
				}
				_ = l.close()
				if n := opened.Load(); n != 1 {
					t.Errorf("%d sessions; want 1", n)
				}
			} else if l.over {
				t.Error("the line of observers is over")
			}
		})
	}
}

// TestHungServer: a server that does not answer is left for another one: when the client connects, and when requests
// wait.
func TestHungServer(t *testing.T) {
	t.Parallel()
	var moved atomic.Uint64
	grant := func(session uint64) (uint64, time.Duration) {
		if session != 0 {
			moved.Add(1)
		}
		return 7, time.Minute
	}
	l := lineTo(t, true, greet(t, func(uint64) (uint64, time.Duration) { return 0, 0 }), greet(t, grant))
	harness.Eventually(t, "the session has moved to another connection", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := l.look(ctx, "/x", false); err == nil {
			t.Fatal("a request is answered that nobody has answered")
		}
		return moved.Load() > 0
	})
	if session, _ := l.granting(); session != 7 {
		t.Errorf("session %d; want 7", session)
	}
}

// TestHungByNoWallClock: a clock that is set must not hide that a server hangs.
func TestHungByNoWallClock(t *testing.T) {
	k := &link{}
	k.asked()
	if since := k.waiting.Load().String(); !strings.Contains(since, " m=") {
		t.Errorf("a request waits since %s; want an instant of the monotonic clock", since)
	}
}

// TestNobodyThere: what is wrong with the connection is told at once, and requests that were not sent are told from
// others.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	g := greet(t, nil)
	_ = g.Close()
	a := &connection{servers: []string{g.Addr().String()}}
	l, err := a.dial(time.Second, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.tried(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v; want that the connection was refused", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.look(ctx, "/x", false); !errors.Is(err, queue.ErrNotSent) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v; want that nothing was sent, and why", err)
	}
}
