//go:build linux

package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/race"
)

const patience = 20 * time.Second

// puppetVariable makes a puppet of the test's own program.
const puppetVariable = "NETWORK_TEST_PUPPET"

func TestMain(m *testing.M) {
	switch os.Getenv(puppetVariable) {
	case "":
		os.Exit(race.Main(m))
	case "harness":
		os.Exit(doomedHarness())
	default:
		os.Exit(dance())
	}
}

// dance carries out the commands on its standard input, a line each, and answers each with a line.
// It ends with its input.
func dance() int {
	s := stage{conns: map[string]*net.TCPConn{}}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answer, err := s.do(strings.Fields(in.Text()))
		if err != nil {
			answer = "error " + cause(err)
		}
		fmt.Println(answer)
	}
	return 0
}

func cause(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	for _, known := range []syscall.Errno{syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// lastPacket ends a count.
const lastPacket = "last"

var (
	wasReset = "error " + syscall.ECONNRESET.Error()
	timedOut = "error timeout"
)

type stage struct {
	listener *net.TCPListener
	conns    map[string]*net.TCPConn
	packets  *net.UDPConn
	chatting atomic.Int64
}

// do does one of
//
//	listen ADDR · accept NAME · dial NAME ADDR TIME · send NAME WORD · hear NAME BYTES TIME · chat NAME ·
//	chatting · udp ADDR · burst ADDR COUNT WORD · count · interfaces
func (s *stage) do(words []string) (answer string, err error) {
	arg := func(i int) string { return words[i] }
	limit := func(i int) time.Time {
		d, err := time.ParseDuration(arg(i))
		if err != nil {
			panic(err)
		}
		return time.Now().Add(d)
	}
	switch arg(0) {
	case "listen":
		l, err := net.Listen("tcp", arg(1))
		if err != nil {
			return "", err
		}
		s.listener = l.(*net.TCPListener)
	case "accept":
		_ = s.listener.SetDeadline(time.Now().Add(patience))
		c, err := s.listener.AcceptTCP()
		if err != nil {
			return "", err
		}
		s.conns[arg(1)] = c
	case "dial":
		c, err := (&net.Dialer{Deadline: limit(3)}).Dial("tcp", arg(2))
		if err != nil {
			return "", err
		}
		s.conns[arg(1)] = c.(*net.TCPConn)
	case "send":
		_, err = io.WriteString(s.conns[arg(1)], arg(2))
	case "hear":
		c := s.conns[arg(1)]
		size, _ := strconv.Atoi(arg(2))
		_ = c.SetReadDeadline(limit(3))
		got := make([]byte, size)
		_, err = io.ReadFull(c, got)
		return string(got), err
	case "chat":
		c := s.conns[arg(1)]
		s.chatting.Add(1)
		go func() {
			defer s.chatting.Add(-1)
			for range time.Tick(time.Millisecond) {
				if _, err := c.Write([]byte("blah")); err != nil {
					return
				}
			}
		}()
	case "chatting":
		return strconv.FormatInt(s.chatting.Load(), 10), nil
	case "udp":
		addr, err := net.ResolveUDPAddr("udp", arg(1))
		if err != nil {
			return "", err
		}
		if s.packets, err = net.ListenUDP("udp", addr); err != nil {
			return "", err
		}
		raw, err := s.packets.SyscallConn()
		if err != nil {
			return "", err
		}
		_ = raw.Control(func(fd uintptr) { // all that come between two counts must find room
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		})
		return "ok", err
	case "burst":
		c, err := net.Dial("udp", arg(1))
		if err != nil {
			return "", err
		}
		n, _ := strconv.Atoi(arg(2))
		for range n {
			if _, err := io.WriteString(c, arg(3)); err != nil {
				return "", err
			}
		}
		return "ok", c.Close()
	case "count":
		count := 0
		_ = s.packets.SetReadDeadline(time.Now().Add(patience))
		for buf := make([]byte, 64); ; count++ {
			if n, err := s.packets.Read(buf); err != nil || string(buf[:n]) == lastPacket {
				return strconv.Itoa(count), err
			}
		}
	case "interfaces":
		list, err := net.Interfaces()
		if err != nil {
			return "", err
		}
		var all []string
		for _, i := range list {
			all = append(all, i.Name)
		}
		return strings.Join(all, " "), nil
	default:
		return "", errors.New("what is " + arg(0))
	}
	return "ok", err
}

// puppet is a process in a network that the test controls.
type puppet struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string
}

// newPuppet starts a puppet with a command for the test's own program.
func newPuppet(t *testing.T, name string, cmd *exec.Cmd) *puppet {
	t.Helper()
	cmd.Env = append(cmd.Environ(), puppetVariable+"=yes", "GORACE=atexit_sleep_ms=0")
	return start(t, name, cmd)
}

func start(t *testing.T, name string, cmd *exec.Cmd) *puppet {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, out := harness.Start(t, cmd)
	p := &puppet{t: t, name: name, cmd: cmd, in: in, answers: make(chan string)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.answers <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	return p
}

// tell gives the puppet a command, and returns its answer.
func (p *puppet) tell(format string, args ...any) string {
	p.t.Helper()
	what := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(p.in, what); err != nil {
		p.t.Fatalf("%s: %s: %v", p.name, what, err)
	}
	select {
	case answer, ok := <-p.answers:
		if !ok {
			p.t.Fatalf("%s: %s: it ended", p.name, what)
		}
		return answer
	case <-time.After(2 * patience):
		p.t.Fatalf("%s: %s: no answer", p.name, what)
	}
	return ""
}

// must gives it a command that must have this answer.
func (p *puppet) must(answer, format string, args ...any) {
	p.t.Helper()
	if got := p.tell(format, args...); got != answer {
		p.t.Fatalf("%s: %s: %q; want %q", p.name, fmt.Sprintf(format, args...), got, answer)
	}
}

// hears reports whether it hears a word within that time; another word ends the test.
func (p *puppet) hears(conn, word string, limit time.Duration) bool {
	p.t.Helper()
	got := p.tell("hear %s %d %v", conn, len(word), limit)
	if got != word && got != timedOut {
		p.t.Fatalf("%s heard %q over %s; want %q", p.name, got, conn, word)
	}
	return got == word
}

// puppets is a network with a puppet in each node.
type puppets struct {
	t *testing.T
	Network
	dir   string
	nodes []*puppet
	conns int
}

// kinds runs a test in networks of n nodes, of each kind.
func kinds(t *testing.T, n int, f func(*testing.T, *puppets)) {
	for name, build := range map[string]func(string, int) (Network, error){"namespaces": NewNamespaces, "proxies": NewProxies} {
		t.Run(name, func(t *testing.T) { f(t, newPuppets(t, n, build)) })
	}
}

func newPuppets(t *testing.T, n int, build func(string, int) (Network, error)) *puppets {
	t.Helper()
	long.Test(t, "it makes networks between processes")
	dir := t.TempDir()
	w, err := build(dir, n)
	able(t, err)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	puppets := &puppets{t: t, Network: w, dir: dir}
	for i := range n {
		puppets.nodes = append(puppets.nodes, puppets.puppet(i))
		puppets.nodes[i].must("ok", "listen %s", w.Listen(i))
	}
	return puppets
}

// able skips the test if err says that this machine cannot do it; in CI it must.
func able(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrUnable) && os.Getenv("CI") != "true":
		t.Skipf("SKIPPED, and so nothing was tested: %v", err)
	default:
		t.Fatal(err)
	}
}

