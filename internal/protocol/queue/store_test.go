package queue

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// store is a queue with sessions, as etcd or ZooKeeper keeps it, at true time. Each operation is
// applied at the moment when it takes effect.
type store struct {
	dialect  Dialect
	rng      *rand.Rand
	calm     bool  // nothing random happens
	server   int64 // the rate of the server's clock, in ppm away from true
	election time.Duration

	now      int64
	sessions map[uint64]*session
	order    uint64
	entries  []entry
	mark     protocol.QueueMark
	past     []image // ZooKeeper: what a server that lags behind shows
	first    uint64  // the version of past[0]
	watches  []*watch
	stale    int64 // until then, a deposed leader answers some
}

type entry struct {
	protocol.Entry
	changed uint64
}

type image struct {
	entries []protocol.Entry
	mark    protocol.QueueMark
}

type session struct {
	id       uint64
	node     *node
	life     int // of the node
	ttl      time.Duration
	expires  int64  // etcd
	pinged   int64  // ZooKeeper
	seen     uint64 // the version that its reads do not go behind
	fence    uint64 // asks below that number come too late
	gone     bool
	left     bool   // given up by the machine, for which nothing is left
	doubled  bool   // the library sent Enter twice
	replaced uint64 // the session that the client opened instead
}

type watch struct {
	entry uint64
	touch bool // of its touches, until it is gone
	fire  func(protocol.Status, uint64)
}

func newStore(d Dialect, rng *rand.Rand, rho int64) *store {
	s := &store{dialect: d, rng: rng, sessions: make(map[uint64]*session), order: 10, server: rho}
	s.past = []image{{}}
	return s
}

// chance is true once in n times.
func (s *store) chance(n int) bool { return !s.calm && s.rng.IntN(n) == 0 }

func (s *store) version() uint64 { return s.first + uint64(len(s.past)) - 1 }

// served is how long the server's clock takes for d.
func (s *store) served(d time.Duration) int64 {
	return int64(d) * 1_000_000 / (1_000_000 + s.server)
}

// commit makes the present content a new version, and fires the watches.
func (s *store) commit() {
	var img image
	for _, e := range s.entries {
		img.entries = append(img.entries, e.Entry)
	}
	img.mark = s.mark
	s.past = append(s.past, img)
	if len(s.past) > 64 {
		s.past = s.past[1:]
		s.first++
	}
}

func (s *store) find(order uint64) int {
	return slices.IndexFunc(s.entries, func(e entry) bool { return e.Order == order })
}

func (s *store) tell(order uint64) {
	s.watches = slices.DeleteFunc(s.watches, func(w *watch) bool {
		if w.entry == order && !w.touch {
			w.fire(protocol.StatusEvent, 0)
		}
		return w.entry == order
	})
}

func (s *store) remove(orders ...uint64) {
	for _, o := range orders {
		if i := s.find(o); i >= 0 {
			s.entries = slices.Delete(s.entries, i, i+1)
		}
	}
	if s.dialect == ZooKeeper && len(s.entries) == 0 && s.chance(2) {
		s.mark = protocol.QueueMark{} // the empty parent was removed, and made again
	}
	s.order++
	s.commit()
	for _, o := range orders {
		s.tell(o)
	}
}

// end ends a session and its entries.
func (s *store) end(x *session) {
	if x.gone {
		return
	}
	x.gone = true
	var own []uint64
	for _, e := range s.entries {
		if e.Session == x.id {
			own = append(own, e.Order)
		}
	}
	s.remove(own...)
}

func (s *store) create(a *protocol.Ask, session uint64) protocol.Entry {
	s.order++
	e := protocol.Entry{Order: s.order, Session: session, Holder: a.Entry.Holder, Nonce: a.Nonce}
	s.entries = append(s.entries, entry{e, s.order})
	s.commit()
	return e
}

// view is what the session's server shows: at least what it has seen.
func (s *store) view(x *session) image {
	if s.dialect == Etcd || s.calm {
		return s.past[len(s.past)-1]
	}
	least := max(x.seen, s.first)
	x.seen = least
	if n := s.version() - least; n > 0 && s.rng.IntN(2) == 0 {
		x.seen += s.rng.Uint64N(n + 1)
	} else {
		x.seen = s.version()
	}
	img := s.past[x.seen-s.first]
	// The mark is read after the entries.
	later := x.seen + s.rng.Uint64N(s.version()-x.seen+1)
	img.mark, x.seen = s.past[later-s.first].mark, later
	return img
}

