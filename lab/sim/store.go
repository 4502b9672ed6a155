package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// storeModel is a simulated store, with the routes to it.
type storeModel interface {
	// ask takes an ask of n's machine. The store does all that follows: delay, loss, application,
	// the answer, or its absence.
	ask(w *World, n *node, a *protocol.Ask)
	event(w *World, e event)
	// fault begins or ends an operation. An instantaneous one only begins.
	fault(w *World, op *Op, begin bool)
	// died: n's process is gone, and with it its connections.
	died(w *World, n *node)
	// heal ends all faults and all noise but plain delays; participants outside of the schedule's
	// core that are cut off stay cut off.
	heal(w *World)
	clone() storeModel
	appendState(dst []byte) []byte
}

// newStore makes a store of that kind, and nil for StoreNone.
func newStore(kind StoreKind, w *World) storeModel {
	s := &store{
		noise: w.schedule.Store, core: w.schedule.Core, random: *w.stream("store"),
		routes: make([]route, len(w.nodes)),
	}
	if s.noise.Timeout == 0 {
		s.noise.Timeout = defaultTimeout
	}
	for i := range s.routes {
		s.routes[i].id = w.nodes[i].id
		s.routes[i].random = *w.stream("store/" + strconv.Itoa(i+1))
	}
	switch kind {
	case StoreRegister:
		s.server = newRegister()
	case StoreExpiring, StoreSession:
		s.server = &ending{sessions: kind == StoreSession}
	case StoreEtcd:
		s.server = &etcd{queue: newQueue(1)}
	case StoreZooKeeper:
		s.server = &zookeeper{queue: newQueue(1 << 32), epoch: 1}
	default:
		return nil
	}
	s.rename()
	return s
}

const (
	defaultTimeout = time.Second
	// staleness is the greatest lag of a read that is stale by noise.
	staleness = time.Second
)

// server is one kind of store, behind the routes. Its state is plain data.
type server interface {
	// asked: a request leaves, whatever its outcome.
	asked(p *parcel)
	// apply carries out a request that has arrived, and fills in its answer. It returns false when
	// no answer will come: the request was not heard.
	apply(s *store, w *World, p *parcel) bool
	// event handles the server's own events: sessions, elections, pings.
	event(w *World, s *store, step storeStep, id int32)
	// foreign is a change from outside: it deletes the record, or the entry of that participant;
	// with an empty id, the first one. With a count a register goes back by so many changes
	// instead.
	foreign(s *store, w *World, id protocol.NodeID, count int)
	expire(s *store, w *World, id protocol.NodeID)
	failover(s *store, w *World, count int)
	elect(s *store, w *World)
	// elects draws how long servers take to elect the next leader if they have missed theirs for
	// that long, at most an election timeout; leads is the first act of the new leader.
	elects(s *store, missed time.Duration) time.Duration
	leads(s *store, w *World)
	// cut and joined: a participant's path has ended, or works again.
	cut(s *store, w *World, node int32)
	joined(s *store, w *World, node int32)
	died(s *store, w *World, node int32, life uint32)
	clone() server
	appendState(dst []byte) []byte
}

// store is a storeModel: the routes, the parcels on them, and a server.
type store struct {
	noise  StoreNoise
	core   []protocol.NodeID
	random stream // of the server
	server server

	routes  []route
	parcels slab[parcel]
	current parcel // the request in progress
	watches []watch
	watched int32 // the last watch's id
	faults  []storeFault

	// serving is when the server has a leader again; what arrives earlier waits or is lost.
	serving Time
	// incarnation counts how often the store has lost data.
	incarnation uint64
	name        string // of the incarnation, as answers tell it
	healed      bool
}

func (s *store) rename() {
	s.incarnation++
	s.name = "store-" + strconv.FormatUint(s.incarnation, 10)
}

// storeStep is the kind of an evStore event; it is in the low bits of the event's ref, above it the
// number of a parcel, a watch, a session or a node.
type storeStep int32

const (
	stepArrive  storeStep = iota // a request reaches the server
	stepAnswer                   // its answer reaches the process
	stepLapse                    // the runtime gives up waiting for the answer
	stepTell                     // an event of a watch reaches the process
	stepSilent                   // a runtime detects that a watch is dead
	stepCheck                    // a session may have expired
	stepPing                     // a client library keeps a session alive
	stepLead                     // a new leader of the store begins its work
	stepNotice                   // a client library detects that its connection is dead
	stepMissed                   // servers have missed their leader for long enough, or elect another
	stepSucceed                  // etcd's leader hangs, and another one leads
	stepResume                   // it has learnt of that
	stepBits    = 4
)

// then schedules an event of the store at d from now.
func (s *store) then(w *World, d time.Duration, step storeStep, id int32) {
	w.in(max(d, 0), event{kind: evStore, node: none, ref: id<<stepBits | int32(step)})
}

func (s *store) event(w *World, e event) {
	step, id := storeStep(e.ref&(1<<stepBits-1)), e.ref>>stepBits
	switch step {
	case stepArrive:
		s.arrive(w, id)
	case stepAnswer:
		s.deliver(w, id)
	case stepLapse:
		s.lapse(w, id)
	case stepTell:
		s.told(w, id)
	case stepSilent:
		s.closeWatch(w, id)
	case stepMissed: // the world checks after every event
	default:
		s.server.event(w, s, step, id)
	}
}

func (s *store) died(w *World, n *node) {
	node, life := int32(n.index), n.life
	s.watches = slices.DeleteFunc(s.watches, func(t watch) bool { return t.node == node && t.life == life })
	s.server.died(s, w, node, life)
}

func (s *store) clone() storeModel {
	c := *s
	c.routes = slices.Clone(s.routes)
	c.parcels = slab[parcel]{all: slices.Clone(s.parcels.all), free: slices.Clone(s.parcels.free)}
	for i := range c.parcels.all {
		p := &c.parcels.all[i]
		p.entries = slices.Clone(p.entries)
		if p.answer.Entries != nil {
			p.answer.Entries = p.entries
		}
	}
	c.watches = slices.Clone(s.watches)
	c.faults = slices.Clone(s.faults)
	c.server = s.server.clone()
	return &c
}

func (s *store) appendState(dst []byte) []byte {
	dst = protocol.AppendUint(dst, uint64(s.serving))
	dst = protocol.AppendUint(dst, s.incarnation)
	dst = protocol.AppendBool(dst, s.healed)
	for i := range s.routes {
		dst = s.routes[i].appendState(dst)
	}
	dst = protocol.AppendUint(dst, uint64(len(s.watches)))
	for i := range s.watches {
		dst = s.watches[i].appendState(dst)
	}
	dst = protocol.AppendUint(dst, uint64(len(s.faults)))
	for i := range s.faults {
		dst = s.faults[i].appendState(dst)
	}
	// Events refer to places in the slab, so its size is part of the state.
	dst = protocol.AppendUint(dst, uint64(len(s.parcels.all)))
	for i := range s.parcels.all {
		if p := &s.parcels.all[i]; p.events > 0 {
			dst = p.appendState(protocol.AppendUint(dst, uint64(i)))
		}
	}
	return s.server.appendState(dst)
}