func (w *puppets) puppet(i int) *puppet {
	w.t.Helper()
	return newPuppet(w.t, fmt.Sprint("node ", i), w.Command(i, self(w.t)))
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// set changes the links.
func (w *puppets) set(links Links) {
	w.t.Helper()
	if err := w.Set(links); err != nil {
		w.t.Fatal(err)
	}
}

// wire is a connection that one node has made to another.
type wire struct {
	name     string
	from, to *puppet
	way      Way
}

// connect makes a connection.
func (w *puppets) connect(from, to int) wire {
	w.t.Helper()
	c := wire{fmt.Sprint("c", w.conns), w.nodes[from], w.nodes[to], Way{from, to}}
	w.conns++
	c.from.must("ok", "dial %s %s %v", c.name, w.Addr(to), patience)
	c.to.must("ok", "accept %s", c.name)
	return c
}

// mesh makes a connection from each to each.
func (w *puppets) mesh() []wire {
	w.t.Helper()
	var all []wire
	for from := range w.Size() {
		for to := range w.Size() {
			if from != to {
				all = append(all, w.connect(from, to))
			}
		}
	}
	return all
}

// works sends a word each way over it, and expects them to arrive.
func (c wire) works() {
	c.from.t.Helper()
	c.from.must("ok", "send %s there", c.name)
	c.to.must("there", "hear %s 5 %v", c.name, patience)
	c.to.must("ok", "send %s back", c.name)
	c.from.must("back", "hear %s 4 %v", c.name, patience)
}
