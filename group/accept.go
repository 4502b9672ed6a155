package group

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
)

// greeting is how long both ends may take to know each other.
const greeting = 5 * time.Second

// acceptor has the connections that members have made to this one: to its coordinator, if there is one, or while they wait
// for that. So a member can connect with the next coordinator before it knows that it is one.
type acceptor struct {
	g    *Group
	last atomic.Uint64 // number of a connection

	mu      sync.Mutex
	c       *coordinator
	changed chan struct{} // closed when c changes
	unknown int
	all     map[*connection]struct{}
	closed  bool
	said    map[string]time.Time // when a refusal was logged
}

func (l *acceptor) init(g *Group) {
	l.g, l.changed, l.all, l.said = g, make(chan struct{}), map[*connection]struct{}{}, map[string]time.Time{}
}

func (l *acceptor) close(c *coordinator) {
	l.mu.Lock()
	if l.c == c {
		l.c = nil
	}
	l.mu.Unlock()
	l.wake()
}

// set says who coordinates in this process.
func (l *acceptor) set(c *coordinator) {
	l.mu.Lock()
	l.c = c
	l.mu.Unlock()
	l.wake()
}

// wake has those who wait look again.
func (l *acceptor) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// await returns the coordinator, when there is one, or nil when the connection has ended. A client, or a
// witness, is told meanwhile where the coordinator is, and does not wait for longer than the word of a witness matters.
func (l *acceptor) await(conn *link.Conn, from *connection) *coordinator {
	var told target
	if s := &l.g.settings; from.control {
		defer time.AfterFunc(s.Cover+s.Promise, func() { conn.Close(link.ErrClosed) }).Stop()
	}
	for {
		l.mu.Lock()
		c, changed := l.c, l.changed
		l.mu.Unlock()
		if c != nil {
			return c
		}
		l.g.mu.Lock()
		t := l.g.target
		l.g.mu.Unlock()
		if from.control && t != told && t.process != l.g.process.String() {
			told = t
			conn.Send(places([]spot{{t.id, t.addr}}))
		}
		select {
		case <-changed:
		case <-conn.Done():
			return nil
		}
	}
}

// serve runs the end of a connection at the coordinator until it ends. While there is no coordinator nothing is read.
func (l *acceptor) serve(conn *link.Conn, r *wire.Reader, from *connection) {
	defer l.leave(from)
	l.mu.Lock()
	from.conn, from.link, from.backlog = machine.Conn(l.last.Add(1)), conn, newBacklog()
	closed := l.closed
	l.all[from] = struct{}{}
	l.mu.Unlock()
	if closed {
		conn.Close(link.ErrClosed)
		return
	}
	entered := make(chan *coordinator, 1)
	var entry sync.WaitGroup
	entry.Go(func() {
		if c := l.await(conn, from); c != nil && c.put(arrival{from: from, opened: true}) {
			entered <- c
		} else {
			conn.Close(link.ErrClosed)
		}
	})
	var c *coordinator
	_ = conn.Run(r, func(p wire.Packet) {
		if c == nil {
			select {
			case c = <-entered:
			case <-conn.Done():
				return
			}
		}
		c.take(from, p)
	})
	entry.Wait()
	if c == nil {
		select {
		case c = <-entered:
		default:
			return
		}
	}
	c.put(arrival{from: from, closed: true})
}

// news reports whether a refusal was not logged within the last minute: who is refused tries again.
func (l *acceptor) news(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.said[text]; ok && now.Sub(at) < time.Minute {
		return false
	}
	if len(l.said) >= maxUnknown {
		clear(l.said)
	}
	l.said[text] = now
	return true
}

// end closes all connections.
func (l *acceptor) end() {
	l.mu.Lock()
	l.closed = true
	all := make([]*link.Conn, 0, len(l.all))
	for from := range l.all {
		if from.link != nil {
			all = append(all, from.link)
		}
	}
	l.mu.Unlock()
	for _, c := range all {
		c.Close(link.ErrClosed)
	}
}

