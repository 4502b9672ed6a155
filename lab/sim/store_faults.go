package sim

import (
	"math"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// storeFault is an operation in progress.
type storeFault struct {
	op    *Op // the operation, as a key only
	kind  OpKind
	node  protocol.NodeID // empty: all
	by    time.Duration
	value float64
}

func (f *storeFault) hits(id protocol.NodeID) bool { return f.node == "" || f.node == id }

func (f *storeFault) appendState(dst []byte) []byte {
	dst = protocol.AppendString(protocol.AppendString(dst, f.kind), f.node)
	return appendAll(dst, uint64(f.by), math.Float64bits(f.value))
}

func (s *store) fault(w *World, op *Op, begin bool) {
	switch op.Kind {
	case OpStoreDown, OpStoreSlow, OpStoreUnknown, OpStaleRead, OpWatchLoss, OpWatchDouble, OpExpireLate, OpThrottle:
		if begin {
			s.begin(w, op)
		} else {
			s.end(w, op)
		}
		return
	}
	if !begin || s.healed {
		return
	}
	switch op.Kind {
	case OpWatchClose:
		s.closeWatches(w, func(t *watch) bool { return op.Node == "" || s.routes[t.node].id == op.Node })
	case OpExpireEarly:
		s.server.expire(s, w, op.Node)
	case OpForeign:
		s.server.foreign(s, w, op.Node, op.Count)
	case OpFailover:
		s.rename()
		s.server.failover(s, w, max(op.Count, 1))
		s.closeWatches(w, func(*watch) bool { return true })
	case OpRollback:
		if r, ok := s.server.(*register); ok {
			r.rollback(w, max(op.Count, 1), op.Value == 1)
			s.closeWatches(w, func(*watch) bool { return true })
		}
	case OpStoreHang:
		if d, ok := s.server.(*etcd); ok {
			d.hang(s, w, op.For, op.Value == 1)
		}
	case OpStoreElect:
		s.server.elect(s, w)
		s.closeWatches(w, func(*watch) bool { return true })
	}
}

func (s *store) begin(w *World, op *Op) {
	if s.healed {
		return
	}
	f := storeFault{op: op, kind: op.Kind, node: op.Node, by: op.By, value: op.Value}
	s.faults = append(s.faults, f)
	if op.Kind != OpStoreDown {
		return
	}
	for i := range s.routes {
		if f.hits(s.routes[i].id) {
			s.cut(w, int32(i))
		}
	}
}

func (s *store) end(w *World, op *Op) {
	i := slices.IndexFunc(s.faults, func(f storeFault) bool { return f.op == op })
	if i < 0 {
		return
	}
	f := s.faults[i]
	s.faults = slices.Delete(s.faults, i, i+1)
	if f.kind != OpStoreDown {
		return
	}
	for i := range s.routes {
		if p := &s.routes[i]; f.hits(p.id) && !p.stays {
			s.uncut(w, int32(i))
		}
	}
}

// cut and uncut add and remove one reason for which a participant cannot reach the store.
func (s *store) cut(w *World, node int32) {
	p := &s.routes[node]
	if p.down++; p.down == 1 {
		s.server.cut(s, w, node)
	}
}

func (s *store) uncut(w *World, node int32) {
	p := &s.routes[node]
	if p.down--; p.down == 0 {
		s.mend(w, node)
	}
}

// mend handles a path that works again. A stream that has missed something is not resumed, so
// watches end.
func (s *store) mend(w *World, node int32) {
	s.routes[node].island = 0
	s.closeWatches(w, func(t *watch) bool { return t.node == node })
	s.server.joined(s, w, node)
}

func (s *store) heal(w *World) {
	s.healed = true
	s.faults = s.faults[:0]
	if d, ok := s.server.(*etcd); ok {
		d.resume(s, w)
	}
	for i := range s.routes {
		p := &s.routes[i]
		if p.down == 0 {
			continue
		}
		if len(s.core) > 0 && !slices.Contains(s.core, p.id) {
			p.stays = true
			continue
		}
		p.down = 0
		s.mend(w, int32(i))
	}
}

// suspect makes a client library detect, some time later, that it has lost its connection.
func (s *store) suspect(w *World, node int32, timeout time.Duration) {
	after := timeout/3 + below(s.random.Uint64(), timeout/3)
	s.then(w, after, stepNotice, node<<1)
}

// notice tells a process that its connection to the store has ended. id is twice the node, plus one
// if the path works nevertheless.
func (s *store) notice(w *World, id int32) {
	n, path := w.nodes[id>>1], &s.routes[id>>1]
	switch {
	case id&1 == 0 && (path.down == 0 || path.island > w.Now()) || !n.up:
	case n.frozen:
		s.then(w, 50*time.Millisecond, stepNotice, id) // it detects that when it resumes
	default:
		w.input.Kind, w.input.From, w.input.Incarnation = protocol.PeerClosed, "", 0
		w.step(n, &w.input)
	}
}
