package sim

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

const (
	// etcdElection is the default election timeout of etcd's servers. Leases are not granted for
	// less than one and a half of it, and a new leader extends each lease by it
	// (server/lease/lessor.go, Promote).
	etcdElection = time.Second
	// etcdSweep is the interval of the search for expired leases.
	etcdSweep = 500 * time.Millisecond
)

// etcd is a store in which a session is a lease, and an entry a key that is named after its lease
// and deleted with it. All reads and transactions are linearizable. A keep-alive is not: the leader
// answers it from its own state alone, and a replaced leader goes on doing so until it notices,
// although that renews nothing. To make up for it, its successor gives all leases their full time
// again, and an election timeout more; but the two measure with two clocks.
type etcd struct {
	queue
	hung hang
}

// etcdTTL is the TTL that is granted: whole seconds, and silently at least the minimum.
func etcdTTL(wish time.Duration) time.Duration {
	up := func(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
	return max(up(wish), up(etcdElection*3/2))
}

func (d *etcd) apply(s *store, w *World, p *parcel) bool {
	d.forget()
	path := &s.routes[p.node]
	a := &p.answer
	if s.alone(w, p) {
		return d.answerAlone(s, w, p)
	}
	if s.atHung(p) {
		return d.answerHung(s, w, p)
	}
	if path.hung && (!d.hung.paused || s.noise.Mended && w.Now() < d.hung.until) {
		return false // requests that need the quorum are lost
	}
	if path.deposed > w.Now() {
		if p.ask.Op == protocol.KeepAlive {
			if z := d.live(p.ask.Session); z != nil {
				a.Status, a.Session, a.TTL, a.Revision = protocol.StatusDone, z.id, z.ttl, d.rev
				return true
			}
		}
		return false // requests that need the quorum are lost
	}
	done := d.do(s, w, p, path)
	if a.Status == 0 && !watches(p.ask.Op) {
		a.Status = protocol.StatusGone
		if done {
			a.Status = protocol.StatusDone
		}
	}
	if a.Session == 0 {
		a.Session = p.ask.Session
	}
	a.Revision = d.rev
	return true
}

// answerAlone is a keep-alive at a leader that is cut off. It renews the lease until there is
// another leader.
func (d *etcd) answerAlone(s *store, w *World, p *parcel) bool {
	z, a := d.live(p.ask.Session), &p.answer
	if z == nil || s.clock(w.Now()) >= z.expiry+s.overtime() {
		return false // it waits for the end of a lease that it cannot end
	}
	if w.servers.missing && w.servers.leader == w.servers.old {
		z.expiry = s.clock(w.Now()) + z.ttl
	}
	a.Status, a.Session, a.TTL, a.Revision = protocol.StatusDone, z.id, z.ttl, d.rev
	return true
}

// do carries out a request. It returns false if its object does not exist, unless it has set
// another status.
func (d *etcd) do(s *store, w *World, p *parcel, path *route) bool {
	a, ask := &p.answer, &p.ask
	switch ask.Op {
	case protocol.OpenSession:
		d.commit(w, false)
		z := d.open(p, etcdTTL(ask.TTL))
		z.expiry = s.clock(w.Now()) + z.ttl
		d.watchOut(s, w, z)
		a.Session, a.TTL = z.id, z.ttl
		return true
	case protocol.KeepAlive:
		z := d.live(ask.Session)
		if z == nil || s.clock(w.Now()) >= z.expiry+s.overtime() {
			return false // expired, though its key may still exist
		}
		z.expiry = s.clock(w.Now()) + z.ttl
		a.TTL = z.ttl
		return true
	case protocol.CloseSession:
		z := d.live(ask.Session)
		if z == nil {
			return false
		}
		d.end(s, w, z, false)
		return true
	case protocol.Enter:
		z := d.live(ask.Session)
		if z == nil {
			return false
		}
		for i := range d.items {
			if it := &d.items[i]; it.gone == 0 && it.entry.Session == z.id {
				a.Entry = it.entry
				return true
			}
		}
		d.commit(w, true)
		d.enter(p, ask.Session, path.id)
		return true
	case protocol.List:
		d.list(p, d.tx)
		a.Mark = d.mark(d.tx)
		return true
	case protocol.Sync:
		if d.live(ask.Session) == nil {
			return false
		}
		d.commit(w, true)
		return true
	case protocol.WatchEntry, protocol.WatchTouch:
		if ask.Revision < d.log[d.first%depth].rev {
			a.Status = protocol.StatusClosed // compacted
			return true
		}
		if ask.Op == protocol.WatchEntry {
			d.watchEntry(s, w, p, d.tx)
			return true
		}
		s.watch(p)
		if m := d.mark(d.tx); m.Order == ask.Entry.Order && m.Touched > ask.Revision {
			last := len(s.watches) - 1
			if d.showTouch(s, w, &s.watches[last], m.Touched); s.watches[last].id == none {
				s.watches = s.watches[:last]
			}
		}
		return true
	case protocol.Verify:
		a.Mark = d.mark(d.tx)
		return d.verify(p, ask.Session, d.tx)
	case protocol.Touch:
		if !d.verify(p, ask.Session, d.tx) {
			return false
		}
		d.commit(w, true)
		if m := d.mark(d.tx); m.Order == ask.Entry.Order {
			m.Touched = d.rev
			d.setMark(m)
		}
		d.touched(s, w, ask.Entry.Order)
		return true
	case protocol.Mark, protocol.Leave:
		if d.find(ask.Entry.Order, d.tx) == nil {
			return false
		}
		d.commit(w, true)
		d.change(s, w, ask)
		return true
	}
	a.Status = protocol.StatusRefused // not an operation on a queue
	return false
}

// change carries out Touch, Mark and Leave, of an existing entry, with the commit just made.
func (q *queue) change(s *store, w *World, ask *protocol.Ask) {
	it := q.find(ask.Entry.Order, q.tx)
	if ask.Op == protocol.Mark || ask.SetMark {
		q.setMark(ask.Mark)
	}
	switch ask.Op {
	case protocol.Touch:
		it.changed = q.rev
		q.changed(s, w, ask.Entry.Order)
	case protocol.Leave:
		q.remove(s, w, it)
	}
}

func (d *etcd) event(w *World, s *store, step storeStep, id int32) {
	switch step {
	case stepCheck:
		d.check(s, w, d.live(uint64(id)))
	case stepLead:
		d.leads(s, w)
	case stepSucceed:
		d.succeeds(s, w)
	case stepResume:
		if d.hung.on && w.Now() == d.hung.over {
			d.resume(s, w)
		}
	case stepNotice:
		s.notice(w, id)
	}
}

// check handles a lease that may have expired. The leader checks at intervals, so half of the
// leases live a little longer.
func (d *etcd) check(s *store, w *World, z *session) {
	if z == nil {
		return
	}
	if w.Now() < s.serving || w.servers.vacant || s.clock(w.Now()) < z.expiry+s.overtime() {
		z.overdue = false
		d.watchOut(s, w, z)
		return
	}
	word := s.random.Uint64()
	if !z.overdue && word>>63 == 1 {
		z.overdue = true
		s.then(w, below(word<<1, etcdSweep), stepCheck, int32(z.id))
		return
	}
	d.end(s, w, z, false)
}

func (d *etcd) foreign(s *store, w *World, id protocol.NodeID, _ int) { d.hand(s, w, id) }

// expire revokes the leases of a participant.
func (d *etcd) expire(s *store, w *World, id protocol.NodeID) {
	d.endAll(s, w, id, false)
}

// endAll closes all sessions of a participant.
func (q *queue) endAll(s *store, w *World, id protocol.NodeID, counts bool) {
	for last := q.opened; last > 0; last-- {
		if z := q.live(last); z != nil && (id == "" || s.routes[z.node].id == id) {
			q.end(s, w, z, counts)
		}
	}
}

// failover restores an older snapshot: revisions repeat.
func (d *etcd) failover(s *store, w *World, count int) {
	now := s.clock(w.Now())
	d.back(s, w, count, func(z *session) { z.expiry, z.overdue = now+z.ttl, false })
}

// elect cuts the leader off. After an election timeout by its own clock, or up to two, one of the
// others is the new one, which begins by giving all leases their time again. Some clients still
// talk to the old one, until it has missed a majority for a whole period between two checks (raft's
// CheckQuorum): for up to two election timeouts by its own clock, which may be as slow as the new
// one's is fast. In half of the cases either time is the worst possible.
func (d *etcd) elect(s *store, w *World) {
	s.serving = max(s.serving, w.Now()+Time(d.elects(s, 0)))
	s.then(w, time.Duration(s.serving-w.Now()), stepLead, 0)
	if s.noise.Replicated {
		return // the old leader is not cut off, and knows
	}
	most := trueSpan(2*etcdElection, -s.drift())
	for i := range s.routes {
		stays, until := s.random.Uint64(), below(s.random.Uint64(), most)
		if stays>>63 == 0 {
			continue
		}
		if stays>>62&1 == 1 {
			until = most
		}
		s.routes[i].deposed = w.Now() + Time(until)
	}
}

func (d *etcd) elects(s *store, missed time.Duration) time.Duration {
	worst, gap := s.random.Uint64(), below(s.random.Uint64(), etcdElection)
	if worst>>63 == 1 {
		gap = 0
	}
	return trueSpan(etcdElection-missed, s.drift()) + gap
}

// leads gives all leases their time again.
func (d *etcd) leads(s *store, w *World) {
	for i := range d.sessions {
		if z := &d.sessions[i]; z.closed == 0 {
			z.expiry, z.overdue = s.clock(w.Now())+z.ttl+etcdElection, false
		}
	}
}

// stands draws how long a leader that is cut off believes that it leads: until a check finds that
// it has missed a majority since the last one.
func (d *etcd) stands(s *store) time.Duration {
	word := s.random.Uint64()
	span := etcdElection + below(word<<1, etcdElection)
	if word>>63 == 1 {
		span = 2 * etcdElection
	}
	return trueSpan(span, -s.drift())
}

// drift is how much a server's clock may be off, in ppm, either way.
func (s *store) drift() int64 { return max(s.noise.Rate, -s.noise.Rate) }

// trueSpan is the true time in which a clock of that rate, in ppm, advances by d.
func trueSpan(d time.Duration, rate int64) time.Duration {
	const million = 1_000_000
	return d * million / time.Duration(million+rate)
}

// cut handles a client that learns of its cut from a keep-alive without an answer.
func (d *etcd) cut(s *store, w *World, node int32) {
	if s.noise.Replicated && w.keeps(node) {
		s.then(w, time.Duration(w.servers.alone-w.Now()), stepNotice, node<<1)
		return
	}
	s.suspect(w, node, etcdElection)
}

func (d *etcd) joined(*store, *World, int32)       {}
func (d *etcd) asked(*parcel)                      {}
func (d *etcd) died(*store, *World, int32, uint32) {}

func (d *etcd) clone() server { return &etcd{queue: d.queue.clone(), hung: d.hung} }

func (d *etcd) appendState(dst []byte) []byte {
	h := &d.hung
	dst = protocol.AppendBool(protocol.AppendBool(dst, h.on), h.paused)
	return d.queue.appendState(appendAll(dst, uint64(h.until), uint64(h.leads), uint64(h.over)))
}
