package group

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// network connects the members of a test within its bubble. A member is cut off by its id.
type network struct {
	mu        sync.Mutex
	last      int
	listeners map[string]*listener
	conns     map[*wireEnd]struct{}
	cut       map[string]bool
	hole      map[string]bool          // swallows what is sent, and the connections stay dead afterwards
	slow      map[string]time.Duration // how long each frame takes
}

func newNetwork() *network {
	return &network{listeners: map[string]*listener{}, conns: map[*wireEnd]struct{}{}, cut: map[string]bool{}, hole: map[string]bool{}, slow: map[string]time.Duration{}}
}

type listener struct {
	n      *network
	id     string
	addr   memAddr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type memAddr string

func (a memAddr) Network() string { return "memory" }
func (a memAddr) String() string  { return string(a) }

// wireEnd is one end of a connection, known to its network.
type wireEnd struct {
	net.Conn
	n     *network
	owner [2]string
	dead  bool
}

// Write writes, or seems to: a cut without a word is not seen.
func (e *wireEnd) Write(b []byte) (int, error) {
	e.n.mu.Lock()
	e.dead = e.dead || e.n.hole[e.owner[0]] || e.n.hole[e.owner[1]]
	dead, slow := e.dead, max(e.n.slow[e.owner[0]], e.n.slow[e.owner[1]])
	e.n.mu.Unlock()
	if dead {
		return len(b), nil
	}
	for n := 0; slow > 0 && n < len(b); { // its length is in front of each frame
		<-time.After(slow)
		end := n + 4 + int(binary.BigEndian.Uint32(b[n:]))
		if _, err := e.Conn.Write(b[n:end]); err != nil {
			return n, err
		}
		if n = end; n == len(b) {
			return n, nil
		}
	}
	return e.Conn.Write(b)
}

func (n *network) slower(id string, by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[id] = by
}

func (n *network) swallow(id string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hole[id] = on
}

func (e *wireEnd) Close() error {
	e.n.mu.Lock()
	delete(e.n.conns, e)
	e.n.mu.Unlock()
	return e.Conn.Close()
}

func (n *network) listen(id string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	l := &listener{n: n, id: id, addr: memAddr(fmt.Sprintf("memory-%d", n.last)), conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[string(l.addr)] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, string(l.addr))
		l.n.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

func (n *network) dial(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		n.mu.Lock()
		l := n.listeners[addr]
		if l == nil || n.cut[from] || n.cut[l.id] {
			n.mu.Unlock()
			return nil, errors.New("no route")
		}
		a, b := net.Pipe()
		near, far := &wireEnd{Conn: a, n: n, owner: [2]string{from, l.id}}, &wireEnd{Conn: b, n: n, owner: [2]string{from, l.id}}
		n.conns[near], n.conns[far] = struct{}{}, struct{}{}
		n.mu.Unlock()
		select {
		case l.conns <- far:
			return near, nil
		case <-l.closed:
		case <-ctx.Done():
		}
		near.Close()
		far.Close()
		return nil, errors.New("refused")
	}
}

// sever cuts a member off, or ends that.
func (n *network) sever(id string, on bool) {
	n.mu.Lock()
	n.cut[id] = on
	var ended []*wireEnd
	for c := range n.conns {
		if on && (c.owner[0] == id || c.owner[1] == id) {
			ended = append(ended, c)
		}
	}
	n.mu.Unlock()
	for _, c := range ended {
		c.Close()
	}
}

// gate stops the loops of one member, as if its process were stopped.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil is open
}

func (g *gate) pass() {
	for {
		g.mu.Lock()
		c := g.open
		g.mu.Unlock()
		if c == nil {
			return
		}
		<-c
	}
}

func (g *gate) shut(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case on && g.open == nil:
		g.open = make(chan struct{})
	case !on && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

func reading(t protocol.Instant) protocol.Reading { return protocol.Reading{Boot: t, Mono: t} }
