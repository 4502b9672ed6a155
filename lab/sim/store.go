package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// storeModel is a simulated store together with the routes that lead to it.
type storeModel interface {
	// ask takes what n's machine asks now. All that follows is the store's:
	// delay, loss, application, the answer, or its absence.
	ask(w *World, n *node, a *protocol.Ask)
	event(w *World, e event)
	// fault begins or ends an operation. What lasts no time only begins.
	fault(w *World, op *Op, begin bool)
	// died: n's process is gone, and with it its connections.
	died(w *World, n *node)
	// heal ends all faults and all noise but plain delays; participants outside
	// of the schedule's core that are cut off stay so.
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
	// staleness is the most that a lagging read is behind when noise makes it so.
	staleness = time.Second
)

// server is what is behind the routes: one kind of store. Its state is plain
// data.
type server interface {
	// asked: a request leaves, whatever becomes of it.
	asked(p *parcel)
	// apply carries out a request that has arrived, and fills in its answer. It
	// reports false when no answer will come: the request was not heard.
	apply(s *store, w *World, p *parcel) bool
	// event is the server's own: sessions, elections, pings.
	event(w *World, s *store, step storeStep, id int32)
	// foreign is somebody else's hand: it deletes the record, or the entry of
	// that participant; id is empty for whichever is first.
	// With a count a register goes back by so many changes instead.
	foreign(s *store, w *World, id protocol.NodeID, count int)
	expire(s *store, w *World, id protocol.NodeID)
	failover(s *store, w *World, count int)
	elect(s *store, w *World)
	// elects draws how long servers that have missed their leader for that long, an
	// election timeout at most, take to the next one; leads is that one's first act.
	elects(s *store, missed time.Duration) time.Duration
	leads(s *store, w *World)
	// cut and joined: a participant's path has ended, or works again.
	cut(s *store, w *World, node int32)
	joined(s *store, w *World, node int32)
	died(s *store, node int32, life uint32)
	clone() server
	appendState(dst []byte) []byte
}

// store is a storeModel: the routes, what is on them, and a server.
type store struct {
	noise  StoreNoise
	core   []protocol.NodeID
	random stream // of what happens in the server
	server server

	routes  []route
	parcels slab[parcel]
	desk    parcel // the request that is being carried out
	watches []watch
	watched int32 // the last watch's id
	faults  []storeFault

	// serving is when the server has a leader again; what arrives earlier waits
	// or is lost.
	serving Time
	// incarnation counts the times that the store has lost what it knew.
	incarnation uint64
	name        string // of the incarnation, as answers tell it
	healed      bool
}

func (s *store) rename() {
	s.incarnation++
	s.name = "store-" + strconv.FormatUint(s.incarnation, 10)
}

// storeStep says what an evStore event is; it travels in the low bits of the
// event's ref, above it the number of a parcel, a watch, a session or a node.
type storeStep int32

const (
	stepArrive  storeStep = iota // a request reaches the server
	stepAnswer                   // its answer reaches the process
	stepLapse                    // the runtime gives up waiting for the answer
	stepTell                     // what a watch saw reaches the process
	stepSilent                   // a runtime finds out that a watch is dead
	stepCheck                    // a session may have expired
	stepPing                     // a client library keeps a session alive
	stepLead                     // a new leader of the store begins its work
	stepNotice                   // a client library finds its connection dead
	stepMissed                   // servers have missed their leader for long enough, or elect another
	stepSucceed                  // etcd's leader hangs, and another one leads
	stepResume                   // it has heard of that
	stepBits    = 4
)

// then makes an event of the store's, d from now.
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
	case stepMissed: // the world looks after every event
	default:
		s.server.event(w, s, step, id)
	}
}

func (s *store) died(w *World, n *node) {
	node, life := int32(n.index), n.life
	s.watches = slices.DeleteFunc(s.watches, func(t watch) bool { return t.node == node && t.life == life })
	s.server.died(s, node, life)
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
	// A place in the slab is what events refer to, so it is part of the state.
	dst = protocol.AppendUint(dst, uint64(len(s.parcels.all)))
	for i := range s.parcels.all {
		if p := &s.parcels.all[i]; p.events > 0 {
			dst = p.appendState(protocol.AppendUint(dst, uint64(i)))
		}
	}
	return s.server.appendState(dst)
}
