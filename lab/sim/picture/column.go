package picture

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// column is a node, or the store.
type column struct {
	id     string
	acts   int // how much of note happens in it
	up     map[uint64]bool
	frozen bool
	lives  int
	saved  map[uint64]uint64 // by life: the latest save that is durable
	view   protocol.View

	base, now sample // for the rate of its clock
	spans     []span // closed ones
	open      span
	ice       []span     // while it is frozen; the last one may be open
	waiting   []*message // for a save
	asked     map[ask]*message
	way       int64 // half of the time that the last answer took
}

type sample struct {
	at   int64
	boot protocol.Instant
	ok   bool
}

// state is what a column's line is at a time.
type state uint8

const (
	down state = iota
	up
	elected
	proven
)

// span is a time in one state.
type span struct {
	state    state
	from, to int64
}

func (r *reader) column(id protocol.NodeID) int {
	i, ok := r.index[id]
	if !ok {
		i = len(r.columns)
		r.index[id] = i
		r.columns = append(r.columns, column{id: string(id), up: make(map[uint64]bool), saved: make(map[uint64]uint64), asked: make(map[ask]*message)})
	}
	return i
}

// freeze begins or ends a time in which the processes of a column stand still.
func (r *reader) freeze(c int, t int64, begin bool) {
	col := &r.columns[c]
	switch {
	case begin && !col.frozen:
		col.ice = append(col.ice, span{up, t, t})
	case !begin && col.frozen:
		col.ice[len(col.ice)-1].to = t
	}
	col.frozen = begin
}

// turn notes what a column's line is from now on.
func (r *reader) turn(c int, t int64) {
	col := &r.columns[c]
	now := down
	switch {
	case len(col.up) == 0:
	case col.view.Elected && col.view.Active:
		now = proven
	case col.view.Elected:
		now = elected
	default:
		now = up
	}
	r.shut(c, t)
	end := t
	if now == proven {
		end = col.until()
	}
	col.open = span{now, t, end}
}

// shut ends the open span at t. What was proven may have lapsed before.
func (r *reader) shut(c int, t int64) {
	col := &r.columns[c]
	s := col.open
	if s.state == proven && s.to < t {
		col.add(span{proven, s.from, max(s.to, s.from)})
		s.state, s.from = elected, max(s.to, s.from)
	}
	s.to = t
	col.add(s)
}

// add appends a span, and joins those of one state.
func (c *column) add(s span) {
	if n := len(c.spans); n > 0 && c.spans[n-1].state == s.state && c.spans[n-1].to == s.from {
		c.spans[n-1].to = s.to
		return
	}
	if s.to > s.from && s.state != down {
		c.spans = append(c.spans, s)
	}
}

// until is when the lease ends, by the rate of the column's clock so far.
func (c *column) until() int64 {
	if c.view.LeaseEnd == protocol.Never {
		return 1<<62 - 1
	}
	left := float64(c.view.LeaseEnd.Sub(c.now.boot))
	if passed, shown := c.now.at-c.base.at, c.now.boot.Sub(c.base.boot); shown > 50_000_000 {
		left *= float64(passed) / float64(shown)
	}
	return c.now.at + int64(left)
}

// alive reports whether the column is up at a time.
func (c *column) alive(t int64) bool {
	return slices.ContainsFunc(c.spans, func(s span) bool { return s.from <= t && t < s.to })
}
