package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// Maker makes a participant's machine from the Config of its [Node].
type Maker func(node protocol.NodeID, config json.RawMessage) (protocol.Machine, error)

// Report is the result of [Verify].
type Report struct {
	Header *Header `json:"-"`
	Events uint64  `json:"events"`
	Steps  uint64  `json:"steps"` // that were replayed
	Lives  uint64  `json:"lives"` // machines that were made
	// Whole reports whether the trace has its end.
	Whole bool `json:"whole"`
	// Torn reports whether the last line was cut short, and so left out.
	Torn bool `json:"torn"`
}

// Disagreement is the first step at which a machine did not do what the trace
// says: the trace is wrong, or it was written by another build, or the machine
// is not a pure function of its inputs.
type Disagreement struct {
	Line  int             `json:"line"`
	N     uint64          `json:"n"`
	Node  protocol.NodeID `json:"node"`
	Input string          `json:"input"`
	// What is the place, such as effects.sends[0].message.term; Expected is what
	// the machine has there, Got what the trace has.
	What     string `json:"what"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Error implements error.
func (d *Disagreement) Error() string {
	return fmt.Sprintf("line %d: event %d, %s of %s: %s: expected %s (the machine), got %s (the trace)",
		d.Line, d.N, d.Input, d.Node, d.What, d.Expected, d.Got)
}

type process struct {
	node protocol.NodeID
	life uint64
}

// Verify replays the inputs of every life in the trace through a machine, from
// its Boot or from its first State, and compares effects, views and later
// States. It ends at the first disagreement, with a [*Disagreement], or at the
// first [*Error]; the report is then of what came before. Makers are by the
// protocol's name.
func Verify(r Reader, makers map[string]Maker) (*Report, error) {
	d, err := NewDecoder(r)
	if err != nil {
		return new(Report), err
	}
	return d.Verify(makers)
}

// Verify verifies the rest of a trace whose header was read, so that makers can be chosen by its
// source.
func (d *Decoder) Verify(makers map[string]Maker) (*Report, error) {
	report := &Report{Header: d.Header()}
	maker := makers[report.Header.Protocol]
	if maker == nil && report.Header.Protocol != Groups {
		return report, onLine(1, at("protocol", fmt.Errorf("%q is not known here; want one of %v", report.Header.Protocol, sortedNames(makers))))
	}
	v := verifier{maker: maker, configs: make(map[protocol.NodeID]json.RawMessage), alive: make(map[process]protocol.Machine), roles: make(map[role]groupMachine), report: report}
	for _, n := range report.Header.Nodes {
		v.configs[n.ID] = n.Config
	}
	for e, err := range d.Events() {
		if err != nil {
			return report, err
		}
		err := v.event(e)
		if dis, ok := errors.AsType[*Disagreement](err); ok {
			dis.Line = d.Line()
			return report, dis
		}
		if err != nil {
			return report, onLine(d.Line(), err)
		}
		report.Events++
	}
	report.Torn = d.Torn()
	return report, nil
}

// verifier is the state of Verify.
type verifier struct {
	maker   Maker
	configs map[protocol.NodeID]json.RawMessage
	alive   map[process]protocol.Machine
	roles   map[role]groupMachine
	report  *Report
}

func (v *verifier) event(e *Event) error {
	who := process{e.Node, e.Life}
	switch e.Kind {
	case End:
		v.report.Whole = true
	case Down:
		delete(v.alive, who)
		maps.DeleteFunc(v.roles, func(r role, _ groupMachine) bool { return r.process == who })
	case Turn:
		return v.turn(e)
	case State:
		if m := v.alive[who]; m != nil {
			return compareState(m, e)
		}
		m, err := v.make(e)
		if err == nil {
			err = load(m, e.State)
		}
		if err != nil {
			return err
		}
		v.alive[who] = m
		return compareState(m, e)
	case Step:
		if e.Input.Kind == protocol.Boot {
			if v.alive[who] != nil {
				return at("life", fmt.Errorf("%s boots in life %d, which has begun", e.Node, e.Life))
			}
			m, err := v.make(e)
			if err != nil {
				return err
			}
			v.alive[who] = m
		}
		m := v.alive[who]
		if m == nil {
			return at("node", fmt.Errorf("%s has not booted in life %d; a life begins with a boot or a state", e.Node, e.Life))
		}
		if err := replay(m, e); err != nil {
			return err
		}
		v.report.Steps++
	}
	return nil
}

// make makes the machine of an incarnation that begins with e.
func (v *verifier) make(e *Event) (protocol.Machine, error) {
	config := v.configs[e.Node]
	if e.Config != nil {
		config = e.Config
	}
	m, err := made(v.maker, e.Node, config)
	if err != nil {
		return nil, at("config", fmt.Errorf("of %s: %w", e.Node, err))
	}
	v.report.Lives++
	return m, nil
}

// made makes a machine. Its configuration comes from the trace, so it may be anything.
func made(maker Maker, node protocol.NodeID, config json.RawMessage) (m protocol.Machine, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no machine can be made of it: %v", r)
		}
	}()
	return maker(node, config)
}

// load makes m the machine of a state, which may be anything.
func load(m protocol.Machine, state []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = at("state", fmt.Errorf("no machine can be in it: %v", r))
		}
	}()
	if err := m.LoadState(slices.Clone(state)); err != nil {
		return at("state", err)
	}
	return nil
}

// compareState compares a machine with a state.
func compareState(m protocol.Machine, e *Event) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = at("state", fmt.Errorf("no machine can be in it: %v", r))
		}
	}()
	differs := func(what, expected, got string) error {
		return &Disagreement{N: e.N, Node: e.Node, Input: string(State), What: what, Expected: expected, Got: got}
	}
	if got := m.AppendState(nil); !bytes.Equal(got, e.State) {
		return differsAt(got, e.State, differs)
	}
	view := m.View()
	return compare("view", &view, e.View, differs)
}

// differsAt says where two states differ.
func differsAt(got, traced []byte, differs func(what, expected, got string) error) error {
	expected, inTrace := got, traced
	if len(got) == len(traced) { // otherwise the difference is only in their lengths
		for len(expected) > 1 && expected[0] == inTrace[0] {
			expected, inTrace = expected[1:], inTrace[1:]
		}
	}
	return differs(fmt.Sprintf("state[%d]", len(got)-len(expected)), fmt.Sprintf("%.16x… of %d bytes", expected, len(got)), fmt.Sprintf("%.16x… of %d bytes", inTrace, len(traced)))
}

// replay hands the step's input to m and compares.
func replay(m protocol.Machine, e *Event) error {
	differs := func(what, expected, got string) error {
		return &Disagreement{N: e.N, Node: e.Node, Input: e.Input.Kind.String(), What: what, Expected: expected, Got: got}
	}
	var fx protocol.Effects
	var view protocol.View
	switch panicked := step(m, e.Input, &fx, &view); {
	case panicked != "" && e.Panic == "":
		return differs("panic", panicked, "none")
	case panicked == "" && e.Panic != "":
		return differs("panic", "none", e.Panic)
	case panicked != "":
		return nil
	}
	if e.Digest != "" {
		got, err := Digest(&fx)
		if err != nil {
			return err
		}
		if got != e.Digest {
			return differs("digest", got, e.Digest)
		}
	} else {
		traced := e.Effects
		if traced == nil {
			traced = new(protocol.Effects)
		}
		if err := compare("effects", &fx, traced, differs); err != nil {
			return err
		}
	}
	return compare("view", &view, e.View, differs)
}

func compare(what string, model, traced any, differs func(what, expected, got string) error) error {
	a, err := canonical(model)
	if err != nil {
		return err
	}
	b, err := canonical(traced)
	if err != nil {
		return err
	}
	if at, inA, inB := difference(what, a, b); at != "" {
		return differs(at, inA, inB)
	}
	return nil
}

// step takes a step and says how it panicked, or "".
func step(m protocol.Machine, in *protocol.Input, fx *protocol.Effects, view *protocol.View) (panicked string) {
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Sprint(r)
		}
	}()
	own := *in
	own.Durable = slices.Clone(in.Durable) // which may not be changed by it
	m.Step(&own, fx)
	*view = m.View()
	return ""
}
