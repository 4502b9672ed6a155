package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// remembered is how many old messages a link keeps for replays.
const remembered = 64

// link is one direction between two processes.
type link struct {
	rand  stream
	count uint64 // messages so far
	last  Time   // when the last one that keeps its place arrives
	free  Time   // when the next one can leave, where bandwidth is short
	// conn holds the incarnations between which messages have gone this way: if one of them is
	// killed, the other is told.
	conn  [2]uint32
	drops []uint64 // the numbers of messages to be lost, rising
	held  []int32  // flights that a clogged link holds
	old   *[remembered]protocol.Message
	olds  int // the number of messages kept so far, if old is used
}

// shape is the present state of a link.
type shape struct {
	loss, double, tail uint64 // odds
	cut                bool   // nothing gets through
	clogged            bool
	reorder            bool
	within             time.Duration // how far messages overtake each other
	slow               time.Duration
}

// flight is a message on its way.
type flight struct {
	message  protocol.Message
	from     int32
	arrived  bool   // it is in the inbox: no link can lose it any more
	closed   uint64 // of a connection's end: the incarnation
	cause    uint64
	ordinary bool
}

// waiting is a message that waits for a save.
type waiting struct {
	send  protocol.Send
	cause uint64
}

func (w *World) link(from, to int) *link { return &w.links[from*len(w.nodes)+to] }

func (w *World) shape(from, to *node) *shape { return &w.shapes[from.base*w.width+to.base] }

// send sends a message now.
func (w *World) send(n *node, s *protocol.Send, cause uint64) {
	w.oracle.sent(w, n, s)
	to := w.index(s.To)
	if to < 0 {
		return
	}
	w.depart(n, w.nodes[to], &s.Message, cause)
	for _, twin := range w.nodes[w.width:] {
		if twin.base == to && twin.up && twin != n {
			w.depart(n, twin, &s.Message, cause)
		}
	}
}

// depart puts a message on a link. It draws two random words, whatever the outcome.
func (w *World) depart(n, to *node, m *protocol.Message, cause uint64) {
	l, s := w.link(n.index, to.index), w.shape(n, to)
	chance, delay := l.rand.Uint64(), l.rand.Uint64()
	l.count++
	w.tellMessage(RecordSend, n, to, m, l.count, cause, "")
	for len(l.drops) > 0 && l.drops[0] < l.count {
		l.drops = l.drops[1:]
	}
	if to.up && !s.cut {
		l.conn = [2]uint32{n.life, to.life}
	}
	lost := ""
	switch {
	case len(l.drops) > 0 && l.drops[0] == l.count:
		lost = "dropped"
	case s.cut:
		lost = "cut off"
	case chance>>11 < s.loss:
		lost = "lost"
	}
	if lost != "" {
		w.tellMessage(RecordLost, n, to, m, l.count, cause, lost)
		return
	}
	if l.old != nil {
		l.old[l.olds%len(l.old)] = *m
		l.olds++
	}
	ref := w.flights.get()
	w.flights.all[ref] = flight{message: *m, from: int32(n.index), cause: cause, ordinary: true}
	if s.clogged {
		l.held = append(l.held, ref)
		return
	}
	noise := &w.schedule.Links
	d := noise.Delay + s.slow
	if s.tail != 0 && mix(delay^1)>>11 < s.tail {
		d += pareto(mix(delay^2), noise.Jitter)
	} else if noise.Jitter > 0 {
		d += exponential(delay, noise.Jitter)
	}
	at := w.now
	if noise.Bandwidth > 0 {
		at = max(l.free, w.now)
		l.free = at + Time(int64(time.Second)/noise.Bandwidth)
	}
	at += Time(d)
	if s.reorder {
		at += Time(below(mix(delay^3), s.within))
	} else {
		at = max(at, l.last)
		l.last = at
	}
	w.in(time.Duration(at-w.now), event{kind: evDeliver, node: int32(to.index), ref: ref})
	if s.double != 0 && mix(chance^1)>>11 < s.double {
		again := w.flights.get()
		w.flights.all[again] = flight{message: *m, from: int32(n.index), cause: cause}
		w.in(noise.Delay+below(mix(chance^2), longest), event{kind: evDeliver, node: int32(to.index), ref: again})
	}
}

// unclog sends what a link held, all at once.
func (w *World) unclog(from, to int) {
	if len(w.links) == 0 {
		return
	}
	l := w.link(from, to)
	at := w.now + Time(w.schedule.Links.Delay)
	for _, ref := range l.held {
		at = max(at, l.last)
		l.last = at
		w.in(time.Duration(at-w.now), event{kind: evDeliver, node: int32(to), ref: ref})
	}
	l.held = l.held[:0]
}

