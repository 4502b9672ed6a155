package count

import "github.com/electd/elect/internal/protocol"

// chunk is how many hops are allocated together.
const chunk = 8192

// hop is a message on its way: from one machine to each of n in a row. A
// hundred million may be under way at once, so it is small.
type hop struct {
	from, to, n uint16
	message     uint32
}

// hops is a queue that gives its memory back as it is emptied.
type hops struct {
	chunks [][]hop
	spare  []hop
	read   int
	count  int
}

func (q *hops) empty() bool { return q.count == 0 }

// last is the hop that was pushed last, nil if there is none.
func (q *hops) last() *hop {
	if q.count == 0 {
		return nil
	}
	c := q.chunks[len(q.chunks)-1]
	return &c[len(c)-1]
}

func (q *hops) push(h hop) {
	if n := len(q.chunks); n == 0 || len(q.chunks[n-1]) == chunk {
		c := q.spare
		if q.spare = nil; c == nil {
			c = make([]hop, 0, chunk)
		}
		q.chunks = append(q.chunks, c[:0])
	}
	c := &q.chunks[len(q.chunks)-1]
	*c = append(*c, h)
	q.count++
}

func (q *hops) pop() hop {
	c := q.chunks[0]
	h := c[q.read]
	q.read++
	q.count--
	if q.read == len(c) {
		q.read = 0
		q.spare = c
		q.chunks[0] = nil
		q.chunks = q.chunks[1:]
	}
	return h
}

// messages holds each message once, however many are under way.
type messages struct {
	all   []shared
	free  []uint32
	newer []uint32 // by sender: the one that it wrote last, plus 1
}

type shared struct {
	message protocol.Message
	refs    int
}

// of returns the entry of that message, which gets one more reference.
func (l *messages) of(from int, m *protocol.Message) uint32 {
	if last := l.newer[from]; last != 0 && same(&l.all[last-1].message, m) {
		l.all[last-1].refs++
		return last - 1
	}
	var id uint32
	if n := len(l.free); n > 0 {
		id, l.free = l.free[n-1], l.free[:n-1]
	} else {
		id = uint32(len(l.all))
		l.all = append(l.all, shared{})
	}
	l.all[id] = shared{message: *m, refs: 2} // one is that of newer
	if last := l.newer[from]; last != 0 {
		l.drop(last - 1)
	}
	l.newer[from] = id + 1
	return id
}

func (l *messages) drop(id uint32) {
	if l.all[id].refs--; l.all[id].refs == 0 {
		l.all[id] = shared{}
		l.free = append(l.free, id)
	}
}

// same reports whether two messages are equal. What they point to is immutable,
// so equal pointers will do. A test holds that no field is forgotten.
func same(a, b *protocol.Message) bool {
	return a.Type == b.Type && a.Term == b.Term && a.Round == b.Round && a.Seq == b.Seq && a.Granted == b.Granted &&
		a.Dir == b.Dir && a.Incarnation == b.Incarnation && a.Membership == b.Membership && a.Echo == b.Echo &&
		a.Promise == b.Promise && a.Residual == b.Residual && a.PrevTerm == b.PrevTerm && a.RetryAfter == b.RetryAfter &&
		a.Unhealthy == b.Unhealthy && a.Reason == b.Reason && a.Priority == b.Priority && a.Position == b.Position &&
		a.Held == b.Held && a.Handover == b.Handover && a.Leader == b.Leader && sameRanking(a.Ranking, b.Ranking) &&
		a.Metadata == b.Metadata && a.Body == b.Body && a.Clock == b.Clock && a.Jumps == b.Jumps
}

func sameRanking(a, b []protocol.NodeID) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
