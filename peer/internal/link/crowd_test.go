package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
)

// said returns what has been logged until now, and not been waited for.
func (r *resident) said() (lines []string) {
	for {
		select {
		case e := <-r.events:
			if e.kind == "log" {
				lines = append(lines, e.text)
			}
		default:
			return lines
		}
	}
}

// alone waits until there is no guest any more.
func (r *resident) alone() {
	r.t.Helper()
	harness.Eventually(r.t, "without guests", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.accepted == 0 && len(r.guests) == 0
	})
}

// TestSilentStrangers: a flood of silent strangers does not keep out a node that is far away, and needs longer than
// they can stay.
func TestSilentStrangers(t *testing.T) {
	away := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: deadline}
	w := secure(t, "n1", "n2")
	n1 := w.start("n1", w.listen("n1"), func(c *Config) { c.Idle = 5 * time.Second })
	addr := w.addrs["n1"]
	first, err := away.Dial("tcp", addr)
	if err != nil {
		t.Skipf("no second address on this system: %v", err)
	}
	first.Close()
	far, err := cable.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	far.Delay(100 * time.Millisecond)

	stop, flooded, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second / 300)
		defer tick.Stop()
		var all [2 * maxGuests]net.Conn // the latest
		defer func() {
			for _, c := range all {
				if c != nil {
					c.Close()
				}
			}
		}()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			c, err := away.Dial("tcp", addr)
			if err != nil {
				continue
			}
			if old := all[n%len(all)]; old != nil {
				old.Close()
			}
			if all[n%len(all)] = c; n == 2*maxGuests {
				close(flooded)
			}
		}
	}()
	select {
	case <-flooded:
	case <-time.After(deadline):
		t.Error("the flood does not come")
	}
	n2 := w.start("n2", nil, func(cfg *Config) { cfg.Idle = 5 * time.Second; cfg.Peers["n1"] = []string{far.Addr()} })
	harness.Eventually(t, "connected", func() bool { return n2.connected("n1") })
	n1.logged("too many connections of strangers", "from=127.0.0.2")
	close(stop)
	<-ended
}

func TestVictim(t *testing.T) {
	guests := func(ips ...string) (all []*guest) {
		for _, ip := range ips {
			g := &guest{}
			if ip != "" {
				g.ip = netip.MustParseAddr(ip)
			}
			all = append(all, g)
		}
		return all
	}
	home := map[netip.Addr]bool{netip.MustParseAddr("10.0.0.1"): true, netip.MustParseAddr("fd00::1"): true}
	for name, c := range map[string]struct {
		guests []*guest
		want   string // places of those who may be dropped
	}{
		"the network with most":           {guests("10.9.0.1", "10.9.0.2", "10.9.0.2", "10.9.0.3"), "[1 2]"},
		"one network of IPv6":             {guests("fd00::1:1:1:1", "10.9.0.2", "10.9.0.3", "fd00:0:0:1::1", "fd00:0:0:1::2"), "[3 4]"},
		"none from where a peer is":       {guests("10.0.0.1", "10.0.0.1", "fd00::1", "10.9.0.2"), "[3]"},
		"unless they are all from there":  {guests("10.0.0.1", "10.0.0.1", "fd00::1"), "[0 1]"},
		"equals":                          {guests("10.9.0.1", "10.9.0.2", "10.0.0.1"), "[0 1]"},
		"connections that have no number": {guests("", "", "10.9.0.2"), "[0 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			dropped := map[int]bool{}
			for range 200 {
				dropped[victim(c.guests, home)] = true
			}
			var got []int
			for n := range c.guests {
				if dropped[n] {
					got = append(got, n)
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("dropped %v, want %v", got, c.want)
			}
		})
	}
}

// TestHomes: where peers are is known from the configuration and from connections.
func TestHomes(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	n2 := w.start("n2", nil, func(c *Config) { c.Peers["n7"], c.Peers["n8"] = []string{"10.1.2.3:1"}, []string{"localhost:1"} })
	n2.talk(n1, 1)
	for _, c := range []struct {
		r    *resident
		want string
	}{{n1, "127.0.0.1"}, {n2, "127.0.0.1"}, {n2, "10.1.2.3"}} {
		c.r.mu.Lock()
		homes := c.r.homes()
		c.r.mu.Unlock()
		if !homes[netip.MustParseAddr(c.want)] {
			t.Errorf("%s: %v, want %s among them", c.r.id, homes, c.want)
		}
	}
}

