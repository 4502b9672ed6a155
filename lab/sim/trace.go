package sim

import "github.com/electd/elect/internal/protocol"

// Tracer receives every event of a run while it happens. What it is given is valid during the call
// only, and must not be changed.
type Tracer interface {
	Event(w *World, rec *Record)
}

// RecordKind is the kind of a [Record].
type RecordKind string

// The kinds.
const (
	RecordMake      RecordKind = "make"      // a process starts; Made is what its machine was made for
	RecordStep      RecordKind = "step"      // a machine was stepped: Input, Effects, View
	RecordDeath     RecordKind = "death"     // a process is dead; Says is how it died
	RecordFreeze    RecordKind = "freeze"    // a process is stopped, or its machine sleeps
	RecordThaw      RecordKind = "thaw"      // it runs again
	RecordSend      RecordKind = "send"      // a message leaves for Peer, the Count-th of its link; Message
	RecordLost      RecordKind = "lost"      // that message is lost; Says is why
	RecordDurable   RecordKind = "durable"   // a save is on the disk
	RecordWrite     RecordKind = "write"     // a write reaches the guarded resource; Count is its token, Says is what became of it
	RecordFault     RecordKind = "fault"     // an operation begins; Op
	RecordFaultEnd  RecordKind = "fault-end" // an operation ends; Op
	RecordHeal      RecordKind = "heal"      // the faults are over
	RecordViolation RecordKind = "violation" // an invariant does not hold; Says is which, and why
	RecordEnd       RecordKind = "end"       // the run is over
)

// Record is one line of a trace. Each kind documents which fields it uses.
type Record struct {
	Number uint64 // of the record, from 1 since Trace
	// Cause is the number of the record that caused this one: a step, an operation, a death, a
	// freeze, a thaw or the healing. That of a receipt is the step that sent the message. 0 is the
	// world itself, or a record from before Trace.
	Cause uint64
	Event uint64 // how many events had happened, this one included
	At    Time
	Kind  RecordKind

	Node    protocol.NodeID // empty: the world
	Index   int             // of the node, -1 for the world; a twin has one of its own
	Life    uint32
	Reading protocol.Reading // what the node's clocks show

	Made    *Participant
	Input   *protocol.Input
	Effects *protocol.Effects
	View    *protocol.View

	Peer    protocol.NodeID
	Count   uint64
	Message *protocol.Message
	Op      *Op
	Says    string
}

// Trace makes t receive what happens from now on; nil ends that. It has no influence on the run.
func (w *World) Trace(t Tracer) {
	w.tracer, w.record, w.cause, w.causes = t, 0, 0, nil
	if t != nil {
		w.causes = make(map[uint64]uint64)
	}
}

// recordOf begins a record.
func (w *World) recordOf(n *node, kind RecordKind) Record {
	w.record++
	r := Record{Number: w.record, Cause: w.cause, Event: w.events, At: w.now, Kind: kind, Index: -1}
	if n != nil {
		r.Node, r.Index, r.Life, r.Reading = n.id, n.index, n.life, w.reading(n)
	}
	return r
}

func (w *World) tell(n *node, kind RecordKind, says string) {
	if w.tracer == nil {
		return
	}
	r := w.recordOf(n, kind)
	r.Says = says
	if kind == RecordMake {
		p := w.participant(n)
		r.Made = &p
	}
	w.tracer.Event(w, &r)
	switch kind {
	case RecordDeath, RecordFreeze, RecordThaw, RecordHeal:
		w.cause = r.Number
	}
}

// traceStep records a step. Its effects have it as their cause.
func (w *World) traceStep(n *node, in *protocol.Input) {
	r := w.recordOf(n, RecordStep)
	r.Input, r.Effects, r.View = in, &w.fx, &n.view
	w.cause = r.Number
	w.tracer.Event(w, &r)
}

func (w *World) tellOp(kind RecordKind, op *Op) {
	if w.tracer == nil {
		return
	}
	r := w.recordOf(nil, kind)
	r.Op, r.Node = op, op.Node
	w.cause = r.Number
	w.tracer.Event(w, &r)
}

// tellMessage records an event of a message that was sent in the record cause.
func (w *World) tellMessage(kind RecordKind, n *node, to *node, m *protocol.Message, count, cause uint64, says string) {
	if w.tracer == nil {
		return
	}
	r := w.recordOf(n, kind)
	r.Cause, r.Peer, r.Message, r.Count, r.Says = cause, to.id, m, count, says
	w.tracer.Event(w, &r)
}