// accept takes connections until the listener is closed.
func (g *Group) accept() {
	for {
		nc, err := g.listener.Accept()
		if err != nil {
			if g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			g.log.Warn("a connection cannot be accepted", "error", err)
			select {
			case <-time.After(100 * time.Millisecond): // no descriptors, for example
			case <-g.ctx.Done():
				return
			}
			continue
		}
		g.work.Go(func() { g.welcome(nc, g.handshake) })
	}
}

// stream serves a connection that came by a port of the coordinator's election.
func (g *Group) stream(s driver.Stream) {
	g.welcome(s.Conn, func(nc net.Conn) (net.Conn, shown, error) { return nc, shown{s.ID, s.Any, s.ReadOnly}, nil })
}

// welcome finds out who connects, and serves it. secure does the handshake of TLS.
func (g *Group) welcome(nc net.Conn, secure func(net.Conn) (net.Conn, shown, error)) {
	raw := nc
	stop := context.AfterFunc(g.ctx, func() { _ = raw.Close() })
	defer stop()
	defer raw.Close()
	g.acceptor.mu.Lock()
	many := g.acceptor.unknown >= maxUnknown
	if !many {
		g.acceptor.unknown++
	}
	g.acceptor.mu.Unlock()
	if many {
		if why := fmt.Sprintf("%d connections have not said who they are; want fewer at a time", maxUnknown); g.acceptor.news(why) {
			g.log.Warn("a connection is refused", "from", raw.RemoteAddr(), "error", why)
		}
		return
	}
	nc, r, from, err := g.meet(nc, secure)
	if err != nil {
		g.acceptor.leave(from)
		if g.acceptor.news(err.Error()) {
			g.log.Warn("a connection is refused", "from", nc.RemoteAddr(), "error", err)
		}
		return
	}
	g.acceptor.serve(link.New(nc, g.settings.Promise), r, from)
}

// handshake is that with a caller at the group's own port.
func (g *Group) handshake(nc net.Conn) (net.Conn, shown, error) {
	if g.cfg.TLS == nil {
		return nc, shown{any: true}, nil
	}
	secure := tls.Server(nc, g.cfg.TLS.Server())
	if err := secure.HandshakeContext(g.ctx); err != nil {
		return nc, shown{}, err
	}
	id, err := holder(secure.ConnectionState())
	return secure, shown{id: id}, err
}

// meet lets a connection enter, or refuses it. After an error the connection that is returned has entered, unless it is
// nil, and is to leave.
func (g *Group) meet(nc net.Conn, secure func(net.Conn) (net.Conn, shown, error)) (net.Conn, *wire.Reader, *connection, error) {
	if err := nc.SetDeadline(time.Now().Add(greeting)); err != nil {
		return nc, nil, nil, err
	}
	nc, who, err := secure(nc)
	if err != nil {
		return nc, nil, nil, err
	}
	r := wire.NewReader(nc)
	p, err := r.Next()
	if err != nil {
		return nc, nil, nil, err
	}
	refused, misfit := "the connection does not begin with a hello; want a member or a client of a group", false
	var from *connection
	if p.Hello != nil {
		if refused = g.refuses(p.Hello, who); refused != "" && p.Hello.Admitted && who.is(p.Hello.ID) && g.yields(refused) {
			return nc, nil, nil, errors.New(refused)
		}
		misfit = refused != "" && g.coordinates()
		if refused == "" {
			from = &connection{member: p.Hello.ID, name: p.Hello.ID, addr: nc.RemoteAddr().String(), control: p.Hello.Control, shards: p.Hello.Keys > 0, place: p.Hello.Addr, readOnly: who.readOnly}
			if who.id != "" {
				from.name = who.id
			}
			if !who.is(from.member) {
				from.member = "" // it only asks
			}
			if refused = g.acceptor.enter(from); refused != "" {
				from = nil
			}
		}
	}
	if err := wire.Write(nc, &wire.Packet{Welcome: &wire.Welcome{Version: wire.Version, ID: g.id, Process: g.process.String(), Refused: refused, Misfit: misfit}}); err != nil {
		return nc, nil, from, err
	}
	if refused != "" {
		return nc, nil, nil, errors.New(refused)
	}
	r.Open()
	if from.control {
		r.Limit(maxAsked)
	}
	return nc, r, from, nc.SetDeadline(time.Time{})
}

