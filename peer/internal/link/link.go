package link

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// Link is the connections of one node. Make it with [Start].
type Link struct {
	cfg     Config
	log     *slog.Logger
	ctx     context.Context // ended by Close
	cancel  context.CancelFunc
	work    sync.WaitGroup
	begun   time.Time
	strange limiter      // of lines about strangers
	signed  atomic.Int64 // when signs of life were last thought of

	mu        sync.Mutex
	hello     wire.Hello
	announced *wire.Welcome
	set       uint64 // how often SetPeers was called
	peers     map[protocol.NodeID]*peer
	live      map[*conn]struct{} // complete ones, until they have ended
	closing   bool
	guests    []*guest // accepted, and not known yet
	accepted  int
	clients   int
	callers   map[*guestCalls]struct{} // the clients
	witnesses map[protocol.NodeID]int
}

// peer is a node and the connections with it.
type peer struct {
	id   protocol.NodeID
	wake chan struct{} // the dialler looks again
	gone atomic.Bool   // it was removed: nothing that it says counts

	sent, received, dropped atomic.Uint64
	lastHeard               atomic.Int64

	// Beneath the Link's lock:
	addrs   []string           // to dial, in turn; none: it is not dialled
	turn    int                // which of them
	dialled bool               // it has a dialler
	stop    context.CancelFunc // of the dialler
	ctx     context.Context    // of the dialler; ended by stop and by Close
	passing bool               // it is none of Peers: Admit has let it in all the same
	conns   []*conn            // the newest last: that one is sent on
	closed  uint64             // the life that has closed one of several connections
	calling int                // handshakes that it has begun
	renewed bool               // its connection is being made anew
	lasted  bool               // a connection has lasted since the dialler last looked
	from    string             // where it calls from
	program string
	err     error
	home    netip.Addr            // where it was dialled with success, or is configured to be
	calls   netip.Addr            // where it called from
	met     bool                  // there has been a connection
	located bool                  // it was found at its address, or is looked for there
	told    map[string]slog.Level // the failures that were logged since the last one
}

