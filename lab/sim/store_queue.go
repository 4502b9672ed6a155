package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// queue is common to the stores with sessions and ordered entries. It keeps what was deleted for
// the last depth commits: a lagging read still sees it, and a failover restores it.
type queue struct {
	items    []item    // by rising order
	marks    []marked  // by rising commit; the last is the present one
	sessions []session // by rising id
	log      [depth]commit
	tx       uint64 // the last commit
	first    uint64 // the oldest commit that is kept
	rev      uint64 // etcd's revision, ZooKeeper's zxid
	opened   uint64 // the last session's id
	dead     int    // the number of deleted items and sessions
}

type commit struct {
	at  Time
	rev uint64
}

// item is an entry, the commits that created and deleted it (0: it exists), and the revision of its
// last change.
type item struct {
	entry   protocol.Entry
	created uint64
	gone    uint64
	changed uint64
}

func (it *item) seen(tx uint64) bool { return it.created <= tx && (it.gone == 0 || it.gone > tx) }

type marked struct {
	tx   uint64
	mark protocol.QueueMark
}

// session is a session (etcd: a lease). Its time runs on the server's clock.
type session struct {
	id       uint64
	node     int32 // the node that opened it
	life     uint32
	ttl      time.Duration
	expiry   time.Duration // by the server's clock
	atOld    time.Duration // the same by a hanging leader of etcd; 0: it does not know the session
	made     uint64        // the commit that opened it
	closed   uint64        // the one that closed it; 0: it is open
	overdue  bool          // the server has seen that it expired, and is about to close it
	pings    bool          // its client library keeps it alive
	replaces bool          // its client library opens another one if it expires
	client   uint64        // the first session of that library's connection: one at a time is open
	written  uint64        // the last Ask by it that was to be committed and has arrived
}

func newQueue(rev uint64) queue {
	return queue{marks: []marked{{}}, log: [depth]commit{{rev: rev}}, rev: rev}
}

// clock is the reading of the server's clock at that time.
func (s *store) clock(t Time) time.Duration {
	const million = 1_000_000
	return time.Duration(t + t/million*Time(s.noise.Rate) + t%million*Time(s.noise.Rate)/million)
}

// trueAt is when the server's clock shows d.
func (s *store) trueAt(d time.Duration) Time {
	const million = 1_000_000
	rate := million + Time(s.noise.Rate)
	t := Time(d)/rate*million + Time(d)%rate*million/rate
	for s.clock(t) < d {
		t++
	}
	return t
}

// commit makes a change of the state; a change of the queue's content has a revision of its own.
func (q *queue) commit(w *World, revised bool) {
	q.tx++
	if revised {
		q.rev++
	}
	if q.tx >= depth {
		q.first = max(q.first, q.tx-depth+1)
	}
	q.log[q.tx%depth] = commit{at: w.Now(), rev: q.rev}
	for len(q.marks) > 1 && q.marks[1].tx <= q.first {
		q.marks = slices.Delete(q.marks, 0, 1)
	}
}

// forget drops what was deleted before the oldest possible read. It moves sessions and items, so no
// pointer into them may be held: it is called before a request is handled.
func (q *queue) forget() {
	if q.dead <= 2*depth {
		return
	}
	forgotten := func(gone uint64) bool { return gone != 0 && gone <= q.first }
	n := len(q.items) + len(q.sessions)
	q.items = slices.DeleteFunc(q.items, func(it item) bool { return forgotten(it.gone) })
	q.sessions = slices.DeleteFunc(q.sessions, func(z session) bool { return forgotten(z.closed) })
	q.dead -= n - len(q.items) - len(q.sessions)
}

// before is the commit that was the last one d before t, as far back as is kept.
func (q *queue) before(t Time, d time.Duration) uint64 {
	i := q.tx
	for i > q.first && q.log[i%depth].at > t-Time(d) {
		i--
	}
	return i
}

func (q *queue) mark(tx uint64) protocol.QueueMark {
	i := len(q.marks) - 1
	for i > 0 && q.marks[i].tx > tx {
		i--
	}
	return q.marks[i].mark
}

// session is the session with that id, if it is kept.
func (q *queue) session(id uint64) *session {
	i, ok := slices.BinarySearchFunc(q.sessions, id, func(z session, id uint64) int { return int(z.id) - int(id) })
	if !ok {
		return nil
	}
	return &q.sessions[i]
}

// live is an open session.
func (q *queue) live(id uint64) *session {
	if z := q.session(id); z != nil && z.closed == 0 {
		return z
	}
	return nil
}

