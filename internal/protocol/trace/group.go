package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
)

// Groups is the protocol of the traces of groups. Their machines are those of package group, and their steps and states
// are events of the kind [Turn]; there are none of the kinds [Step], [State] and [Lost].
const Groups = "group"

// MaxTurn is the greatest length of the line of an event of a group, in bytes: a report has all keys of a member.
const MaxTurn = 64 << 20

// GroupConfig is a [Node]'s configuration in the trace of a group.
type GroupConfig struct {
	Settings  group.Settings `json:"settings"`
	Unclocked bool           `json:"unclocked,omitempty"` // see group.CoordinatorConfig
	Observer  bool           `json:"observer,omitempty"`  // see group.MemberConfig
}

// GroupTurn is a step of a machine of a group, or the state of one whose record goes on.
type GroupTurn struct {
	// Tenure is that of the coordinator whose machine it is; 0 is the member's machine.
	Tenure uint64 `json:"tenure,omitempty"`
	// Input is missing where State is there.
	Input   *group.Input   `json:"input,omitempty"`
	Effects *group.Effects `json:"effects,omitempty"`
	// Hash is [HashState] of the state after the step. Not every step has it: that costs time in proportion to the keys.
	Hash string `json:"hash,omitempty"`
	// State is the output of AppendState: the machine is in it.
	State []byte `json:"state,omitempty"`
}

// Begins reports whether the life of a machine begins with it.
func (t *GroupTurn) Begins() bool {
	return t.Input != nil && (t.Input.Kind == group.Start && t.Tenure == 0 || t.Input.Kind == group.Begin && t.Tenure != 0)
}

// String says in a few words what was done and what came of it.
func (t *GroupTurn) String() string {
	var b bytes.Buffer
	b.WriteString("member")
	if t.Tenure != 0 {
		b.Reset()
		fmt.Fprintf(&b, "coordinator %d", t.Tenure)
	}
	if t.Input == nil {
		b.WriteString(": the record goes on")
		return b.String()
	}
	fmt.Fprintf(&b, ": %v", t.Input.Kind)
	if m := &t.Input.Message; m.Type != "" {
		fmt.Fprintf(&b, " %s", m.Type)
	}
	if t.Input.From != "" {
		fmt.Fprintf(&b, " of %s", t.Input.From)
	}
	if t.Effects == nil {
		return b.String()
	}
	for _, s := range t.Effects.Stops {
		fmt.Fprintf(&b, "; stops %s under %v: %s", s.Key, s.Token, s.Reason)
	}
	for i := range t.Effects.Sends {
		s := &t.Effects.Sends[i]
		fmt.Fprintf(&b, "; sends %s on %d", s.Message.Type, s.Conn)
	}
	for _, h := range t.Effects.Starts {
		fmt.Fprintf(&b, "; begins %s under %v", h.Key, h.Token)
	}
	if t.Effects.Resign {
		fmt.Fprintf(&b, "; resigns: %s", t.Effects.Reason)
	}
	return b.String()
}

// HashState stands for a state: FNV-1a, 64 bits, as 16 hexadecimal digits.
func HashState(state []byte) string {
	h := fnv.New64a()
	h.Write(state)
	return fmt.Sprintf("%016x", h.Sum64())
}

func (t *GroupTurn) validate() error {
	switch {
	case (t.Input == nil) == (t.State == nil):
		return at("turn", errors.New("an input and a state, or neither; want one of them"))
	case t.State != nil && (t.Effects != nil || t.Hash != ""):
		return at("turn", errors.New("a state with effects or a hash; only a step has these"))
	case t.Input == nil:
		return nil
	case t.Input.Kind == 0:
		return at("turn.input.kind", errors.New("it is missing; want one such as receive"))
	case t.Input.Kind == group.Begin && t.Tenure == 0 || t.Input.Kind == group.Start && t.Tenure != 0:
		return at("turn.tenure", fmt.Errorf("%d with the input %v; want 0 at a member, and more at a coordinator", t.Tenure, t.Input.Kind))
	}
	return nil
}

