package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

const (
	// zkTick is the server's unit of time: sessions expire at multiples of it, and every half of it
	// followers tell the leader which clients were heard.
	zkTick = 100 * time.Millisecond
	// zkSync is how long a server that has lost its leader goes on answering its clients (syncLimit
	// ticks).
	zkSync = 100 * zkTick
	// zkLongest is the longest session; a longer one is shortened silently: maxSessionTimeout, 20
	// ticks of 2 s by default.
	zkLongest = 40 * time.Second
)

// zookeeper is a store in which each client talks to one of several servers. Writes go through the
// leader. That server alone answers reads and pings, from a state that may lag, but never behind
// what this client has already seen. The leader times the sessions. A server that is cut off from
// its leader answers reads and pings for a while, so that a client may believe in an expired
// session.
type zookeeper struct {
	queue
	epoch uint64 // of the leader: the upper half of a zxid
}

func (z *zookeeper) apply(s *store, w *World, p *parcel) bool {
	z.forget()
	path := &s.routes[p.node]
	a, ask := &p.answer, &p.ask
	if path.down > 0 {
		// Its server is alone.
		switch ask.Op {
		case protocol.List, protocol.Verify, protocol.WatchEntry, protocol.KeepAlive:
			a.Session = ask.Session
			z.read(s, w, p, max(path.stood, z.first))
			return true
		}
		return false
	}
	if ask.Op == protocol.OpenSession {
		z.openSession(s, w, p)
		return true
	}
	y := z.live(ask.Session)
	if old := z.session(ask.Session); y == nil && old != nil && old.replaces && old.node == p.node && old.life == p.life && ask.Op != protocol.CloseSession {
		// go-zookeeper opens another session by itself, and goes on.
		if y = z.successor(old.client); y == nil {
			client := old.client
			y = z.fresh(s, w, p, old.ttl, true)
			y.client = client
		}
	}
	if y == nil {
		if old := z.session(ask.Session); old != nil && ask.Op == protocol.CloseSession {
			z.hangUp(s, w, old.client)
		}
		a.Status, a.Session = protocol.StatusGone, ask.Session
		return true
	}
	a.Session = y.id
	y.expiry = max(y.expiry, z.bucket(s.clock(w.Now())+y.ttl))
	switch ask.Op {
	case protocol.List, protocol.Verify, protocol.WatchEntry, protocol.KeepAlive:
		view := max(path.view, z.before(w.Now(), p.lag))
		z.read(s, w, p, view)
		z.shown(path, p, view)
		return true
	}
	// A server refuses late requests from a connection that the session has left (SessionMoved):
	// the client has been heard since.
	if p.late && y.written > ask.Number {
		return false
	}
	y.written = max(y.written, ask.Number)
	a.Status = protocol.StatusGone
	if z.write(s, w, p, y) {
		a.Status = protocol.StatusDone
	}
	a.Revision = z.rev
	z.shown(path, p, z.tx)
	return true
}

// shown records a state that a client has seen. A client that has lost an answer has lost its
// connection, and goes on with a server that knows what it has seen.
func (z *zookeeper) shown(path *route, p *parcel, view uint64) {
	if !p.unknown {
		path.view = max(path.view, view)
	}
}

// read answers from the state after commit view.
func (z *zookeeper) read(s *store, w *World, p *parcel, view uint64) {
	a := &p.answer
	a.Status, a.Revision = protocol.StatusDone, z.log[view%depth].rev
	switch p.ask.Op {
	case protocol.List:
		z.list(p, view)
		// The mark is the parent's data, read after the children.
		if a.Mark = z.mark(view); s.routes[p.node].down == 0 {
			a.Mark = z.mark(max(view, z.before(w.Now(), p.lag/2)))
		}
	case protocol.Verify:
		a.Mark = z.mark(view)
		if !z.verify(p, a.Session, view) {
			a.Status = protocol.StatusGone
		}
	case protocol.WatchEntry:
		a.Status = 0
		z.watchEntry(s, w, p, view)
	case protocol.KeepAlive:
		if y := z.session(p.ask.Session); y != nil {
			a.TTL = y.ttl
		}
	}
}

