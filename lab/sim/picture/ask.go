package picture

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// ask names a request among those of one node.
type ask struct{ life, number uint64 }

// storeName is no node's id.
const storeName = "the store"

// asks makes an arrow of a request to the store.
func (r *reader) asks(c int, t int64, n, life uint64, a *protocol.Ask) {
	if r.store < 0 {
		r.store = r.column(storeName)
		r.columns[r.store].up[0] = true
		r.columns[r.store].open = span{up, r.start, r.start}
	}
	v := &r.columns[c].view
	m := &message{kind: a.Op.String(), from: c, to: r.store, sent: t, fate: flying, life: life}
	switch a.Op {
	case protocol.Write, protocol.Delete, protocol.CloseSession, protocol.Leave, protocol.Touch:
		m.changes = true
	}
	// Routine are the requests of a steady leader, and of the ones that only watch.
	switch a.Op {
	case protocol.KeepAlive:
		m.routine = true
	case protocol.Read, protocol.Verify:
		m.routine = v.Elected || v.Role == protocol.Follower && !r.stands
	default:
		m.routine = v.Elected
	}
	r.messages = append(r.messages, m)
	r.sends[n] = append(r.sends[n], m)
	r.columns[c].asked[ask{life, a.Number}] = m
}

// replied ends the arrow of a request, and makes another of its answer.
func (r *reader) replied(c int, t int64, e *trace.Event) {
	a := &e.Input.Answer
	key := ask{e.Life, a.Number}
	m, ok := r.columns[c].asked[key]
	if !ok || r.store < 0 {
		return
	}
	half := m.sent + (t-m.sent)/2
	if a.Status == protocol.StatusEvent || a.Status == protocol.StatusClosed {
		// A watch was set when it was asked for; its event comes by itself.
		way := r.columns[c].way
		if m.fate == flying {
			m.fate, m.at = arrived, m.sent+way
		}
		event := &message{kind: a.Status.String(), from: r.store, to: c, sent: max(t-way, m.at), at: t, fate: arrived}
		for _, by := range r.sends[e.Cause] {
			if by.to == r.store && by.fate != lost && by.changes {
				event.because = by
			}
		}
		// It is routine if nothing comes of it.
		event.routine = e.Effects == nil || len(e.Effects.Asks)+len(e.Effects.Orders) == 0
		r.messages = append(r.messages, event)
		return
	}
	delete(r.columns[c].asked, key)
	if a.Status == protocol.StatusUnknown {
		m.fate = lost
		return
	}
	r.columns[c].way = t - half
	if m.fate != arrived {
		m.fate, m.at = arrived, half
	}
	r.messages = append(r.messages, &message{kind: m.kind, from: r.store, to: c, sent: m.at, at: t, fate: arrived, routine: m.routine, reply: true, because: m})
}
