package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// deadline is for what must happen; it is waited for as an event, and passes only
// when something is wrong.
const deadline = 20 * time.Second

// testNet is some nodes that talk over loopback.
type testNet struct {
	t     *testing.T
	dir   string // of certificates; "" is plain TCP
	addrs map[protocol.NodeID]string
	lives atomic.Uint64
}

// resident is a node of a testNet, and what has happened to it.
type resident struct {
	*Link
	*Election
	t      *testing.T
	id     protocol.NodeID
	events chan event
	shuts  atomic.Bool // it admits nobody to an election that another has made

	mu2  sync.Mutex
	open []net.Conn // all that it ever had
	dead bool
}

type event struct {
	kind        string // admit, welcomed, refused, received, closed, log
	who         protocol.NodeID
	letter      *wire.Letter
	welcome     *wire.Welcome
	refusal     *wire.Refusal
	incarnation uint64
	text        string
}

func (e event) String() string {
	switch {
	case e.refusal != nil:
		return fmt.Sprintf("%s %s: %s: %s", e.kind, e.who, e.refusal.Code, e.refusal.Says)
	case e.letter != nil:
		return fmt.Sprintf("%s %s: %s %d", e.kind, e.who, e.letter.Message.Type, e.letter.Message.Seq)
	}
	return fmt.Sprintf("%s %s %d %s", e.kind, e.who, e.incarnation, e.text)
}

