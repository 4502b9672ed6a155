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

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// Link is the connections of one host with other hosts. They serve all its elections. Make it with [Listen].
type Link struct {
	cfg     HostConfig
	log     *slog.Logger
	ctx     context.Context // ended by Close
	cancel  context.CancelFunc
	work    sync.WaitGroup
	begun   time.Time
	strange limiter      // for lines about strangers
	signed  atomic.Int64 // when signs of life were last checked
	least   atomic.Int64 // the least HostConfig.Idle, with those of the elections

	mu        sync.Mutex
	elections map[string]*Election
	peers     map[protocol.NodeID]*peer
	live      map[*conn]struct{} // complete ones, until they have ended
	started   bool
	closing   bool
	guests    []*guest // accepted, and not yet known
	accepted  int
	clients   int
	streams   int
	callers   map[*guestCalls]struct{} // the clients
	witnesses map[protocol.NodeID]int
}

// peer is another host and the connections with it.
type peer struct {
	id   protocol.NodeID
	wake chan struct{} // wakes the dialler
	gone atomic.Bool   // no election has it any more

	lastHeard atomic.Int64

	// Guarded by the Link's lock:
	addrs   []string           // to dial, in turn; none: it is not dialled
	turn    int                // the index of the address
	dialled bool               // it has a dialler
	stop    context.CancelFunc // of the dialler
	ctx     context.Context    // of the dialler; ended by stop and by Close
	passing bool               // it is in no election's Peers
	conns   []*conn            // the newest last
	closed  uint64             // the life that has closed one of several connections
	former  *process           // that of the last connection, if it may be alive; nil while there is a connection
	calling int                // the number of handshakes that it has begun
	renewed bool               // its connection is being made anew
	lasted  bool               // a connection has lasted since the dialler's last check
	from    string             // the address from which it calls
	program string
	err     error
	home    netip.Addr            // where it was dialled with success, or is configured to be
	calls   netip.Addr            // the address from which it called
	met     bool                  // there has been a connection
	located bool                  // it was found at its address, or is being looked for there
	told    map[string]slog.Level // the failures logged since the last connection
}

// Listen accepts connections until Close, and dials those that elections want. It owns cfg.Listener.
func Listen(cfg HostConfig) *Link {
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
		cfg: cfg, log: cfg.Logger, begun: time.Now(), elections: make(map[string]*Election),
		peers: make(map[protocol.NodeID]*peer), live: make(map[*conn]struct{}), witnesses: make(map[protocol.NodeID]int), callers: make(map[*guestCalls]struct{}),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.least.Store(int64(cfg.Idle))
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// start begins to accept.
func (l *Link) start() {
	if l.cfg.Listener != nil {
		l.work.Go(l.accept)
	}
	l.work.Go(l.keepSigning)
	if l.cfg.TLS != nil {
		l.work.Go(l.watchIdentity)
	}
}

// idle is the time after which a connection that takes nothing is dropped.
func (l *Link) idle() time.Duration { return time.Duration(l.least.Load()) }

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// Close writes what is queued, for a quarter of a second at most, closes all connections and waits for all
// goroutines. Until it returns, callbacks of elections that are still open may run.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closing = true
	for _, e := range l.elections {
		e.cancel()
	}
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

// self is this side's present Hello.
func (l *Link) self() *wire.Hello {
	h := l.cfg.Hello
	return &h
}

// duplicate returns a refusal if another process with h's id is connected, or else nil.
func (l *Link) duplicate(h *wire.Hello) *wire.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.twin(l.peers[h.ID], h)
}

// twin is duplicate with the lock held.
func (l *Link) twin(p *peer, h *wire.Hello) *wire.Refusal {
	if p == nil {
		return nil
	}
	for _, o := range p.conns {
		if o.proc.life != h.Life && o.admitted() && (o.proc.dir != h.Dir || h.Starts <= o.proc.starts) {
			return &wire.Refusal{Code: wire.CodeDuplicate, Says: "another process with id " + string(p.id) + " is connected, from " + o.addr() +
				"; two processes use one id, or copies of one data directory"}
		}
	}
	return nil
}

