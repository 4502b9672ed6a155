package picture

import (
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// reader reads a trace.
type reader struct {
	o        *Options
	header   *trace.Header
	index    map[protocol.NodeID]int
	columns  []column
	store    int  // its column, or -1
	stands   bool // the node stands after the present step
	began    bool
	start    int64 // the first event's time
	from, to int64
	last     int64
	dropped  int   // routine messages that were forgotten
	cut      int64 // when reading ended because there was too much, or 0

	sends    map[uint64][]*message // by step
	order    []uint64              // of sends, to forget the oldest
	messages []*message
	notes    []note
	marks    []mark
}

// remembered is how many steps' messages may be under way at once.
const remembered = 1 << 16

func newReader(h *trace.Header, o *Options) *reader {
	r := &reader{o: o, header: h, index: make(map[protocol.NodeID]int), store: -1, sends: make(map[uint64][]*message)}
	for _, n := range h.Nodes {
		r.column(n.ID)
	}
	return r
}

// time is when an event happened. A recorder knows its own clock only.
func (r *reader) time(e *trace.Event) int64 {
	if r.header.Source == trace.Recorder && e.At == 0 {
		return int64(e.Reading().Boot)
	}
	return e.At
}

// event takes an event in; false if it and all that follow are too late.
func (r *reader) event(e *trace.Event) bool {
	t := max(r.time(e), r.last)
	if !r.began {
		r.began, r.start = true, t
		r.from, r.to = t+int64(r.o.From), t+int64(r.o.To)
	}
	if r.o.To > 0 && t > r.to || r.full(t) {
		return false
	}
	r.last = t
	c := -1
	if e.Node != "" {
		c = r.column(e.Node)
	}
	switch e.Kind {
	case trace.Step:
		r.step(c, t, e)
	case trace.State:
		r.columns[c].up[e.Life] = true
		r.columns[c].view = *e.View
		r.turn(c, t)
	case trace.Down:
		delete(r.columns[c].up, e.Life)
		if len(r.columns[c].up) == 0 {
			r.columns[c].view = protocol.View{}
			r.freeze(c, t, false)
		}
		r.drop(c, e.Life)
		r.note(c, t, "down", "bad")
		r.turn(c, t)
	case trace.Freeze, trace.Thaw:
		r.freeze(c, t, e.Kind == trace.Freeze)
		says := "runs again"
		if e.Kind == trace.Freeze {
			says = "frozen"
		}
		r.note(c, t, says, "bad")
		r.turn(c, t)
	case trace.Lost:
		r.lost(e)
	case trace.Fault:
		r.mark(t, e.Says, false)
	case trace.Heal:
		says := e.Says
		if says != "the faults are over" {
			says = "ends: " + says
		}
		r.mark(t, says, false)
	case trace.Violation:
		r.mark(t, strings.TrimSuffix(e.Invariant+": "+e.Says, ": "), true)
	}
	return true
}

// full reports whether no more can be kept. What is over before the drawn time is dropped first,
// and then what is routine.
func (r *reader) full(t int64) bool {
	if len(r.messages) <= held {
		return false
	}
	routine := 0
	for pass := range 2 {
		r.messages = slices.DeleteFunc(r.messages, func(m *message) bool {
			if m.early(r.from) {
				return true
			}
			if pass == 1 && m.routine {
				routine++
				return true
			}
			return false
		})
		if len(r.messages) <= held/2 {
			break
		}
	}
	r.dropped += routine
	if len(r.messages) > held/2 {
		r.cut = t
	}
	return r.cut > 0
}

// held is how many messages are kept at most.
const held = 1 << 16

func (r *reader) step(c int, t int64, e *trace.Event) {
	col := &r.columns[c]
	if col.now.ok && e.Input.Now.Boot < col.now.boot || e.Input.Kind == protocol.Boot {
		col.base.ok = false
	}
	col.now = sample{t, e.Input.Now.Boot, true}
	if !col.base.ok {
		col.base = col.now
	}
	switch e.Input.Kind {
	case protocol.Boot:
		if col.lives++; col.lives > 1 {
			r.note(c, t, "starts again", "")
		}
		col.up[e.Life] = true
	case protocol.Receive:
		r.received(c, t, e)
	case protocol.Saved:
		if !e.Input.Failed {
			col.saved[e.Life] = max(col.saved[e.Life], e.Input.Number)
			r.leave(c, t, e.Life)
		}
	case protocol.Replied:
		r.replied(c, t, e)
	}
	announces := false
	r.stands = e.View.Role != protocol.Follower
	if fx := e.Effects; fx != nil {
		for _, o := range fx.Orders {
			announces = announces || o.Kind == protocol.Elected
			r.told(c, t, &o)
		}
		for i := range fx.Sends {
			r.sending(c, t, e, &fx.Sends[i], announces)
		}
		for i := range fx.Asks {
			r.asks(c, t, e.N, e.Life, &fx.Asks[i])
		}
	}
	r.role(c, t, e.View)
	r.columns[c].view = *e.View
	r.turn(c, t)
}

// close ends all that goes on.
func (r *reader) close() {
	end := r.last
	if r.o.To > 0 {
		end = min(r.to, r.last)
	}
	for c := range r.columns {
		r.shut(c, end)
		r.freeze(c, end, false)
	}
	r.reconcile()
	r.messages = slices.DeleteFunc(r.messages, func(m *message) bool {
		return m.fate == unsent || m.early(r.from) || m.sent > end || m.sent == end && r.o.To > 0
	})
	for _, m := range r.messages {
		if !m.routine {
			r.columns[m.from].acts++
			r.columns[m.to].acts++
		}
	}
}

// times are all times at which something is drawn, each once, by rising order.
func (r *reader) times() []int64 {
	var all []int64
	for _, m := range r.messages {
		all = append(all, max(m.sent, r.from))
		if m.fate == arrived {
			all = append(all, m.at)
		}
	}
	for _, n := range r.notes {
		all = append(all, n.at)
	}
	for _, m := range r.marks {
		all = append(all, m.at)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
