package trace

import (
	"fmt"
	"strconv"

	"github.com/electd/elect/internal/protocol"
)

// The rows of a node in a Chrome trace.
const (
	rowSteps = iota + 1
	rowRole
	rowLeadership
	rowProcess
)

var rowNames = [...]string{rowSteps: "steps", rowRole: "role", rowLeadership: "leadership", rowProcess: "process"}

// chromeEvent is an entry of the Trace Event Format, which chrome://tracing and
// Perfetto read (Google, "Trace Event Format", 2016). Times are microseconds.
type chromeEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	At    jsonMicros     `json:"ts"`
	For   jsonMicros     `json:"dur,omitzero"`
	Node  int            `json:"pid"`
	Row   int            `json:"tid,omitempty"`
	ID    uint64         `json:"id,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// jsonMicros is nanoseconds, written as microseconds without loss.
type jsonMicros int64

// MarshalJSON implements json.Marshaler.
func (m jsonMicros) MarshalJSON() ([]byte, error) {
	text := strconv.FormatInt(int64(m)/1000, 10)
	if rest := int64(m) % 1000; rest != 0 {
		text += fmt.Sprintf(".%03d", rest)
	}
	return []byte(text), nil
}

// span is something that goes on in a row.
type span struct {
	name  string
	since int64
}

// lane is a process of a node while it is converted.
type lane struct {
	index int
	spans [rowProcess + 1]span
	up    map[uint64]bool // lives
}

// Chrome writes a trace in the form that chrome://tracing and ui.perfetto.dev
// open: a group of rows for each node (its steps, its role, whether it is
// elected or its lease proven, whether it is up), arrows from sender to
// receiver, and marks for faults and violations.
func Chrome(w Writer, d *Decoder) error {
	c := &chrome{w: w, lanes: make(map[protocol.NodeID]*lane)}
	c.text(`{"displayTimeUnit":"ms","traceEvents":[`)
	c.put(&chromeEvent{Name: "process_name", Phase: "M", Args: map[string]any{"name": "world"}})
	for i, n := range d.Header().Nodes {
		c.lanes[n.ID] = &lane{index: i + 1, up: make(map[uint64]bool)}
		c.put(&chromeEvent{Name: "process_name", Phase: "M", Node: i + 1, Args: map[string]any{"name": n.ID}})
		c.put(&chromeEvent{Name: "process_sort_index", Phase: "M", Node: i + 1, Args: map[string]any{"sort_index": i + 1}})
		for row := rowSteps; row <= rowProcess; row++ {
			c.put(&chromeEvent{Name: "thread_name", Phase: "M", Node: i + 1, Row: row, Args: map[string]any{"name": rowNames[row]}})
		}
	}
	last := int64(0)
	sent := make(map[uint64]origin)
	for e, err := range d.Events() {
		if err != nil {
			return err
		}
		at := e.Time(d.Header())
		last = max(last, at)
		c.event(e, at, sent)
	}
	for _, n := range d.Header().Nodes {
		l := c.lanes[n.ID]
		for row := range l.spans {
			c.change(l, row, "", last)
		}
	}
	c.text("\n]}\n")
	return c.err
}

// origin is where an arrow begins.
type origin struct {
	index int
	at    int64
}

// Time is when the event was: by the shared clock, or where there is none by
// the node's own.
func (e *Event) Time(h *Header) int64 {
	if h.Source == Recorder {
		return int64(e.Reading().Boot)
	}
	return e.At
}

type chrome struct {
	w     Writer
	lanes map[protocol.NodeID]*lane
	count int
	err   error
}

func (c *chrome) text(text string) {
	if c.err == nil {
		_, c.err = c.w.Write([]byte(text))
	}
}

func (c *chrome) put(e *chromeEvent) {
	text, err := canonical(e)
	if c.err == nil {
		c.err = err
	}
	if c.count++; c.count > 1 {
		c.text(",")
	}
	c.text("\n" + string(text[:max(len(text)-1, 0)]))
}

// change ends what goes on in the row, unless it is this, and begins it.
func (c *chrome) change(l *lane, row int, name string, at int64) {
	s := &l.spans[row]
	if s.name == name {
		return
	}
	if s.name != "" {
		c.put(&chromeEvent{Name: s.name, Phase: "X", At: jsonMicros(s.since), For: jsonMicros(max(at-s.since, 1)), Node: l.index, Row: row})
	}
	*s = span{name, at}
}

func (c *chrome) event(e *Event, at int64, sent map[uint64]origin) {
	l := c.lanes[e.Node]
	switch e.Kind {
	case Step:
		c.step(l, e, at, sent)
	case State:
		l.up[e.Life] = true
		c.change(l, rowProcess, "up", at)
		c.seen(l, e.View, at)
	case Down:
		delete(l.up, e.Life)
		if len(l.up) == 0 {
			for row := range l.spans {
				c.change(l, row, "", at)
			}
			c.change(l, rowProcess, "down", at)
		}
	case Freeze:
		c.change(l, rowProcess, "frozen", at)
	case Thaw:
		c.change(l, rowProcess, "up", at)
	case End:
	default:
		mark := &chromeEvent{Name: string(e.Kind), Cat: string(e.Kind), Phase: "i", Scope: "g", At: jsonMicros(at), Args: map[string]any{"n": e.N}}
		if l != nil {
			mark.Node, mark.Row, mark.Scope = l.index, rowSteps, "p"
		}
		if e.Turn != nil {
			mark.Name = e.Turn.String()
		}
		if e.Says != "" {
			mark.Name += ": " + e.Says
		}
		if e.Kind == Violation {
			mark.Scope = "g"
			mark.Args["invariant"] = e.Invariant
		}
		c.put(mark)
	}
}

func (c *chrome) step(l *lane, e *Event, at int64, sent map[uint64]origin) {
	in, v := e.Input, e.View
	slice := &chromeEvent{
		Name: in.Kind.String(), Cat: in.Kind.String(), Phase: "X", At: jsonMicros(at), For: 1, Node: l.index, Row: rowSteps,
		Args: map[string]any{"n": e.N, "view": v},
	}
	switch in.Kind {
	case protocol.Boot:
		l.up[e.Life] = true
		c.change(l, rowProcess, "up", at)
	case protocol.Receive:
		slice.Name = fmt.Sprintf("%s from %s", in.Message.Type, in.From)
		slice.Args["message"] = &in.Message
	case protocol.Replied:
		slice.Name = fmt.Sprintf("answer %d: %s", in.Answer.Number, in.Answer.Status)
		slice.Args["answer"] = &in.Answer
	case protocol.Do:
		slice.Name = in.Command.Verb.String()
	}
	if e.Effects != nil {
		slice.Args["effects"] = e.Effects
	}
	c.put(slice)
	if from, ok := sent[e.Cause]; ok && (in.Kind == protocol.Receive || in.Kind == protocol.Replied) {
		arrow := chromeEvent{Name: slice.Name, Cat: "message", Phase: "s", At: jsonMicros(from.at), Node: from.index, Row: rowSteps, ID: e.N}
		c.put(&arrow)
		arrow.Phase, arrow.At, arrow.Node, arrow.Bind = "f", jsonMicros(at), l.index, "e"
		c.put(&arrow)
	}
	if e.Effects == nil || len(e.Effects.Sends)+len(e.Effects.Asks) > 0 {
		sent[e.N] = origin{l.index, at}
	}
	c.seen(l, v, at)
}

// seen shows what can be seen of a machine in its rows.
func (c *chrome) seen(l *lane, v *protocol.View, at int64) {
	role := v.Role.String()
	if v.Term > 0 {
		role += fmt.Sprintf(" in term %d", v.Term)
	}
	c.change(l, rowRole, role, at)
	leads := ""
	switch {
	case v.Active:
		leads = fmt.Sprintf("active with token %d", v.Token)
	case v.Elected:
		leads = fmt.Sprintf("elected with token %d", v.Token)
	}
	c.change(l, rowLeadership, leads, at)
}
