package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// Recorder is a [Tracer] that writes a trace in the schema of package trace. It omits what the
// steps imply: when a message leaves, and when a save is durable; and writes to the guarded
// resource. It belongs to the goroutine that drives the world, and holds one event in memory.
type Recorder struct {
	enc    *trace.Encoder
	world  *World
	events *TraceEvents
	err    error
}

// NewRecorder writes the header of w's trace; w has not stepped yet. build is the version of the
// program, and may be empty. The caller passes the recorder to w.Trace, and calls Close at the end.
func NewRecorder(out io.Writer, w *World, build string) (*Recorder, error) {
	s := *w.schedule
	s.Expected = nil
	schedule, err := json.Marshal(&s)
	if err != nil {
		return nil, err
	}
	events, err := NewTraceEvents(w)
	if err != nil {
		return nil, err
	}
	h := &trace.Header{
		Format: trace.Format, Protocol: w.protocol.Name, Source: trace.Sim, Seed: s.Seed, Schedule: schedule, Build: build,
	}
	for i, n := range w.nodes[:w.width] {
		h.Nodes = append(h.Nodes, trace.Node{ID: n.id, Config: events.configs[i]})
	}
	r := &Recorder{world: w, events: events}
	r.enc, err = trace.NewEncoder(out, h)
	return r, err
}

// Event implements [Tracer].
func (r *Recorder) Event(w *World, rec *Record) {
	if r.err != nil {
		return
	}
	var e trace.Event
	ok := false
	if ok, r.err = r.events.Event(w, rec, &e); ok && r.err == nil {
		r.err = r.enc.Event(&e)
	}
}

// Err is the writer's error, after which nothing is written, or nil.
func (r *Recorder) Err() error { return r.err }

// Close writes the end of the trace, with the hash of the run, if the run is
// over. It returns the first error of the writer.
func (r *Recorder) Close() error {
	if w := r.world; w.over && r.err == nil {
		e := &trace.Event{N: r.events.last + 1, At: int64(w.now), Kind: trace.End, Hash: fmt.Sprintf("%016x", w.hash)}
		if w.violation != nil {
			e.Invariant = string(w.violation.Invariant)
		}
		r.err = r.enc.Event(e)
	}
	return r.err
}

// TraceEvents makes events of a trace from the records of one world, in their order.
type TraceEvents struct {
	configs [][]byte // of the header, by index
	changed []byte   // the config of the incarnation that boots next, if it is another
	lives   map[protocol.NodeID]uint64
	life    []uint64 // by index: the number of the running process
	panics  string   // the panic of the machine whose step comes next
	last    uint64
}

// NewTraceEvents is for the records of w from now on.
func NewTraceEvents(w *World) (*TraceEvents, error) {
	t := &TraceEvents{lives: make(map[protocol.NodeID]uint64)}
	for _, n := range w.nodes[:w.width] {
		config, err := configOf(w.participant(n))
		if err != nil {
			return nil, err
		}
		t.configs = append(t.configs, config)
	}
	return t, nil
}