// write carries out requests that go through the leader.
func (z *zookeeper) write(s *store, w *World, p *parcel, y *session) bool {
	ask := &p.ask
	switch ask.Op {
	case protocol.CloseSession:
		z.hangUp(s, w, y.client)
		return true
	case protocol.Enter: // a sequential node: a new one each time
		id := y.id
		z.commit(w, true)
		z.enter(p, id, s.routes[p.node].id)
		return true
	case protocol.Sync:
		z.commit(w, true)
		return true
	case protocol.Touch, protocol.Mark, protocol.Leave:
		if z.find(ask.Entry.Order, z.tx) == nil {
			return false
		}
		z.commit(w, true)
		z.change(s, w, ask)
		return true
	}
	return false
}

func (z *zookeeper) openSession(s *store, w *World, p *parcel) {
	y := z.fresh(s, w, p, min(max(p.ask.TTL, 2*zkTick), zkLongest), !p.unknown && !p.lapsed)
	a := &p.answer
	a.Status, a.Session, a.TTL, a.Revision = protocol.StatusDone, y.id, y.ttl, z.rev
	z.shown(&s.routes[p.node], p, z.tx)
}

// successor is the present session of a client library, if any.
func (z *zookeeper) successor(client uint64) *session {
	for i := range z.sessions {
		if y := &z.sessions[i]; y.client == client && y.closed == 0 {
			return y
		}
	}
	return nil
}

// hangUp ends a client library's connection, and its session: it is told to close one, and opens no
// more.
func (z *zookeeper) hangUp(s *store, w *World, client uint64) {
	for i := range z.sessions {
		if y := &z.sessions[i]; y.client == client {
			y.replaces = false
		}
	}
	if y := z.successor(client); y != nil {
		z.close(s, w, y)
	}
}

// fresh opens a session and makes the client library keep it alive, if it knows of it.
func (z *zookeeper) fresh(s *store, w *World, p *parcel, ttl time.Duration, known bool) *session {
	z.commit(w, true)
	y := z.open(p, ttl)
	y.expiry = z.bucket(s.clock(w.Now()) + ttl)
	y.replaces = p.chance>>62&1 == 1
	if known {
		y.pings = true
		s.then(w, p.back+ttl/3, stepPing, int32(y.id))
	}
	z.watchOut(s, w, y)
	return y
}

// bucket is the multiple of a tick after that time; sessions expire together.
func (z *zookeeper) bucket(d time.Duration) time.Duration { return (d/zkTick + 1) * zkTick }

// close ends a session: its entries are deleted, its watches end.
func (z *zookeeper) close(s *store, w *World, y *session) {
	id, node := y.id, y.node
	z.end(s, w, y, true)
	if s.routes[node].down == 0 {
		s.closeWatches(w, func(t *watch) bool { return t.session == id })
	}
}

func (z *zookeeper) event(w *World, s *store, step storeStep, id int32) {
	switch step {
	case stepCheck:
		y := z.live(uint64(id))
		switch {
		case y == nil:
		case w.Now() < s.serving || w.servers.vacant || s.clock(w.Now()) < y.expiry+s.overtime():
			z.watchOut(s, w, y)
		default:
			z.close(s, w, y)
		}
	case stepPing:
		z.ping(s, w, z.live(uint64(id)))
	case stepLead:
		z.leads(s, w)
	case stepNotice:
		s.notice(w, id)
	}
}

// ping keeps a session alive, as long as the process exists and runs. Its server tells the leader
// within half a tick.
func (z *zookeeper) ping(s *store, w *World, y *session) {
	if y == nil || !y.pings {
		return
	}
	n := w.nodes[y.node]
	if !n.up || n.life != y.life {
		y.pings = false
		return
	}
	path := &s.routes[y.node]
	trip := s.trip(&path.random) + below(path.random.Uint64(), zkTick/2)
	if now := w.Now(); !n.frozen && path.down == 0 && now >= s.serving {
		if heard := s.clock(now + Time(trip)); heard < y.expiry+s.overtime() {
			y.expiry = max(y.expiry, z.bucket(heard+y.ttl))
		}
	}
	s.then(w, max(y.ttl/3, time.Millisecond), stepPing, int32(y.id))
}

