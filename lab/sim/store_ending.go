package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// ending is a register whose record the server ends: a key with a time to live, or a lock that belongs to a session. It
// knows the writer by the nonce in the record, as a script does that looks whose the key is: a Write or Delete with the
// nonce of the record has the right version. Only the key refuses to be taken twice.
type ending struct {
	register
	// sessions: the record ends with the writer's connection, and its Duration is how long the server waits for a
	// client that it does not reach. Otherwise the record ends when its Duration is over by the server's clock, and
	// one without a Duration does not end.
	sessions bool
	life     uint32 // of the process that wrote it
}

func (e *ending) apply(s *store, w *World, p *parcel) bool {
	if e.sessions && (p.lapsed || !alive(w, p)) {
		return false // its connection is closed
	}
	cur, a := e.now(), &p.ask
	if cur.version != 0 && a.Record.Nonce == cur.record.Nonce && (e.sessions || a.Version != 0) {
		a.Version = cur.version
	}
	was := e.count
	heard := e.register.apply(s, w, p)
	if e.count != was {
		e.life = p.life
		e.arm(s, w)
	}
	return heard
}

// arm schedules the end of the record.
func (e *ending) arm(s *store, w *World) {
	if g := e.now(); !e.sessions && g.version != 0 && g.record.Duration > 0 {
		s.then(w, time.Duration(e.due(s, g)-w.Now()), stepCheck, none)
	}
}

// due is when a record with a Duration ends.
func (e *ending) due(s *store, g *generation) Time {
	return s.trueAt(s.clock(g.at) + g.record.Duration)
}

// event ends a record whose time is over, or whose writer (the node id of a session) the server has not reached for
// long enough.
func (e *ending) event(w *World, s *store, step storeStep, id int32) {
	g := e.now()
	switch {
	case step != stepCheck || g.version == 0:
	case !e.sessions && g.record.Duration > 0 && w.Now() >= e.due(s, g):
		e.put(s, w, 0, protocol.Record{})
	case e.sessions && id != none && s.routes[id].down > 0:
		e.expire(s, w, s.routes[id].id)
	}
}

// expire ends the record of that participant: its session was ended, or the server's clock was set.
func (e *ending) expire(s *store, w *World, id protocol.NodeID) {
	if g := e.now(); g.version != 0 && g.record.Holder == id {
		e.put(s, w, 0, protocol.Record{})
	}
}

func (e *ending) cut(s *store, w *World, node int32) {
	if g := e.now(); e.sessions && g.version != 0 && g.record.Holder == s.routes[node].id {
		s.then(w, g.record.Duration, stepCheck, node)
	}
}

// joined finds out about a process that has died out of reach.
func (e *ending) joined(s *store, w *World, node int32) {
	if n := w.nodes[node]; e.sessions && (!n.up || n.life != e.life) {
		e.expire(s, w, n.id)
	}
}

// died closes the connections of a process.
func (e *ending) died(s *store, w *World, node int32, _ uint32) {
	if e.sessions && s.routes[node].down == 0 {
		e.expire(s, w, s.routes[node].id)
	}
}

func (e *ending) failover(s *store, w *World, count int) {
	e.register.failover(s, w, count)
	e.arm(s, w)
}

func (e *ending) appendState(dst []byte) []byte {
	return protocol.AppendUint(e.register.appendState(dst), uint64(e.life))
}

func (e *ending) clone() server {
	c := *e
	return &c
}