// Start listens and dials until Close. It takes over cfg.Listener.
func Start(cfg Config) *Link {
	if cfg.Idle <= 0 {
		cfg.Idle = defaultIdle
	}
	if cfg.Look <= 0 {
		cfg.Look = lookTime
	}
	if cfg.Dial == nil {
		cfg.Dial = dialTCP
	}
	if cfg.Hello.Version == 0 {
		cfg.Hello.Version, cfg.Hello.Oldest = wire.Version, wire.Oldest
	}
	l := &Link{
		cfg: cfg, log: cfg.Logger, hello: cfg.Hello, begun: time.Now(),
		peers: make(map[protocol.NodeID]*peer), live: make(map[*conn]struct{}), witnesses: make(map[protocol.NodeID]int), callers: make(map[*guestCalls]struct{}),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.mu.Lock()
	for id, addrs := range cfg.Peers {
		l.add(id, addrs)
	}
	l.mu.Unlock()
	if cfg.Listener != nil {
		l.work.Go(l.accept)
	}
	l.work.Go(l.keepSigning)
	if cfg.TLS != nil {
		l.work.Go(l.watchIdentity)
	}
	return l
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Send queues a letter for a node. It never blocks: without a connection the
// letter is dropped, and where too many wait already the oldest of them. The
// letter is copied; what its message points to must not change.
func (l *Link) Send(to protocol.NodeID, letter *wire.Letter) {
	l.mu.Lock()
	p := l.peers[to]
	var c *conn
	if p != nil && len(p.conns) > 0 {
		c = p.conns[len(p.conns)-1]
	}
	l.mu.Unlock()
	switch {
	case c != nil:
		c.push(letter)
		l.signs(clock.Now())
	case p != nil:
		p.dropped.Add(1)
	}
}

// SetIncarnation changes what Hello says on connections to come. Those there are
// learn it from the letters.
func (l *Link) SetIncarnation(n uint64) {
	l.mu.Lock()
	l.hello.Incarnation = n
	l.mu.Unlock()
}

// Announce says a Welcome again to all nodes that are connected, and to those
// that will be, beside the one that Admit returns.
func (l *Link) Announce(w *wire.Welcome) {
	l.mu.Lock()
	l.announced = w
	var all []*conn
	for _, p := range l.peers {
		all = append(all, p.conns...)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.say(&wire.Frame{Welcome: w})
	}
}

// Peers is how the connections are now, by the order of ids. It asks the kernel
// about each.
func (l *Link) Peers() []PeerInfo {
	l.mu.Lock()
	var all []PeerInfo
	var newest []*conn
	for _, p := range l.peers {
		i := PeerInfo{
			ID: p.id, Addr: p.at(), Connected: len(p.conns) > 0, LastHeard: clock.Boot(p.lastHeard.Load()), Program: p.program,
			Sent: p.sent.Load(), Received: p.received.Load(), Dropped: p.dropped.Load(), Err: p.err,
		}
		if i.Addr == "" {
			i.Addr = p.from
		}
		var c *conn
		if i.Connected {
			i.Err = nil
			c = p.conns[len(p.conns)-1]
			i.Speaks = c.speaks
		}
		all, newest = append(all, i), append(newest, c)
	}
	l.mu.Unlock()
	for n, c := range newest {
		if c != nil {
			all[n].RTT, all[n].Retransmits = measure(c.raw)
		}
	}
	slices.SortFunc(all, func(a, b PeerInfo) int { return a.ID.Compare(b.ID) })
	return all
}

// Close writes what is queued, for a quarter of a second at most, closes all
// connections and waits until nothing runs any more. Callbacks may still be
// called until it returns.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closing = true
	var all []*conn
	for c := range l.live {
		all = append(all, c)
	}
	l.mu.Unlock()
	l.cancel()
	var err error
	if l.cfg.Listener != nil {
		if err = l.cfg.Listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
	}
	for _, c := range all {
		c.finish(nil, flushTime)
	}
	l.work.Wait()
	return err
}

// self is what this side says now.
func (l *Link) self() *wire.Hello {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hello
	return &h
}

// duplicate says that another process with h's id is connected, or nil.
func (l *Link) duplicate(h *wire.Hello) *wire.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.twin(l.peers[h.ID], h.Life, h.Incarnation)
}

// twin is duplicate beneath the lock.
func (l *Link) twin(p *peer, life, incarnation uint64) *wire.Refusal {
	if p == nil {
		return nil
	}
	for _, o := range p.conns {
		if o.life != life && incarnation <= o.incarnation.Load() {
			return &wire.Refusal{Code: wire.CodeDuplicate, Says: "another process with id " + string(p.id) + " is connected, from " + o.addr() +
				"; two processes use one id, or copies of one data directory"}
		}
	}
	return nil
}