func (z *zookeeper) foreign(s *store, w *World, id protocol.NodeID, _ int) { z.hand(s, w, id) }

func (z *zookeeper) expire(s *store, w *World, id protocol.NodeID) {
	for last := z.opened; last > 0; last-- {
		if y := z.live(last); y != nil && (id == "" || s.routes[y.node].id == id) {
			z.close(s, w, y)
		}
	}
}

// failover is an ensemble that has lost acknowledged data. Its next leader begins a new epoch, so
// orders do not repeat.
func (z *zookeeper) failover(s *store, w *World, count int) {
	now := s.clock(w.Now())
	z.back(s, w, count, func(y *session) { y.expiry = z.bucket(now + y.ttl) })
	z.epoch++
	z.rev = z.epoch << 32
}

// elect ends the leader. Until there is another one no server talks to clients, and all connections
// end.
func (z *zookeeper) elect(s *store, w *World) {
	s.serving = max(s.serving, w.Now()+Time(z.elects(s, 0)))
	s.then(w, time.Duration(s.serving-w.Now()), stepLead, 0)
	z.hangUpAll(s, w)
}

func (z *zookeeper) elects(s *store, _ time.Duration) time.Duration {
	return 2*zkTick + below(s.random.Uint64(), 10*zkTick)
}

// leads begins an epoch, and gives all sessions their time again.
func (z *zookeeper) leads(s *store, w *World) {
	z.epoch++
	z.rev = z.epoch << 32
	for i := range z.sessions {
		if y := &z.sessions[i]; y.closed == 0 {
			y.expiry = z.bucket(s.clock(w.Now()) + y.ttl)
		}
	}
}

// hangUpAll ends all connections.
func (z *zookeeper) hangUpAll(s *store, w *World) {
	for i := range s.routes {
		s.then(w, s.noise.Delay, stepNotice, int32(i)<<1|1)
	}
}

// cut handles a participant that loses its server, or whose server loses its leader; then reads and
// pings go on for a while.
func (z *zookeeper) cut(s *store, w *World, node int32) {
	path := &s.routes[node]
	most, there := zkSync, true
	if s.noise.Replicated {
		// Such servers are missed as soon as they miss their leader.
		most, there = etcdElection, w.reachesServer(w.nodes[node].base)
	}
	alone, until := s.random.Uint64(), below(s.random.Uint64(), most)
	path.island = 0
	if alone>>63 == 1 && there {
		path.stood, path.island = z.tx, w.Now()+Time(until)
		s.then(w, until, stepNotice, node<<1)
		return
	}
	ttl := time.Second
	for i := range z.sessions {
		if y := &z.sessions[i]; y.closed == 0 && y.node == node {
			ttl = y.ttl
		}
	}
	s.suspect(w, node, ttl)
}

func (z *zookeeper) joined(*store, *World, int32) {}

// asked: a client library stops keeping a session alive when it has to close it, or the one that it
// has opened in its place.
func (z *zookeeper) asked(p *parcel) {
	if p.ask.Op != protocol.CloseSession {
		return
	}
	if old := z.session(p.ask.Session); old != nil {
		if y := z.successor(old.client); y != nil {
			y.pings = false
		}
	}
}

// died: the next process may come to another server with an older state.
func (z *zookeeper) died(s *store, _ *World, node int32, _ uint32) { s.routes[node].view = 0 }

func (z *zookeeper) clone() server { return &zookeeper{queue: z.queue.clone(), epoch: z.epoch} }

func (z *zookeeper) appendState(dst []byte) []byte {
	return z.queue.appendState(protocol.AppendUint(dst, z.epoch))
}