// admitted reports whether an election has admitted the other process, or is about to decide. The lock is held. A
// process that none has admitted keeps no other one out: it may have a directory that is not the node's.
func (c *conn) admitted() bool {
	for _, n := range c.entries {
		if n.open || n.admitted || n.deciding {
			return true
		}
	}
	return false
}

// join makes a complete connection count, by the rules of the package's documentation, and enters the elections on
// it. It returns a refusal for the other side.
func (l *Link) join(c *conn, h *wire.Hello) *wire.Refusal {
	var abort, tell []*conn
	_ = c.raw.SetDeadline(time.Time{})
	c.out.loosen()
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return &wire.Refusal{Code: wire.CodeBusy, Says: string(l.cfg.Hello.ID) + " is about to end"}
	}
	p := l.peers[h.ID]
	if p == nil { // it may belong to an election of which this side does not know yet
		p = l.addPeer(h.ID)
		p.passing = true
	}
	c.peer = p
	if r := l.twin(p, h); r != nil {
		l.mu.Unlock()
		return r
	}
	var ended []*process
	switch {
	case p.former == nil:
	case p.former.life == c.proc.life:
		c.proc = p.former
	default:
		ended = append(ended, p.former)
	}
	p.former, p.closed = nil, 0
	older := false
	keep := p.conns[:0:0]
	for _, o := range p.conns {
		if o.proc.life == c.proc.life {
			c.proc = o.proc
		}
		switch {
		case o.proc.life != c.proc.life:
			abort = append(abort, o)
			ended = append(ended, o.proc)
			l.unsend(o)
		case o.dialled == c.dialled && !c.dialled: // once the elections are open on c
			older = true
			keep = append(keep, o)
		case o.dialled == c.dialled: // the other side closes it, once c counts there
			o.replaced = true
			keep = append(keep, o)
		case l.cfg.Hello.ID.Compare(p.id) < 0:
			tell = append(tell, o)
			l.unsend(o)
		default:
			keep = append(keep, o)
		}
	}
	p.conns = append(keep, c)
	c.level = slog.LevelInfo // the end of a logged problem is logged
	for _, told := range p.told {
		c.level = max(c.level, told)
	}
	p.program, p.from, p.err, p.met, p.told = h.Program, c.addr(), nil, true, nil
	if !c.dialled {
		p.calls = ipOf(c.raw.RemoteAddr())
	}
	l.live[c] = struct{}{}
	locate := !c.dialled && !p.located && len(p.addrs) > 0
	p.located = true
	for _, e := range l.elections {
		if m := e.members[p.id]; m != nil && m.listed {
			l.enter(c.entry(e, m), false)
		}
	}
	outgrown := l.outgrown(p)
	if p.passing {
		l.reap(p)
	}
	l.mu.Unlock()

	l.heard(p)
	l.work.Go(c.write)
	if locate {
		l.work.Go(func() { l.locate(p) })
	}
	p.look()
	for _, o := range append(abort, outgrown...) {
		o.abort()
	}
	if older && len(outgrown) == 0 {
		time.AfterFunc(max(l.idle(), steady), func() { l.replace(p, c) })
	}
	for _, o := range tell {
		o.finish(&wire.Frame{Refusal: &wire.Refusal{Code: wire.CodeDuplicate, Says: string(l.cfg.Hello.ID) + " keeps another connection of the two"}},
			max(l.idle(), steady))
	}
	for _, proc := range ended {
		l.died(p.id, proc)
	}
	return nil
}

// outgrown returns the connections that the other side has dialled and replaced by a newer one, on which all
// elections are now open. The lock is held.
func (l *Link) outgrown(p *peer) (all []*conn) {
	for i, o := range p.conns {
		for _, c := range p.conns[i+1:] {
			if o.dialled || c.dialled || o.proc != c.proc {
				continue
			}
			open := true
			for e, n := range o.entries {
				open = open && (!n.open || c.entries[e] != nil && c.entries[e].open)
			}
			if open {
				all = append(all, o)
				break
			}
		}
	}
	return all
}