// join makes a complete connection count, by the rules of the package's
// documentation. set is that of before Admit was asked. A refusal is for the other
// side.
func (l *Link) join(c *conn, h *wire.Hello, set uint64) *wire.Refusal {
	var abort, tell []*conn
	_ = c.raw.SetDeadline(time.Time{})
	c.out.loosen()
	l.mu.Lock()
	for l.set != set { // who takes part has changed since Admit was asked
		set = l.set
		l.mu.Unlock()
		if _, r := l.admit(h); r != nil {
			return r
		}
		l.mu.Lock()
	}
	if l.closing {
		l.mu.Unlock()
		return &wire.Refusal{Code: wire.CodeBusy, Says: string(l.cfg.Hello.ID) + " is about to end"}
	}
	p := l.peers[h.ID]
	if p == nil { // Admit knows it, or knows why
		p = l.add(h.ID, nil)
		p.passing = true
	}
	c.peer = p
	if r := l.twin(p, h.Life, h.Incarnation); r != nil {
		l.mu.Unlock()
		return r
	}
	var gone []uint64
	keep := p.conns[:0:0]
	for _, o := range p.conns {
		if o.life == c.life {
			raise(o.incarnation, h.Incarnation)
			c.incarnation = o.incarnation
		}
		switch {
		case o.life != c.life:
			abort = append(abort, o)
			gone = append(gone, o.incarnation.Load())
		case o.dialled == c.dialled && !c.dialled:
			abort = append(abort, o)
		case o.dialled == c.dialled: // the other side closes it, once c counts there
			o.replaced = true
			keep = append(keep, o)
		case l.cfg.Hello.ID.Compare(p.id) < 0:
			tell = append(tell, o)
		default:
			keep = append(keep, o)
		}
	}
	p.conns = append(keep, c)
	level := slog.LevelInfo // of the line below: whoever read of trouble reads of its end
	for _, told := range p.told {
		level = max(level, told)
	}
	p.program, p.from, p.err, p.met, p.told = h.Program, c.addr(), nil, true, nil
	if !c.dialled {
		p.calls = ipOf(c.raw.RemoteAddr())
	}
	l.live[c] = struct{}{}
	locate := !c.dialled && !p.located && len(p.addrs) > 0
	p.located = true
	announced := l.announced
	l.mu.Unlock()

	l.heard(p)
	if announced != nil {
		c.say(&wire.Frame{Welcome: announced})
	}
	l.work.Go(c.write)
	if locate {
		l.work.Go(func() { l.locate(p) })
	}
	p.look()
	for _, o := range abort {
		o.abort()
	}
	for _, o := range tell {
		o.finish(&wire.Frame{Refusal: &wire.Refusal{Code: wire.CodeDuplicate, Says: string(l.cfg.Hello.ID) + " keeps another connection of the two"}},
			max(l.cfg.Idle, steady))
	}
	for _, n := range gone {
		l.cfg.Closed(p.id, n)
	}
	l.log.Log(l.ctx, level, "connected", "peer", p.id, "addr", c.addr(), "dialled", c.dialled, "program", h.Program)
	return nil
}

// look has the dialler look again.
func (p *peer) look() {
	select {
	case p.wake <- struct{}{}: // nil, and never ready, where nobody dials
	default:
	}
}

// leave has a connection count no more, and reports whether it was the last one
// with its incarnation, and counted.
func (l *Link) leave(c *conn, byThem bool) (last bool) {
	l.mu.Lock()
	p := c.peer
	if i := slices.Index(p.conns, c); i >= 0 {
		p.conns = slices.Delete(p.conns, i, i+1)
		last = !slices.ContainsFunc(p.conns, func(o *conn) bool { return o.life == c.life })
		p.lasted = p.lasted || time.Since(c.since) >= steady
		if byThem && !last && !c.replaced {
			p.closed = c.life
		}
	}
	if p.passing && len(p.conns) == 0 && l.peers[p.id] == p {
		l.drop(p)
	}
	l.mu.Unlock()
	p.look()
	return last
}

// yield has a connection count no more because the other side wants it so: it
// keeps a newer one, unless that has come to its end before this was read.
func (l *Link) yield(c *conn) {
	last := l.leave(c, false)
	l.mu.Lock()
	over := last && c.peer.closed == c.life
	l.mu.Unlock()
	c.finish(nil, l.cfg.Idle)
	if over {
		l.cfg.Closed(c.peer.id, c.incarnation.Load())
	}
}

// run reads a connection to its end, and tells what that means.
func (l *Link) run(c *conn) {
	byThem, err := c.endedByThem(c.read())
	last := l.leave(c, byThem)
	if last && byThem {
		l.cfg.Closed(c.peer.id, c.incarnation.Load())
	}
	_, broken := errors.AsType[net.Error](err)
	if _, refused := errors.AsType[*wire.Refusal](err); last && !byThem && !broken && !refused {
		// A plain close would look like this process's death.
		_ = c.raw.SetDeadline(time.Now().Add(flushTime))
		<-c.done
		c.refuse(&wire.Refusal{Code: wire.CodeFrame, Says: err.Error()})
	}
	_ = c.raw.Close()
	<-c.done
	l.mu.Lock()
	delete(l.live, c)
	closing := l.closing
	if last {
		c.peer.err = err
	}
	l.mu.Unlock()
	if last && !closing {
		l.log.Info("disconnected", "peer", c.peer.id, "addr", c.addr(), "closed_by_it", byThem, "cause", err)
	}
}