// Event sets e, and returns false for a record that is no event of a trace. What e refers to is
// valid as long as the record is.
func (t *TraceEvents) Event(w *World, rec *Record, e *trace.Event) (bool, error) {
	*e = trace.Event{N: rec.Number, Cause: rec.Cause, At: int64(rec.At), Node: rec.Node, Now: rec.Reading, Says: rec.Says}
	if rec.Index >= 0 {
		for rec.Index >= len(t.life) {
			t.life = append(t.life, 0)
		}
		e.Life = t.life[rec.Index]
	}
	switch rec.Kind {
	case RecordMake:
		return false, t.made(rec)
	case RecordStep:
		e.Kind, e.Now = trace.Step, protocol.Reading{}
		e.Input, e.Effects, e.View = rec.Input, rec.Effects, rec.View
		if rec.Input.Kind == protocol.Boot {
			e.Config, t.changed = t.changed, nil
		}
		if t.panics != "" {
			e.Panic, e.Effects, t.panics = t.panics, nil, ""
		}
	case RecordDeath:
		e.Kind = trace.Down
	case RecordFreeze:
		e.Kind = trace.Freeze
	case RecordThaw:
		e.Kind = trace.Thaw
	case RecordLost:
		e.Kind, e.Send = trace.Lost, &protocol.Send{To: rec.Peer, Message: *rec.Message}
	case RecordFault:
		e.Kind, e.Says = trace.Fault, rec.Op.String()
	case RecordFaultEnd:
		e.Kind, e.Says = trace.Heal, rec.Op.String()
	case RecordHeal:
		e.Kind, e.Says = trace.Heal, "the faults are over"
		if len(w.schedule.Core) > 0 {
			var core []protocol.NodeID
			for _, n := range w.nodes[:w.width] {
				if w.inCore(n) {
					core = append(core, n.id)
				}
			}
			e.Says += "; connected: " + ids(core)
		}
	case RecordViolation:
		e.Kind = trace.Violation
		invariant, says, _ := strings.Cut(rec.Says, ": ")
		e.Invariant, e.Says = invariant, says
		if Invariant(invariant) == NoPanic && w.busy && rec.Node != "" {
			t.panics = says
		}
	default: // RecordSend, RecordDurable, RecordWrite; RecordEnd is written by Recorder.Close
		return false, nil
	}
	if e.Node != "" && w.index(e.Node) < 0 {
		e.Node = "" // an operation without a node
	}
	t.last = e.N
	return true, nil
}

// made records the start of a process.
func (t *TraceEvents) made(rec *Record) error {
	t.lives[rec.Node]++
	t.life[rec.Index] = t.lives[rec.Node]
	config, err := configOf(*rec.Made)
	if err != nil {
		return err
	}
	if t.changed = nil; !bytes.Equal(config, t.configs[rec.Made.Index]) {
		t.changed = config
	}
	return nil
}

// made is a [Participant] as a trace has it.
type made struct {
	Self       protocol.Voter       `json:"self"`
	Index      int                  `json:"index"`
	Observer   bool                 `json:"observer,omitempty"`
	Membership *protocol.Membership `json:"membership,omitempty"`
	Config     json.RawMessage      `json:"config,omitempty"`
	Work       Work                 `json:"work"`
}

func configOf(p Participant) ([]byte, error) { return json.Marshal(made(p)) }

// Maker makes machines of p from a trace that a [Recorder] wrote, for [trace.Verify].
func Maker(p *Protocol) trace.Maker {
	return func(_ protocol.NodeID, config json.RawMessage) (protocol.Machine, error) {
		var m made
		d := json.NewDecoder(bytes.NewReader(config))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		if m.Membership != nil {
			if err := m.Membership.Validate(); err != nil {
				return nil, err
			}
		}
		return p.New(Participant(m))
	}
}

// String is the operation in a few words, such as "isolate n3 for 2s".
func (op *Op) String() string {
	var b strings.Builder
	b.WriteString(string(op.Kind))
	if op.Node != "" {
		b.WriteString(" " + string(op.Node))
	}
	if op.Peer != "" {
		b.WriteString(" → " + string(op.Peer))
	}
	if len(op.Group) > 0 {
		b.WriteString(" {" + ids(op.Group) + "}")
	}
	if op.Value != 0 {
		b.WriteString(" " + strconv.FormatFloat(op.Value, 'g', 3, 64))
	}
	if op.Count != 0 {
		b.WriteString(" #" + strconv.Itoa(op.Count))
	}
	for _, d := range []struct {
		word string
		d    time.Duration
	}{{"by", op.By}, {"every", op.Every}, {"for", op.For}} {
		if d.d != 0 {
			b.WriteString(" " + d.word + " " + d.d.String())
		}
	}
	return b.String()
}

func ids(all []protocol.NodeID) string {
	var names []string
	for _, id := range all {
		names = append(names, string(id))
	}
	return strings.Join(names, ", ")
}