// replace ends the connections that c, dialled by the other side, replaces, if they have not ended by now.
func (l *Link) replace(p *peer, c *conn) {
	var all []*conn
	l.mu.Lock()
	if i := slices.Index(p.conns, c); i > 0 {
		all = slices.DeleteFunc(slices.Clone(p.conns[:i]), func(o *conn) bool { return o.dialled || o.proc != c.proc })
	}
	l.mu.Unlock()
	for _, o := range all {
		o.abort()
	}
}

// died tells the elections of a process that it has ended.
func (l *Link) died(id protocol.NodeID, proc *process) {
	type part struct {
		e           *Election
		incarnation uint64
	}
	var all []part
	l.mu.Lock()
	for e, incarnation := range proc.parts {
		if e.beginLocked() {
			all = append(all, part{e, incarnation.Load()})
		}
	}
	proc.parts = nil
	l.mu.Unlock()
	for _, p := range all {
		p.e.cfg.Closed(id, p.incarnation)
		p.e.busy.Done()
	}
}

// refusedBy tells the elections that want a connection that it was refused.
func (l *Link) refusedBy(id protocol.NodeID, r *wire.Refusal) {
	var all []*Election
	l.mu.Lock()
	for _, e := range l.elections {
		if m := e.members[id]; m != nil && m.listed && e.beginLocked() {
			all = append(all, e)
		}
	}
	l.mu.Unlock()
	for _, e := range all {
		e.cfg.Refused(id, r)
		e.busy.Done()
	}
}

// look wakes the dialler.
func (p *peer) look() {
	select {
	case p.wake <- struct{}{}: // nil, and never ready, without a dialler
	default:
	}
}

// leave stops using a connection. It reports whether that was the last one that counted with its process, and whether
// the process has ended as far as this side can tell. byThem says that the other side has closed it, gaveWay that the
// other side keeps a newer one.
func (l *Link) leave(c *conn, byThem, gaveWay bool) (last, ended bool) {
	l.mu.Lock()
	p := c.peer
	if i := slices.Index(p.conns, c); i >= 0 {
		p.conns = slices.Delete(p.conns, i, i+1)
		last = !slices.ContainsFunc(p.conns, func(o *conn) bool { return o.proc == c.proc })
		p.lasted = p.lasted || time.Since(c.since) >= steady
		ended = last && (byThem || gaveWay && p.closed == c.proc.life) // the newer one has ended before this was read
		switch {
		case byThem && !last && !c.replaced:
			p.closed = c.proc.life
		case last && !ended && len(p.conns) == 0: // the newer one may not be complete here yet
			p.former = c.proc
		}
	}
	l.unsend(c)
	if p.passing && len(p.conns) == 0 && l.peers[p.id] == p {
		l.drop(p)
	}
	l.mu.Unlock()
	p.look()
	return last, ended
}

// yield stops using a connection because the other side keeps a newer one.
func (l *Link) yield(c *conn) {
	_, ended := l.leave(c, false, true)
	c.finish(nil, l.cfg.Idle)
	if ended {
		l.died(c.peer.id, c.proc)
	}
}

// run reads a connection to its end, and reports the consequences.
func (l *Link) run(c *conn) {
	byThem, err := c.endedByThem(c.read())
	last, ended := l.leave(c, byThem, false)
	l.forget(c, byThem, err)
	if ended {
		l.died(c.peer.id, c.proc)
	}
	_, broken := errors.AsType[net.Error](err)
	if _, refused := errors.AsType[*wire.Refusal](err); last && !byThem && !broken && !refused {
		// A plain close would look like the death of this process.
		_ = c.raw.SetDeadline(time.Now().Add(flushTime))
		<-c.done
		c.refuse(&wire.Refusal{Code: wire.CodeFrame, Says: err.Error()})
	}
	_ = c.raw.Close()
	<-c.done
	l.mu.Lock()
	delete(l.live, c)
	if last {
		c.peer.err = err
	}
	l.mu.Unlock()
}