// secure is a testNet with certificates for some nodes.
func secure(t *testing.T, ids ...protocol.NodeID) *testNet {
	t.Helper()
	var nodes []certs.Node
	for _, id := range ids {
		nodes = append(nodes, certs.Node{ID: string(id)})
	}
	dir := t.TempDir()
	if err := certs.Make(dir, certs.Options{Cluster: "test", Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	return &testNet{t: t, dir: dir}
}

func (w *testNet) identity(id protocol.NodeID) *certs.Identity {
	w.t.Helper()
	if w.dir == "" {
		return nil
	}
	i, err := certs.LoadDir(w.dir, string(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

func (w *testNet) hello(id protocol.NodeID) wire.Hello {
	return wire.Hello{
		Version: wire.Version, Oldest: wire.Oldest, Caller: wire.Node, Cluster: "test",
		ID: id, Dir: protocol.DirID{1}, Starts: 1, Life: w.lives.Add(1), Program: "v0",
	}
}

// part is what a node says of its one election.
func part() wire.Enter {
	return wire.Enter{Number: 1, Election: "e", Dir: protocol.DirID{1}, Incarnation: 1}
}

// listen returns a listener for a node, at the address that the others have for it.
func (w *testNet) listen(id protocol.NodeID) net.Listener {
	w.t.Helper()
	if w.addrs == nil {
		w.addrs = make(map[protocol.NodeID]string)
	}
	if w.addrs[id] == "" {
		w.addrs[id] = harness.FreeAddr(w.t)
	}
	l, err := net.Listen("tcp", w.addrs[id])
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// start starts a node that has all others as peers, unless change says something else.
func (w *testNet) start(id protocol.NodeID, listener net.Listener, change func(*Config)) *resident {
	w.t.Helper()
	r := &resident{t: w.t, id: id, events: make(chan event, 1<<16)}
	cfg := Config{
		HostConfig: HostConfig{
			Hello: w.hello(id), Listener: listener, TLS: w.identity(id), Idle: 2 * time.Second,
			Logger: slog.New(slog.NewTextHandler(lines(r.events), nil)),
		},
		Enter: part(), Peers: make(Peers),
		Admit: func(from protocol.NodeID, _ *wire.Enter, _ wire.Caller) (*wire.Welcome, *wire.Refusal) {
			r.events <- event{kind: "admit", who: from}
			return nil, nil
		},
		Welcomed: func(from protocol.NodeID, m *wire.Welcome) {
			r.events <- event{kind: "welcomed", who: from, welcome: m}
		},
		Refused: func(by protocol.NodeID, m *wire.Refusal) { r.events <- event{kind: "refused", who: by, refusal: m} },
		Receive: func(from protocol.NodeID, l *wire.Letter) { r.events <- event{kind: "received", who: from, letter: l} },
		Closed: func(from protocol.NodeID, n uint64) {
			r.events <- event{kind: "closed", who: from, incarnation: n}
		},
	}
	for other, addr := range w.addrs {
		if other != id {
			cfg.Peers[other] = []string{addr}
		}
	}
	if change != nil {
		change(&cfg)
	}
	if cfg.Listener != nil {
		cfg.Listener = &watched{cfg.Listener, r}
	}
	cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := dialTCP(ctx, addr)
		if err == nil && !r.opened(c) {
			err = errDead
		}
		return c, err
	}
	r.Election = Start(cfg)
	r.Link = r.Election.link
	w.t.Cleanup(func() { r.Close() })
	return r
}

// Close ends a node.
func (r *resident) Close() error { return r.Election.Close() }

// pair is two nodes, secure or not.
func pair(t *testing.T, secured bool) (w *testNet, n1, n2 *resident) {
	t.Helper()
	w = &testNet{t: t}
	if secured {
		w = secure(t, "n1", "n2")
	}
	l1, l2 := w.listen("n1"), w.listen("n2")
	return w, w.start("n1", l1, nil), w.start("n2", l2, nil)
}

// lines makes events of log lines.
type lines chan event

func (c lines) Write(p []byte) (int, error) {
	c <- event{kind: "log", text: string(p)}
	return len(p), nil
}

// await waits for an event; what comes before it is passed over, unless it is of
// a kind that must not happen.
func (r *resident) await(want func(event) bool, never ...string) event {
	r.t.Helper()
	var seen []string
	late := time.After(deadline)
	for {
		select {
		case e := <-r.events:
			if want(e) {
				return e
			}
			seen = append(seen, e.String())
			for _, kind := range never {
				if e.kind == kind {
					r.t.Fatalf("%s: %v; it must not be. Before it:\n%s", r.id, e, strings.Join(seen, "\n"))
				}
			}
		case <-late:
			buf := make([]byte, 1<<17)
			r.t.Fatalf("%s: it did not happen. Instead:\n%s\n%+v\n%s", r.id, strings.Join(seen, "\n"), r.Peers(), buf[:runtime.Stack(buf, true)])
		}
	}
}

func (r *resident) kind(kind string, who protocol.NodeID, never ...string) event {
	r.t.Helper()
	return r.await(func(e event) bool { return e.kind == kind && e.who == who }, never...)
}

// logged waits for a line that has all parts.
func (r *resident) logged(parts ...string) {
	r.t.Helper()
	r.await(func(e event) bool {
		for _, part := range parts {
			if !strings.Contains(e.text, part) {
				return false
			}
		}
		return e.kind == "log"
	})
}

func letter(seq uint64) *wire.Letter {
	return &wire.Letter{Number: 1, Message: protocol.Message{Type: "heartbeat", Incarnation: 1, Seq: seq}}
}

// talk sends a letter until it arrives: one may be lost before there is a
// connection, and while there are two. Closed must not be told meanwhile.
func (r *resident) talk(to *resident, seq uint64) { r.t.Helper(); r.send(to, letter(seq)) }

func (r *resident) send(to *resident, l *wire.Letter) {
	r.t.Helper()
	arrived, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			r.Send(to.id, l)
			select {
			case <-again.C:
			case <-arrived:
				return
			}
		}
	}()
	defer func() {
		close(arrived)
		<-ended
	}()
	to.await(func(e event) bool { return e.kind == "received" && e.letter.Message.Seq == l.Message.Seq }, "closed")
}

func (r *resident) peer(id protocol.NodeID) PeerInfo {
	for _, p := range r.Peers() {
		if p.ID == id {
			return p
		}
	}
	return PeerInfo{}
}

func (r *resident) connected(id protocol.NodeID) bool { return r.peer(id).Connected }

// conns are the connections that count.
func (r *resident) conns(id protocol.NodeID) []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.peers[id]; p != nil {
		return append([]*conn(nil), p.conns...)
	}
	return nil
}

var errDead = errors.New("this process is dead")

// watched is a listener whose connections are known.
type watched struct {
	net.Listener
	r *resident
}

func (w *watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err == nil && !w.r.opened(c) {
		err = errDead
	}
	return c, err
}

// opened notes a connection. False: the process is dead.
func (r *resident) opened(c net.Conn) bool {
	r.mu2.Lock()
	defer r.mu2.Unlock()
	if r.dead {
		c.Close()
		return false
	}
	r.open = append(r.open, c)
	return true
}

// crash closes all that the process has open, as its kernel would, and lets it
// dial and answer no more.
func (r *resident) crash(reset bool) {
	r.Link.cfg.Listener.Close()
	r.mu2.Lock()
	defer r.mu2.Unlock()
	r.dead = true
	for _, c := range r.open {
		if t, ok := c.(*net.TCPConn); ok && reset {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}