func (s *store) open(n *node, life int, ttl time.Duration) *session {
	x := &session{id: uint64(len(s.sessions) + 1), node: n, life: life, ttl: ttl, expires: s.now + s.served(ttl), pinged: s.now, seen: s.version()}
	s.sessions[x.id] = x
	return x
}

// apply carries an operation out now.
func (s *store) apply(n *node, life int, a *protocol.Ask) (out protocol.Answer) {
	out = protocol.Answer{Number: a.Number, Status: protocol.StatusDone, Session: a.Session}
	gone := func() protocol.Answer { out.Status = protocol.StatusGone; return out }
	x := s.sessions[a.Session]
	if a.Op == protocol.OpenSession {
		x = s.open(n, life, a.TTL)
		out.Session, out.TTL = x.id, x.ttl
		return out
	}
	if x == nil {
		return gone()
	}
	if a.Number < x.fence {
		out.Status = protocol.StatusRefused // its connection is no longer the session's
		return out
	}
	if x.replaced != 0 {
		y := s.sessions[x.replaced]
		out.Session = y.id
		if a.Op == protocol.CloseSession {
			s.end(y) // the client closes its present session; the old one expires
			return gone()
		}
		if y.gone {
			return gone()
		}
		x = y
	} else if x.gone {
		return gone()
	}
	wrote := func() { x.seen = s.version() }
	switch a.Op {
	case protocol.KeepAlive:
		out.TTL = x.ttl
		if s.dialect == Etcd && (s.now > s.stale || s.chance(2)) {
			x.expires = max(x.expires, s.now+s.served(x.ttl))
		}
		if s.dialect == ZooKeeper {
			x.pinged = s.now
		}
	case protocol.CloseSession:
		s.end(x)
	case protocol.Enter:
		if s.dialect == Etcd {
			if i := slices.IndexFunc(s.entries, func(e entry) bool { return e.Session == x.id }); i >= 0 {
				out.Entry = s.entries[i].Entry
				return out
			}
		} else if s.chance(20) {
			s.create(a, x.id)
			x.doubled = true
		}
		out.Entry = s.create(a, x.id)
		wrote()
	case protocol.Sync:
		x.fence = a.Number
		s.order++
		s.commit()
		wrote()
	case protocol.List:
		img := s.view(x)
		out.Entries, out.Mark, out.Revision = slices.Clone(img.entries), img.mark, s.order
	case protocol.Verify:
		img := s.view(x)
		out.Revision = s.order
		if !slices.ContainsFunc(img.entries, func(e protocol.Entry) bool { return e.Order == a.Entry.Order && e.Session == a.Session }) {
			return gone()
		}
		out.Entry = img.entries[0]
	case protocol.Touch:
		i := s.find(a.Entry.Order)
		if i < 0 {
			return gone()
		}
		s.order++
		if s.dialect == Etcd {
			if s.mark.Order == a.Entry.Order {
				s.mark.Touched = s.order
			}
			for _, w := range s.watches {
				if w.touch && w.entry == a.Entry.Order {
					w.fire(protocol.StatusEvent, s.order)
				}
			}
			s.commit()
			out.Entry, out.Revision = s.entries[0].Entry, s.order
			return out
		}
		s.entries[i].changed = s.order
		s.commit()
		wrote()
		if !s.calm { // a back end may report deletions only
			s.tell(a.Entry.Order)
		}
	case protocol.Mark:
		if s.find(a.Entry.Order) < 0 {
			return gone()
		}
		s.order++
		s.mark = a.Mark
		s.commit()
		wrote()
	case protocol.Leave:
		if s.find(a.Entry.Order) < 0 {
			return gone()
		}
		if a.SetMark {
			s.mark = a.Mark
		}
		s.remove(a.Entry.Order)
		wrote()
	}
	return out
}

// watch registers a watch, or answers at once if there is a change. With an event of a touch it fires the revision.
func (s *store) watch(a *protocol.Ask, fire func(protocol.Status, uint64)) {
	if a.Op == protocol.WatchTouch {
		if s.mark.Order == a.Entry.Order && s.mark.Touched > a.Revision {
			fire(protocol.StatusEvent, s.mark.Touched)
		}
		s.watches = append(s.watches, &watch{a.Entry.Order, true, fire})
		return
	}
	if i := s.find(a.Entry.Order); i < 0 || s.entries[i].changed > a.Revision {
		fire(protocol.StatusEvent, 0)
		return
	}
	s.watches = append(s.watches, &watch{a.Entry.Order, false, fire})
}