// find is the entry of that order as it was after that commit.
func (q *queue) find(order, tx uint64) *item {
	i, ok := slices.BinarySearchFunc(q.items, order, func(it item, order uint64) int {
		switch {
		case it.entry.Order < order:
			return -1
		case it.entry.Order > order:
			return 1
		}
		return 0
	})
	if !ok || !q.items[i].seen(tx) {
		return nil
	}
	return &q.items[i]
}

// list fills in all entries as they were after that commit.
func (q *queue) list(p *parcel, tx uint64) {
	p.entries = p.entries[:0]
	for i := range q.items {
		if it := &q.items[i]; it.seen(tx) {
			p.entries = append(p.entries, it.entry)
		}
	}
	p.answer.Entries = p.entries
}

// verify fills in the first entry, and reports whether the requested entry exists and belongs to
// that session.
func (q *queue) verify(p *parcel, session, tx uint64) bool {
	for i := range q.items {
		if it := &q.items[i]; it.seen(tx) {
			p.answer.Entry = it.entry
			break
		}
	}
	it := q.find(p.ask.Entry.Order, tx)
	return it != nil && it.entry.Session == session
}

// open opens a session for p's process.
func (q *queue) open(p *parcel, ttl time.Duration) *session {
	q.opened++
	q.sessions = append(q.sessions, session{id: q.opened, client: q.opened, node: p.node, life: p.life, ttl: ttl, made: q.tx})
	return &q.sessions[len(q.sessions)-1]
}

// watchOut makes the server check the session when it may have expired.
func (q *queue) watchOut(s *store, w *World, z *session) {
	at := s.trueAt(z.expiry + s.overtime())
	s.then(w, time.Duration(max(at, s.look(w))-w.Now()), stepCheck, int32(z.id))
}

// overtime is how much longer than their TTL sessions live.
func (s *store) overtime() time.Duration {
	var by time.Duration
	for i := range s.faults {
		if f := &s.faults[i]; f.kind == OpExpireLate {
			by = max(by, f.by)
		}
	}
	return by
}

// enter adds an entry. Its order is the revision of the commit just made.
func (q *queue) enter(p *parcel, session uint64, holder protocol.NodeID) {
	q.items = append(q.items, item{
		entry:   protocol.Entry{Order: q.rev, Session: session, Holder: holder, Nonce: p.ask.Nonce},
		created: q.tx, changed: q.rev,
	})
	p.answer.Entry = q.items[len(q.items)-1].entry
}

func (q *queue) setMark(m protocol.QueueMark) {
	if last := q.mark(q.tx); last.Order == m.Order {
		m.Touched = max(m.Touched, last.Touched) // it is kept beside the mark
	}
	q.marks = append(q.marks, marked{tx: q.tx, mark: m})
}

// remove deletes an entry with the commit just made.
func (q *queue) remove(s *store, w *World, it *item) {
	it.gone = q.tx
	q.dead++
	q.changed(s, w, it.entry.Order)
}

// end closes a session, and deletes its entries with it. etcd's revision rises only if there were
// any; ZooKeeper's zxid always does.
func (q *queue) end(s *store, w *World, z *session, counts bool) {
	for i := range q.items {
		it := &q.items[i]
		counts = counts || it.gone == 0 && it.entry.Session == z.id
	}
	id := z.id
	z.closed = q.tx + 1
	q.dead++
	q.commit(w, counts)
	for i := range q.items {
		if it := &q.items[i]; it.gone == 0 && it.entry.Session == id {
			q.remove(s, w, it)
		}
	}
}

// changed fires the watches on an entry that was deleted or changed. Their events may come late or
// twice; if none comes, the runtime notices later that its watch is dead.
func (q *queue) changed(s *store, w *World, order uint64) {
	for i := range s.watches {
		switch t := &s.watches[i]; {
		case t.order != order:
		case t.touch:
			t.id = none // there are no more, which is not told
		case !t.mute:
			q.show(s, w, t)
		}
	}
	s.watches = slices.DeleteFunc(s.watches, func(t watch) bool { return t.id == none })
}

// show fires one watch, and ends it. It is marked as ended, not removed.
func (q *queue) show(s *store, w *World, t *watch) {
	v := s.sight(&s.routes[t.node], w.Now())
	if v.lost && !v.close {
		s.silent(w, t)
		return
	}
	if !v.close {
		s.tell(w, t, protocol.StatusEvent, v.delay+v.lag, false).Revision = q.rev
		if v.twice {
			s.tell(w, t, protocol.StatusEvent, v.second, false).Revision = q.rev
		}
	}
	s.tell(w, t, protocol.StatusClosed, v.delay, false)
	t.id = none
}