// deliver handles a message, or a connection's end, at its receiver.
func (w *World) deliver(n *node, e event) {
	f := &w.flights.all[e.ref]
	from := w.nodes[f.from]
	if !f.arrived && w.shape(from, n).cut && (e.kind == evDeliver || f.ordinary) {
		if e.kind == evDeliver {
			w.tellMessage(RecordLost, from, n, &f.message, 0, f.cause, "cut off on its way")
		}
		w.flights.put(e.ref)
		return
	}
	if n.waits && e.kind == evDeliver {
		w.admit(n, f.message.Membership)
	}
	if !n.up {
		w.flights.put(e.ref)
		return
	}
	f = &w.flights.all[e.ref]
	f.arrived = true
	if e.kind == evDeliver && !n.frozen && (!w.reaches(n, from) || !w.admits(n, from, f.message.Incarnation)) {
		w.tellMessage(RecordLost, from, n, &f.message, 0, f.cause, "refused: another process with the id is connected")
		w.flights.put(e.ref)
		return
	}
	if n.frozen {
		w.shelve(n, e)
		return
	}
	sender := from.id
	if w.lies && e.kind == evDeliver {
		if sender = w.claimed(from, n); sender != from.id && w.protocol.Authenticated {
			w.tellMessage(RecordLost, from, n, &f.message, 0, f.cause, "refused: it says that it is of "+string(sender))
			w.flights.put(e.ref)
			return
		}
	}
	w.cause = f.cause
	w.input.From = sender
	if e.kind == evClosed {
		w.input.Kind, w.input.Incarnation = protocol.PeerClosed, f.closed
		w.flights.put(e.ref)
		w.step(n, &w.input)
		w.input.Incarnation = 0
	} else {
		w.input.Kind, w.input.Message = protocol.Receive, f.message
		w.flights.put(e.ref)
		w.step(n, &w.input)
		w.input.Message = protocol.Message{}
	}
	w.input.From = ""
}

// claimed is the id that n's messages to another participant bear. It differs from the receiver's
// own.
func (w *World) claimed(n, to *node) protocol.NodeID {
	for i := range w.ops {
		if op := w.op(i); w.ops[i].on && op.Kind == OpImpostor && op.Node == n.id && op.Peer != "" && op.Peer != to.id {
			return op.Peer
		}
	}
	return n.id
}

// hangUp tells every participant that is connected with n that the connection is closed, after the
// last messages have arrived.
func (w *World) hangUp(n *node) {
	for _, to := range w.nodes {
		if to == n || !to.up || !w.connected(n, to) || w.shape(n, to).cut || n.incarnation == 0 {
			continue
		}
		l := w.link(n.index, to.index)
		ref := w.flights.get()
		w.flights.all[ref] = flight{from: int32(n.index), closed: n.incarnation, cause: w.cause, ordinary: true}
		if w.shape(n, to).clogged {
			// The end waits behind the held messages; by then it is stale, and a hint may get lost.
			w.flights.put(ref)
			continue
		}
		at := max(w.now+Time(w.schedule.Links.Delay+w.shape(n, to).slow), l.last)
		l.last = at
		w.in(time.Duration(at-w.now), event{kind: evClosed, node: int32(to.index), ref: ref})
	}
}

// connected reports whether the present incarnations of two participants have exchanged anything.
// Participants that a store elects have no links.
func (w *World) connected(a, b *node) bool {
	if len(w.links) == 0 {
		return false
	}
	return w.link(a.index, b.index).conn == [2]uint32{a.life, b.life} || w.link(b.index, a.index).conn == [2]uint32{b.life, a.life}
}

// reset closes the connection between two live participants, and tells both.
func (w *World) reset(a, b *node) {
	if a == b || !a.up || !b.up || !w.connected(a, b) {
		return
	}
	w.link(a.index, b.index).conn, w.link(b.index, a.index).conn = [2]uint32{}, [2]uint32{}
	w.unmeet(a, b)
	for _, p := range [...][2]*node{{a, b}, {b, a}} {
		if p[0].incarnation == 0 {
			continue
		}
		ref := w.flights.get()
		w.flights.all[ref] = flight{from: int32(p[0].index), closed: p[0].incarnation, cause: w.cause}
		w.in(w.schedule.Links.Delay, event{kind: evClosed, node: int32(p[1].index), ref: ref})
	}
}

// replay delivers old messages of a link again, the youngest first.
func (w *World) replay(from, to, count int) {
	if len(w.links) == 0 {
		return
	}
	l := w.link(from, to)
	if l.old == nil {
		return
	}
	for i := range min(count, l.olds, len(l.old)) {
		ref := w.flights.get()
		w.flights.all[ref] = flight{message: l.old[(l.olds-1-i)%len(l.old)], from: int32(from)}
		w.in(w.schedule.Links.Delay+time.Duration(i), event{kind: evDeliver, node: int32(to), ref: ref})
	}
}

func (l *link) clone() link {
	c := *l
	c.held = slices.Clone(l.held)
	if l.old != nil {
		old := *l.old
		c.old = &old
	}
	return c
}