// TestRefusedIsDroppable: a caller to which a refusal is being written still counts as a guest.
func TestRefusedIsDroppable(t *testing.T) {
	w := secure(t, "n1")
	n1 := w.start("n1", w.listen("n1"), nil)
	for range 20 { // he is for a quarter of a second, and this machine may be slower
		raw, err := net.Dial("tcp", w.addrs["n1"])
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.SetDeadline(time.Now().Add(deadline))
		if _, err := io.WriteString(raw, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		n1.mu.Lock()
		guests := len(n1.guests)
		n1.mu.Unlock()
		raw.Close()
		if guests > 0 {
			return
		}
	}
	t.Error("he is no guest any more")
}

// TestPortCheck: a caller that connects and closes without a word leaves no line in the log. Nor does a connection that
// comes while the Link closes.
func TestPortCheck(t *testing.T) {
	for _, secured := range []bool{false, true} {
		w := &testNet{t: t}
		if secured {
			w = secure(t, "n1")
		}
		n1 := w.start("n1", w.listen("n1"), nil)
		call := func(reset bool) {
			t.Helper()
			raw, err := net.Dial("tcp", w.addrs["n1"])
			if err != nil {
				t.Fatal(err)
			}
			if reset {
				_ = raw.(*net.TCPConn).SetLinger(0)
			} else {
				_ = raw.(*net.TCPConn).CloseWrite()
				_ = raw.SetDeadline(time.Now().Add(deadline))
				_, _ = io.Copy(io.Discard, raw)
			}
			raw.Close()
			n1.alone()
		}
		call(false)
		call(true)
		n1.mu.Lock()
		n1.Link.closing = true
		n1.mu.Unlock()
		call(false)
		if lines := n1.said(); len(lines) > 0 {
			t.Errorf("the log says %q", lines)
		}
	}
}

// TestSameStranger: what one host does again and again is one line.
func TestSameStranger(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	call := func(says string) {
		t.Helper()
		raw, err := net.Dial("tcp", w.addrs["n1"])
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		_, _ = io.WriteString(raw, says)
		_ = raw.(*net.TCPConn).CloseWrite()
		_ = raw.SetDeadline(time.Now().Add(deadline))
		_, _ = io.Copy(io.Discard, raw)
		n1.alone()
	}
	for range 10 {
		call("\x00\x00")
	}
	if lines := n1.said(); len(lines) != 1 || !strings.Contains(lines[0], "unexpected EOF") {
		t.Errorf("the log says %q, want one line", lines)
	}
	call("GET / HTTP/1.1\r\n\r\n")
	if lines := n1.said(); len(lines) != 1 || !strings.Contains(lines[0], "1195725856") || !strings.Contains(lines[0], "left_out_before=9") {
		t.Errorf("the log says %q, want one line", lines)
	}
}

func TestReason(t *testing.T) {
	at := func(port int) error {
		return fmt.Errorf("a handshake: %w", &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: os.NewSyscallError("read", syscall.ECONNRESET),
		})
	}
	if a, b := reason(at(1)), reason(at(2)); a != b || !strings.HasPrefix(a, "a handshake: read: read: ") {
		t.Errorf("%q and %q", a, b)
	}
	if text := reason(errors.New("x")); text != "x" {
		t.Errorf("%q", text)
	}
}

// TestTroubleIsTakenBack: a node that does not listen yet is no trouble at first, and a log with a trouble also has its
// end.
func TestTroubleIsTakenBack(t *testing.T) {
	for level, begun := range map[string]time.Duration{"INFO": 0, "WARN": time.Minute} {
		w := &testNet{t: t}
		w.listen("n2").Close()
		n1 := w.start("n1", w.listen("n1"), nil)
		if line := n1.await(func(e event) bool { return strings.Contains(e.text, "cannot connect") }); !strings.Contains(line.text, "level=INFO") {
			t.Errorf("%v", line)
		}
		n1.mu.Lock()
		n1.begun = n1.begun.Add(-begun)
		n1.mu.Unlock()
		if begun > 0 {
			n1.logged("level=WARN", "cannot connect")
		}
		w.start("n2", w.listen("n2"), nil)
		n1.logged("level="+level, "msg=connected")
	}
}

// TestEachTroubleOnce: two causes that take turns are two lines.
func TestEachTroubleOnce(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	p := &peer{id: "n2"}
	for n := range 20 {
		n1.failed(p, fmt.Errorf("cause %d", n%2))
	}
	if lines := n1.said(); len(lines) != 2 {
		t.Errorf("the log says %q, want two lines", lines)
	}
}

func TestWorries(t *testing.T) {
	w := worries{said: make(map[string]time.Time), last: []string{"a"}}
	at := time.Now()
	for n, c := range []struct {
		after time.Duration
		now   []string
		want  string
	}{
		{0, []string{"a"}, "[a]"},                     // at the start, all
		{time.Minute, []string{"a", "b"}, "[]"},       // b may be half a renewal…
		{time.Minute, []string{"a"}, "[]"},            // …as it was
		{time.Minute, []string{"a", "c"}, "[]"},       //
		{time.Minute, []string{"a", "c"}, "[c]"},      // c is none
		{time.Minute, []string{"a", "c"}, "[]"},       // and was said
		{25 * time.Hour, []string{"a", "c"}, "[a c]"}, // a day ago
	} {
		at = at.Add(c.after)
		if got := fmt.Sprint(w.due(c.now, at)); got != c.want {
			t.Errorf("look %d: %s, want %s", n, got, c.want)
		}
	}
}

func TestIdentityWorries(t *testing.T) {
	w := secure(t, "n1")
	if err := os.Chmod(filepath.Join(w.dir, "n1.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	n1 := w.start("n1", w.listen("n1"), nil)
	n1.logged("level=WARN", "certificates want a look", "n1.key", "mode 0644")
}
