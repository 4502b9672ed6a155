package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// depth is how many changes a store keeps: for lagging reads, and for the changes that a failover
// loses.
const depth = 64

// register is a store with one record and compare-and-set: a Kubernetes Lease, a row, a key of
// Consul or NATS, an object with If-Match. Reads are linearizable; watches lag. It has no sessions
// and no clock.
type register struct {
	last    uint64            // the last version given out; it repeats after a rollback only
	history [depth]generation // of the record; now is history[count%depth]
	count   uint64
	first   uint64 // the oldest generation that is kept
}

// generation is the record from some time on.
type generation struct {
	at      Time
	version uint64 // 0: there was none
	record  protocol.Record
}

func newRegister() *register { return &register{} }

func (r *register) now() *generation { return &r.history[r.count%depth] }

// before is the record as it was d before t, as far back as is kept.
func (r *register) before(t Time, d time.Duration) *generation {
	i := r.count
	for i > r.first && r.history[i%depth].at > t-Time(d) {
		i--
	}
	return &r.history[i%depth]
}

func (r *register) apply(s *store, w *World, p *parcel) bool {
	a, cur := &p.answer, r.now()
	switch p.ask.Op {
	case protocol.Read:
		a.Status, a.Version, a.Record = protocol.StatusDone, cur.version, cur.record
	case protocol.Write:
		switch {
		case p.ask.Version != cur.version:
			a.Status = protocol.StatusConflict
		case cur.version != 0 && p.ask.Record == cur.record:
			// Kubernetes and Consul drop a write that changes nothing.
			a.Status, a.Version, a.Record = protocol.StatusDone, cur.version, cur.record
		default:
			r.last++
			r.put(s, w, r.last, p.ask.Record)
			a.Status, a.Version, a.Record = protocol.StatusDone, r.last, p.ask.Record
		}
	case protocol.Delete:
		if cur.version == 0 || p.ask.Version != cur.version {
			a.Status = protocol.StatusConflict
		} else {
			r.put(s, w, 0, protocol.Record{})
			a.Status = protocol.StatusDone
		}
	case protocol.Watch:
		s.watch(p)
	default:
		a.Status = protocol.StatusRefused // not an operation on a register
	}
	return true
}

func (r *register) put(s *store, w *World, version uint64, record protocol.Record) {
	r.count++
	if r.count >= depth {
		r.first = max(r.first, r.count-depth+1)
	}
	*r.now() = generation{at: w.Now(), version: version, record: record}
	r.changed(s, w)
}

// changed fires the watches. An event may be lost, doubled or late, or show an earlier record.
func (r *register) changed(s *store, w *World) {
	for i := range s.watches {
		t := &s.watches[i]
		v := s.sight(&s.routes[t.node], w.Now())
		switch {
		case v.close:
			s.tell(w, t, protocol.StatusClosed, v.delay, false)
			t.id = none
			continue
		case v.lost:
			continue
		}
		g := r.before(w.Now(), v.lag)
		a := s.tell(w, t, protocol.StatusEvent, v.delay, false)
		a.Version, a.Record = g.version, g.record
		if v.twice {
			a = s.tell(w, t, protocol.StatusEvent, v.second, true)
			a.Version, a.Record = g.version, g.record
		}
	}
	s.watches = slices.DeleteFunc(s.watches, func(t watch) bool { return t.id == none })
}

func (r *register) foreign(s *store, w *World, _ protocol.NodeID, count int) {
	if old := r.history[(r.count-min(uint64(count), r.count-r.first))%depth]; count > 0 && old.version != 0 {
		r.last++
		r.put(s, w, r.last, old.record)
	} else if r.now().version != 0 {
		r.put(s, w, 0, protocol.Record{})
	}
}

// failover goes back by that many changes. Versions are not given out again.
func (r *register) failover(_ *store, _ *World, count int) {
	r.count -= min(uint64(count), r.count-r.first)
}

// rollback goes back by that many changes, or to nothing, and so do versions: a restore from a
// backup, a lagging replica that takes over, a lost row with its counter in it.
func (r *register) rollback(w *World, count int, all bool) {
	was := r.last
	if all {
		*r = register{}
	} else {
		r.count -= min(uint64(count), r.count-r.first)
		r.last = 0
		for i := r.first; i <= r.count; i++ {
			r.last = max(r.last, r.history[i%depth].version)
		}
	}
	if r.last < was {
		w.seen.add(SawRolledBack)
	}
}

// elect changes the store's leader: requests wait for a moment.
func (r *register) elect(s *store, w *World) {
	if s.noise.Replicated {
		// Its servers have to miss their leader first, as etcd's do.
		s.serving = max(s.serving, w.Now()+Time(r.elects(s, 0)))
		return
	}
	s.serving = w.Now() + Time(s.noise.Delay+below(s.random.Uint64(), s.noise.Timeout))
}

func (r *register) elects(s *store, missed time.Duration) time.Duration {
	return etcdElection - missed + below(s.random.Uint64(), etcdElection)
}

func (r *register) leads(*store, *World)                   {}
func (r *register) asked(*parcel)                          {}
func (r *register) event(*World, *store, storeStep, int32) {}
func (r *register) expire(*store, *World, protocol.NodeID) {}
func (r *register) cut(*store, *World, int32)              {}
func (r *register) joined(*store, *World, int32)           {}
func (r *register) died(*store, *World, int32, uint32)     {}

func (r *register) clone() server {
	c := *r
	return &c
}

func (r *register) appendState(dst []byte) []byte {
	dst = appendAll(dst, r.last, r.count, r.first)
	for i := r.first; i <= r.count; i++ {
		g := &r.history[i%depth]
		dst = appendRecord(appendAll(dst, uint64(g.at), g.version), &g.record)
	}
	return dst
}