// groupMachine is a member, or one tenure of a coordinator.
type groupMachine interface {
	Step(in *group.Input, fx *group.Effects)
	AppendState(dst []byte) []byte
	LoadState(src []byte) error
}

// role is a machine of a group.
type role struct {
	process
	tenure uint64
}

// turn replays an event of a group.
func (v *verifier) turn(e *Event) (err error) {
	t, who := e.Turn, role{process{e.Node, e.Life}, e.Turn.Tenure}
	m := v.roles[who]
	switch {
	case t.Begins() && m != nil:
		return at("turn", fmt.Errorf("the input %v, and this machine of %s has begun in life %d", t.Input.Kind, e.Node, e.Life))
	case m == nil && !t.Begins() && t.State == nil:
		return at("turn", fmt.Errorf("this machine of %s has not begun in life %d; it begins with start, begin or a state", e.Node, e.Life))
	case m == nil:
		config := v.configs[e.Node]
		if e.Config != nil {
			config = e.Config
		}
		if m, err = groupMachineOf(e.Node, t.Tenure, config); err != nil {
			return at("config", fmt.Errorf("of %s: %w", e.Node, err))
		}
		v.roles[who] = m
		v.report.Lives++
		if t.State != nil {
			return loadGroup(m, t.State)
		}
	}
	differs := func(what, expected, got string) error {
		input := "state"
		if t.Input != nil {
			input = t.Input.Kind.String()
		}
		return &Disagreement{N: e.N, Node: e.Node, Input: input, What: what, Expected: expected, Got: got}
	}
	if t.State != nil {
		got, err := stateOfGroup(m)
		if err == nil && !bytes.Equal(got, t.State) {
			err = differsAt(got, t.State, differs)
		}
		return err
	}
	v.report.Steps++
	return replayGroup(m, t, differs)
}

// groupMachineOf makes a machine. Its configuration comes from the trace, so it may be anything.
func groupMachineOf(node protocol.NodeID, tenure uint64, config json.RawMessage) (groupMachine, error) {
	var c GroupConfig
	if err := strict(config, &c); err != nil {
		return nil, err
	}
	if tenure == 0 {
		m, err := group.NewMember(group.MemberConfig{Settings: c.Settings, ID: node, Observer: c.Observer})
		if err != nil {
			return nil, err // and no nil machine in an interface
		}
		return m, nil
	}
	m, err := group.NewCoordinator(group.CoordinatorConfig{Settings: c.Settings, Unclocked: c.Unclocked})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func loadGroup(m groupMachine, state []byte) (err error) {
	defer notIn(&err)
	if err := m.LoadState(slices.Clone(state)); err != nil {
		return at("turn.state", err)
	}
	return nil
}

func stateOfGroup(m groupMachine) (state []byte, err error) {
	defer notIn(&err)
	return m.AppendState(nil), nil
}

// notIn turns a panic over a state that may be anything into an error.
func notIn(err *error) {
	if r := recover(); r != nil {
		*err = at("turn.state", fmt.Errorf("no machine can be in it: %v", r))
	}
}

func replayGroup(m groupMachine, t *GroupTurn, differs func(what, expected, got string) error) error {
	var fx group.Effects
	if panicked := stepGroup(m, t.Input, &fx); panicked != "" {
		return differs("turn.panic", panicked, "none")
	}
	traced := t.Effects
	if traced == nil {
		traced = new(group.Effects)
	}
	if err := compare("turn.effects", &fx, traced, differs); err != nil || t.Hash == "" {
		return err
	}
	state, err := stateOfGroup(m)
	if got := HashState(state); err == nil && got != t.Hash {
		err = differs("turn.hash", got, t.Hash)
	}
	return err
}

// stepGroup takes a step and says how it panicked, or "".
func stepGroup(m groupMachine, in *group.Input, fx *group.Effects) (panicked string) {
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Sprint(r)
		}
	}()
	m.Step(in, fx)
	return ""
}