// touched fires the watches of an entry's touches. Unlike other watches they go on.
func (q *queue) touched(s *store, w *World, order uint64) {
	for i := range s.watches {
		if t := &s.watches[i]; t.order == order && t.touch && !t.mute {
			q.showTouch(s, w, t, q.rev)
		}
	}
	s.watches = slices.DeleteFunc(s.watches, func(t watch) bool { return t.id == none })
}

// showTouch fires one of them, for a touch at that revision.
func (q *queue) showTouch(s *store, w *World, t *watch, at uint64) {
	v := s.sight(&s.routes[t.node], w.Now())
	tell := func(d time.Duration, again bool) {
		a := s.tell(w, t, protocol.StatusEvent, d, again)
		a.Revision, a.Mark = q.rev, protocol.QueueMark{Order: t.order, Touched: at}
	}
	switch {
	case v.close:
		s.tell(w, t, protocol.StatusClosed, v.delay, false)
		t.id = none
	case v.lost:
		s.silent(w, t)
	default:
		tell(v.delay+v.lag, false)
		if v.twice {
			tell(v.second, true)
		}
	}
}

// watchEntry registers a watch, and fires it at once for a change that has already happened.
func (q *queue) watchEntry(s *store, w *World, p *parcel, tx uint64) {
	it := q.find(p.ask.Entry.Order, tx)
	s.watch(p)
	if it != nil && it.gone == 0 && it.changed <= p.ask.Revision {
		return
	}
	last := len(s.watches) - 1
	q.show(s, w, &s.watches[last])
	if s.watches[last].id == none {
		s.watches = s.watches[:last]
	}
}

// hand deletes the first entry of that participant, or of all, from outside.
func (q *queue) hand(s *store, w *World, id protocol.NodeID) {
	for i := range q.items {
		if it := &q.items[i]; it.gone == 0 && (id == "" || it.entry.Holder == id) {
			order := it.entry.Order
			q.commit(w, true)
			q.remove(s, w, q.find(order, q.tx))
			return
		}
	}
}

// back restores the state before the last commits. Sessions get their time again.
func (q *queue) back(s *store, w *World, count int, fresh func(*session)) {
	q.tx -= min(uint64(count), q.tx-q.first)
	q.rev = q.log[q.tx%depth].rev
	lost := func(made uint64) bool { return made > q.tx }
	q.items = slices.DeleteFunc(q.items, func(it item) bool { return lost(it.created) })
	q.sessions = slices.DeleteFunc(q.sessions, func(z session) bool { return lost(z.made) })
	q.marks = slices.DeleteFunc(q.marks, func(m marked) bool { return lost(m.tx) })
	q.dead = 0
	for i := range q.items {
		it := &q.items[i]
		if lost(it.gone) {
			it.gone = 0
		}
		if it.changed > q.rev {
			it.changed = q.rev
		}
		if it.gone != 0 {
			q.dead++
		}
	}
	for i := range q.sessions {
		z := &q.sessions[i]
		if lost(z.closed) {
			z.closed = 0
			fresh(z)
			q.watchOut(s, w, z)
		} else if z.closed == 0 {
			fresh(z)
		} else {
			q.dead++
		}
	}
	for i := range s.routes {
		r := &s.routes[i]
		r.view, r.stood = min(r.view, q.tx), min(r.stood, q.tx)
	}
}

func (q *queue) clone() queue {
	c := *q
	c.items, c.marks, c.sessions = slices.Clone(q.items), slices.Clone(q.marks), slices.Clone(q.sessions)
	return c
}

func (q *queue) appendState(dst []byte) []byte {
	dst = appendAll(dst, q.tx, q.first, q.rev, q.opened, uint64(q.dead), uint64(len(q.items)))
	for i := range q.items {
		it := &q.items[i]
		dst = appendAll(appendEntry(dst, &it.entry), it.created, it.gone, it.changed)
	}
	dst = protocol.AppendUint(dst, uint64(len(q.marks)))
	for _, m := range q.marks {
		dst = appendMark(protocol.AppendUint(dst, m.tx), m.mark)
	}
	dst = protocol.AppendUint(dst, uint64(len(q.sessions)))
	for i := range q.sessions {
		z := &q.sessions[i]
		dst = appendAll(dst, z.id, uint64(z.node), uint64(z.life), uint64(z.ttl), uint64(z.expiry), uint64(z.atOld), z.made, z.closed, z.client, z.written)
		for _, b := range [...]bool{z.overdue, z.pings, z.replaces} {
			dst = protocol.AppendBool(dst, b)
		}
	}
	for i := q.first; i <= q.tx; i++ {
		dst = appendAll(dst, uint64(q.log[i%depth].at), q.log[i%depth].rev)
	}
	return dst
}