// refuses says why a member is not taken: one line that says what would be right.
func (g *Group) refuses(h *wire.Hello, who shown) string {
	mine := g.hello()
	switch {
	case h.Version != wire.Version:
		return fmt.Sprintf("%s speaks version %d of the protocol of groups, and %s version %d; want the same at all members", h.ID, h.Version, g.id, wire.Version)
	case h.Group != mine.Group:
		return fmt.Sprintf("%s is a member of the group %q, and the coordinator, %s, of %q; want the same group.Config.Name, or another election", h.ID, h.Group, g.id, mine.Group)
	case h.Bits != mine.Bits:
		return fmt.Sprintf("%s has group.Config.TokenBits %d, and the coordinator, %s, %d; want the same at all members", h.ID, h.Bits, g.id, mine.Bits)
	case h.Control:
		return ""
	case !who.is(h.ID) && who.id == "":
		return fmt.Sprintf("the id of the member is %q, and it shows no member's certificate; want that of %s", h.ID, h.ID)
	case !who.is(h.ID):
		return fmt.Sprintf("the id of the member is %q, and it shows the certificate of %s; want that of %s", h.ID, who.id, h.ID)
	case driver.CheckID(h.ID) != nil:
		return driver.CheckID(h.ID).Error()
	case h.Keys != 0 && mine.Keys != 0 && (h.Keys != mine.Keys || h.Digest != mine.Digest):
		return fmt.Sprintf("%s knows %d shards with the digest %016x, and the coordinator, %s, %d with %016x; want the same group.Config.Keys at all members",
			h.ID, h.Keys, h.Digest, g.id, mine.Keys, mine.Digest)
	}
	return ""
}

// yields has the coordinator of this process give way, during its cover, to members that have keys and do not fit (G14).
// It reports false if they are to be refused: its cover is over.
func (g *Group) yields(refused string) bool {
	g.mu.Lock()
	c := g.coordinator
	g.mu.Unlock()
	if c == nil {
		return true // it may be elected already, and not begun
	}
	covered := make(chan bool, 1)
	c.put(arrival{do: func() {
		if covered <- c.machine.Covered(); !c.machine.Covered() && c.resigned == "" {
			c.resigned, c.aside = machine.Misfit+": "+refused, c.machine.GivesWay()
		}
	}})
	select {
	case is := <-covered:
		return !is
	case <-c.over:
		return true
	}
}

// coordinates reports whether the coordinator is in this process.
func (g *Group) coordinates() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.coordinator != nil
}

func (g *Group) hello() *wire.Hello {
	at := g.addr
	if g.cfg.Observer {
		at = ""
	}
	v := g.member.seen.Load()
	return &wire.Hello{
		Addr: at, Admitted: v != nil && v.Admitted && v.Proven(g.env.now()),
		Version: wire.Version, Group: g.cfg.Name, ID: g.id, Keys: uint64(len(g.shards)), Digest: g.digest,
		Bits: uint64(g.settings.Bits),
	}
}

// admissible says what is wrong with the keys that a member wants.
func (g *Group) admissible(wants []machine.Want) error {
	next := 0 // most members want all shards, and say so in order
	for i := range wants {
		if next < len(g.shards) && g.shards[next] == string(wants[i].Key) {
			next++
			continue
		}
		if err := driver.CheckName(string(wants[i].Key)); err != nil {
			return err
		}
	}
	return nil
}

// holder is the member that a verified certificate names.
func holder(state tls.ConnectionState) (string, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errors.New("no certificate was shown; want one that names the member")
	}
	return named(state.PeerCertificates[0])
}

func named(cert *x509.Certificate) (string, error) {
	for _, u := range cert.URIs {
		if u.Scheme == "elect" {
			return strings.TrimPrefix(u.Path, "/"), nil
		}
	}
	if cert.Subject.CommonName != "" {
		return cert.Subject.CommonName, nil
	}
	return "", errors.New("the certificate names no member; want a URI elect://CLUSTER/ID, or a common name")
}
