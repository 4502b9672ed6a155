package sim

import (
	"math/bits"
	"time"

	"github.com/electd/elect/internal/protocol"
)

const (
	// missedLook and vacantLook are how often a request that waits for a leader of the store checks
	// again: while the leader may return at any time, and while no server can lead.
	missedLook = 10 * time.Millisecond
	vacantLook = 100 * time.Millisecond
)

// servers are those of a store that is replicated on the computers of the voters or candidates: one
// beside each of them. A server is down while the process beside it is dead or frozen, or its disk
// fails, and for good once that was lost; its links are cut when the participant's are. One of them
// leads.
type servers struct {
	leader int
	life   uint32 // of the process beside it, when it was elected; 0: not begun

	// missing: the leader is down or cut off. If it returns before gone, it leads on. At ends
	// another one does, any that can then; vacant: none could.
	missing    bool
	orphaned   bool // the servers have noticed that it is gone
	vacant     bool
	gone, ends Time
	was        Time // the store's serving, had it not been missed

	// old is the last leader that was cut off while it ran. Until alone it believes that it leads.
	// Stay are the participants that go on talking to it although they reach others.
	old     int
	oldLife uint32
	alone   Time
	stay    uint64 // by place

	down     uint64 // by place
	away     uint64 // participants that cannot reach the store, by place
	reshaped bool   // links were cut or restored since the last check
}

// replicate is called after every event of a world whose store is replicated.
func (w *World) replicate() {
	v := &w.servers
	s, ok := w.store.(*store)
	if !ok {
		return
	}
	if s.healed { // healed participants reach the store, and others are cut off for good
		if v.alone = 0; v.missing && w.now >= v.ends {
			v.missing, v.vacant = false, false
			s.server.leads(s, w)
		}
		return
	}
	var down uint64
	for i, n := range w.nodes[:w.schedule.Nodes] {
		if !n.up && n.life > 0 || n.frozen || n.disk.failing > 0 || n.disk.full > 0 || n.wipes > 0 {
			down |= 1 << i
		}
	}
	leader := w.nodes[v.leader]
	if v.life == 0 {
		v.life = leader.life
	}
	due := v.missing && !v.vacant && (w.now >= v.ends || !v.orphaned && w.now >= v.gone)
	if down == v.down && !v.reshaped && leader.life == v.life && !due {
		return
	}
	v.down, v.reshaped = down, false
	if v.alone > w.now && w.leadsStore(v.old) {
		v.alone = 0 // it learns of its successor, or leads on
	}
	w.lead(s)
	for i := range w.width {
		away := v.vacant || !w.reachesStore(i)
		if was := v.away>>i&1 == 1; away == was {
			continue
		}
		v.away ^= 1 << i
		for k, n := range w.nodes { // twins are on the same computer
			switch {
			case n.base != i:
			case away:
				s.cut(w, int32(k))
			default:
				s.uncut(w, int32(k))
			}
		}
	}
}

// lead determines whether the store is led. The next leader is chosen when the election ends, so
// that a fault before that neither shortens nor prolongs it.
func (w *World) lead(s *store) {
	v := &w.servers
	able := w.leadsStore(v.leader) && w.nodes[v.leader].life == v.life
	switch {
	case !v.missing && able:
		return
	case !v.missing:
		w.miss(s)
	case able && w.now < v.gone:
		v.missing = false
		if s.serving == v.ends {
			s.serving = max(v.was, w.now)
		}
		return
	}
	if w.now < v.gone {
		return
	}
	if !v.orphaned {
		v.orphaned = true
		if z, ok := s.server.(*zookeeper); ok {
			z.hangUpAll(s, w)
		}
		s.closeWatches(w, func(*watch) bool { return true })
	}
	if w.now < v.ends {
		return
	}
	for k := range w.schedule.Nodes {
		successor := (v.leader + 1 + k) % w.schedule.Nodes
		if !w.leadsStore(successor) {
			continue
		}
		if v.vacant {
			v.vacant = false
			w.ends(s, s.server.elects(s, etcdElection))
			return
		}
		v.leader, v.life, v.missing = successor, w.nodes[successor].life, false
		s.server.leads(s, w)
		return
	}
	v.vacant = true
}

// miss handles a leader that goes down or is cut off. etcd's servers stand when they have missed it
// for the first election timeout among them, and follow it if it returns before. ZooKeeper's give
// it up after a time, and then elect; when it dies their connections end, and they need not wait.
func (w *World) miss(s *store) {
	v := &w.servers
	v.missing, v.orphaned, v.was, v.gone = true, false, s.serving, w.now
	if leader := w.nodes[v.leader]; !leader.up || leader.life != v.life {
		w.ends(s, s.server.elects(s, 0))
		return
	}
	switch d := s.server.(type) {
	case *zookeeper:
		v.gone += Time(etcdElection)
		s.then(w, etcdElection, stepMissed, 0)
		w.ends(s, etcdElection+d.elects(s, etcdElection))
		return
	case *etcd:
		if v.down>>v.leader&1 == 0 {
			v.old, v.oldLife, v.alone, v.stay = v.leader, v.life, w.now+Time(d.stands(s)), s.random.Uint64()
		}
	}
	w.ends(s, s.server.elects(s, 0))
	v.gone = v.ends
}

// ends gives the store a leader again after that time.
func (w *World) ends(s *store, after time.Duration) {
	w.servers.ends = w.now + Time(after)
	s.serving = max(s.serving, w.servers.ends)
	s.then(w, after, stepMissed, 0)
}

// look is when a request that waits for a leader of the store checks again.
func (s *store) look(w *World) Time {
	switch v := &w.servers; {
	case v.vacant:
		return w.now + Time(vacantLook)
	case v.missing && w.now < v.gone:
		return min(s.serving, w.now+Time(missedLook))
	}
	return s.serving
}

// alone reports whether a request is answered by a leader of the store that is cut off, and is or
// was the leader as far as it knows.
func (s *store) alone(w *World, p *parcel) bool {
	return s.noise.Replicated && p.ask.Op == protocol.KeepAlive && w.keeps(p.node)
}

// keeps reports whether a participant talks to such a leader: it runs, and can be reached. A
// participant that reaches no other server does, and some of the others.
func (w *World) keeps(node int32) bool {
	v := &w.servers
	i, old := w.nodes[node].base, w.nodes[v.old]
	return v.alone > w.now && old.life == v.oldLife && w.linked(i, v.old) && (v.away|v.stay)>>i&1 == 1
}

// linked reports whether a participant and the server beside another one, or beside itself, can
// talk both ways, and that server runs.
func (w *World) linked(i, k int) bool {
	return w.servers.down>>k&1 == 0 && !w.shapes[i*w.width+k].dead() && !w.shapes[k*w.width+i].dead()
}

// reachesStore reports whether a participant reaches a majority of the servers, both ways.
func (w *World) reachesStore(i int) bool {
	var seen uint64
	for k := range w.schedule.Nodes {
		if w.linked(i, k) {
			seen |= 1 << k
		}
	}
	return bits.OnesCount64(seen) > w.schedule.Nodes/2
}

// reachesServer reports whether it reaches one of them, both ways.
func (w *World) reachesServer(i int) bool {
	for k := range w.schedule.Nodes {
		if w.linked(i, k) {
			return true
		}
	}
	return false
}

// leadsStore reports whether the server beside a participant can lead the store.
func (w *World) leadsStore(i int) bool {
	return w.servers.down>>i&1 == 0 && w.reachesStore(i)
}

// dead reports whether a link transmits nothing.
func (s *shape) dead() bool { return s.cut || s.clogged || s.loss >= odds(1) }
