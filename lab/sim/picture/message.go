package picture

import (
	"reflect"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// fate is what became of a message.
type fate uint8

const (
	unsent  fate = iota // it waits for a save
	flying              // nothing is known
	arrived             // at
	lost
	unknown // its receipt is all that is known
	wasted  // its receiver is down
)

// message is one arrow.
type message struct {
	kind     string
	from, to int // columns
	sent, at int64
	fate     fate
	routine  bool
	life     uint64
	after    uint64 // it waits for that save
	whole    protocol.Message

	changes bool     // it asks the store to change what others may watch
	reply   bool     // it answers a request to the store, and has its kind
	because *message // its cause at the store, which must have arrived before
}

// early reports whether all that is known of a message was over before a time.
func (m *message) early(from int64) bool {
	over := m.sent
	if m.fate == arrived || m.fate == unknown {
		over = m.at
	}
	return over < from && m.fate != unsent
}

// sending makes an arrow of a message that is to be sent.
func (r *reader) sending(c int, t int64, e *trace.Event, s *protocol.Send, announces bool) {
	m := &message{kind: string(s.Message.Type), from: c, to: r.column(s.To), sent: t, fate: flying, life: e.Life, after: s.After, whole: s.Message}
	m.routine = !announces && r.o.Faint(&s.Message)
	r.messages = append(r.messages, m)
	if s.After > r.columns[c].saved[e.Life] {
		m.fate = unsent
		r.columns[c].waiting = append(r.columns[c].waiting, m)
	}
	if len(r.sends[e.N]) == 0 {
		r.order = append(r.order, e.N)
		if len(r.order) > remembered {
			delete(r.sends, r.order[0])
			r.order = r.order[1:]
		}
	}
	r.sends[e.N] = append(r.sends[e.N], m)
}

// leave sends the messages that waited for a save.
func (r *reader) leave(c int, t int64, life uint64) {
	col := &r.columns[c]
	col.waiting = slices.DeleteFunc(col.waiting, func(m *message) bool {
		if m.life != life || m.after > col.saved[life] {
			return false
		}
		if m.fate == unsent {
			m.fate, m.sent = flying, t
		}
		return true
	})
}

// drop drops the messages that a dead process had not sent.
func (r *reader) drop(c int, life uint64) {
	r.columns[c].waiting = slices.DeleteFunc(r.columns[c].waiting, func(m *message) bool { return m.life == life })
}

// received ends the arrow of the message.
func (r *reader) received(c int, t int64, e *trace.Event) {
	in := e.Input
	var twice *message
	for _, m := range r.sends[e.Cause] {
		if m.to != c || !reflect.DeepEqual(m.whole, in.Message) {
			continue
		}
		if m.fate == flying || m.fate == unsent {
			if m.fate == unsent {
				m.sent = t
			}
			m.fate, m.at = arrived, t
			return
		}
		twice = m
	}
	if twice != nil { // it was doubled on its way
		again := *twice
		again.fate, again.at = arrived, t
		r.messages = append(r.messages, &again)
		return
	}
	r.messages = append(r.messages, &message{
		kind: string(in.Message.Type), from: r.column(in.From), to: c, sent: t, at: t, fate: unknown, routine: r.o.Faint(&in.Message), whole: in.Message,
	})
}

func (r *reader) lost(e *trace.Event) {
	for _, m := range r.sends[e.Cause] {
		if (m.fate == flying || m.fate == unsent) && r.columns[m.to].id == string(e.Send.To) && reflect.DeepEqual(m.whole, e.Send.Message) {
			m.fate = lost
			return
		}
	}
}

// reconcile makes the store answer no earlier than it can know, and finds the messages whose
// receivers were down.
func (r *reader) reconcile() {
	for _, m := range r.messages {
		if by := m.because; by != nil && !m.reply && by.fate == arrived && by.at > m.at-(m.at-by.sent)/2 {
			by.at = by.sent + (m.at-by.sent)/2
		}
	}
	for _, m := range r.messages {
		if by := m.because; by != nil && by.fate == arrived && by.at <= m.at {
			m.sent = by.at
		}
		if m.fate == flying && m.to != r.store && m.sent < r.last && !r.columns[m.to].alive(m.sent) {
			m.fate = wasted
		}
	}
}
