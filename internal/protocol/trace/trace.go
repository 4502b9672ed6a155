package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/electd/elect/internal/protocol"
)

// Format is the format that this package writes, and the only one it reads.
const Format = 1

// The greatest lengths of lines, in bytes. The header has a schedule in it, which
// may be long.
const (
	MaxHeader = 64 << 20
	MaxLine   = 1 << 20 // of an event
)

// longest is the greatest length of a line by its number, from 1.
func longest(line int, groups bool) int {
	switch {
	case line == 1:
		return MaxHeader
	case groups:
		return MaxTurn
	}
	return MaxLine
}

// MaxNodes is the greatest number of participants.
const MaxNodes = 1000

// Source is the kind of writer of a trace.
type Source string

// The sources.
const (
	Sim      Source = "sim"      // the simulator
	Chaos    Source = "chaos"    // a test with real processes
	Recorder Source = "recorder" // a participant in production, of itself
)

// Header is the first line of a trace.
type Header struct {
	Format   int    `json:"format"` // 1
	Protocol string `json:"protocol"`
	Source   Source `json:"source"`
	Seed     uint64 `json:"seed,omitempty"`
	Nodes    []Node `json:"nodes"`
	// Schedule is what was played, in the simulator's format, where it was one.
	Schedule json.RawMessage `json:"schedule,omitempty"`
	// Build is the version of the program that wrote it, where it is known.
	Build string `json:"build,omitempty"`
}

// Node is a participant.
type Node struct {
	ID protocol.NodeID `json:"id"`
	// Config is its machine's configuration, in the protocol's own form.
	Config json.RawMessage `json:"config,omitempty"`
}

// Validate says what is wrong with the header.
func (h *Header) Validate() error {
	switch {
	case h.Format != Format:
		return at("format", fmt.Errorf("%d; want %d", h.Format, Format))
	case h.Protocol == "":
		return at("protocol", errors.New("it is missing; want the name of one, such as quorum"))
	case h.Source != Sim && h.Source != Chaos && h.Source != Recorder:
		return at("source", fmt.Errorf("%q; want %s, %s or %s", h.Source, Sim, Chaos, Recorder))
	case len(h.Nodes) == 0 || len(h.Nodes) > MaxNodes:
		return at("nodes", fmt.Errorf("%d; want 1 to %d", len(h.Nodes), MaxNodes))
	}
	seen := make(map[protocol.NodeID]bool, len(h.Nodes))
	for i, n := range h.Nodes {
		field := fmt.Sprintf("nodes[%d].id", i)
		// A candidate over a store may have an id that a peer may not have.
		if bad := func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }; n.ID == "" || len(n.ID) > 128 || strings.ContainsFunc(string(n.ID), bad) {
			return at(field, fmt.Errorf("node id %.130q; want 1 to 128 bytes of printable UTF-8 without spaces", n.ID))
		}
		if seen[n.ID] {
			return at(field, fmt.Errorf("%s is there twice; want each node once", n.ID))
		}
		seen[n.ID] = true
	}
	return nil
}

// Kind says what an [Event] is.
type Kind string

// The kinds.
const (
	Step      Kind = "step"      // Node's machine took Input
	State     Kind = "state"     // Node's machine is in State: its life goes on from here
	Turn      Kind = "turn"      // a step or a state of a machine of a group, in Turn
	Down      Kind = "down"      // a process of Node has ended
	Freeze    Kind = "freeze"    // it is stopped, or its machine sleeps
	Thaw      Kind = "thaw"      // it runs again
	Lost      Kind = "lost"      // Send, which Node sent, will not arrive; Says is the reason
	Fault     Kind = "fault"     // a fault, or an act of an operator, begins
	Heal      Kind = "heal"      // one ends
	Work      Kind = "work"      // something about the leader's program, such as a write
	Note      Kind = "note"      // anything else that is worth telling
	Violation Kind = "violation" // Invariant is broken; Says how
	End       Kind = "end"       // the run was over; the last line
)

func (k Kind) known() bool {
	switch k {
	case Step, State, Turn, Down, Freeze, Thaw, Lost, Fault, Heal, Work, Note, Violation, End:
		return true
	}
	return false
}

// Event is one line after the header.
type Event struct {
	// N numbers events; it rises from line to line, and may leave numbers out.
	N uint64 `json:"n"`
	// Cause is the N of the event that caused this one: the step that sent the message or asked the
	// store, the fault that killed; 0 if none is known.
	Cause uint64 `json:"cause,omitempty"`
	// At is when it happened by a clock that all nodes share, and never falls
	// from line to line. A recorder, which has only its own clock, has none.
	At   int64           `json:"at,omitempty"`
	Node protocol.NodeID `json:"node,omitempty"`
	// Life tells the processes of a node apart; each has a number of its own.
	Life uint64 `json:"life,omitempty"`
	Kind Kind   `json:"kind"`
	// Now is what Node's clocks showed. Of a step it is in the input.
	Now protocol.Reading `json:"now,omitzero"`

	// Of a step: the input; the effects, whole or as their Digest; and the view afterwards. Of a
	// state: the view.
	Input   *protocol.Input   `json:"input,omitempty"`
	Effects *protocol.Effects `json:"effects,omitempty"`
	Digest  string            `json:"digest,omitempty"`
	View    *protocol.View    `json:"view,omitempty"`
	// Config is, with a Boot or the first of a machine's turns, this incarnation's configuration, where it is not the
	// header's: a wiped disk is another voter.
	Config json.RawMessage `json:"config,omitempty"`

	// State is, of a state, the output of AppendState. View is there too.
	State []byte `json:"state,omitempty"`

	// Turn is there in a trace of a group.
	Turn *GroupTurn `json:"turn,omitempty"`

	// Panic is, of a step, the value with which the machine panicked. Effects and view are then
	// unknown.
	Panic string `json:"panic,omitempty"`

	Send *protocol.Send `json:"send,omitempty"` // Lost
	// Invariant is what a Violation violates; of an End, the one that ended the run.
	Invariant string `json:"invariant,omitempty"`
	// Hash is, of an End, the digest of the whole run, as 16 hexadecimal digits:
	// equal for two runs of one schedule with one build.
	Hash string `json:"hash,omitempty"`
	// Says is for people.
	Says string `json:"says,omitempty"`
}

// Reading is what the node's clocks showed.
func (e *Event) Reading() protocol.Reading {
	if e.Input != nil {
		return e.Input.Now
	}
	if e.Turn != nil && e.Turn.Input != nil {
		return e.Turn.Input.Now
	}
	return e.Now
}

// validate says what is wrong with the event alone.
func (e *Event) validate() error {
	switch {
	case e.N == 0:
		return at("n", errors.New("it is missing or 0; want numbers from 1"))
	case e.Cause >= e.N:
		return at("cause", fmt.Errorf("%d of event %d; want an earlier one", e.Cause, e.N))
	case e.At < 0:
		return at("at", fmt.Errorf("%d; want 0 or more", e.At))
	case !e.Kind.known():
		return at("kind", fmt.Errorf("%q; want %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s or %s", e.Kind, Step, State, Turn, Down, Freeze, Thaw, Lost, Fault, Heal, Work, Note, Violation, End))
	case e.Kind != Step && (e.Input != nil || e.Effects != nil || e.Digest != "" || e.View != nil && e.Kind != State || e.Config != nil && e.Kind != Turn || e.Panic != ""):
		return at("kind", fmt.Errorf("%s with input, effects, digest, view, config or panic; only a step has these", e.Kind))
	case (e.Kind == Turn) != (e.Turn != nil):
		return at("turn", fmt.Errorf("kind %s; every turn has one, and nothing else", e.Kind))
	case (e.Kind == State) != (e.State != nil):
		return at("state", fmt.Errorf("kind %s; every state has one, and nothing else", e.Kind))
	case e.Kind == State && e.View == nil:
		return at("view", errors.New("it is missing; every state has one"))
	case (e.Kind == Lost) != (e.Send != nil):
		return at("send", fmt.Errorf("kind %s; every lost has one, and nothing else", e.Kind))
	case e.Kind == Violation && e.Invariant == "":
		return at("invariant", errors.New("it is missing; every violation has one"))
	case e.Kind != Violation && e.Kind != End && e.Invariant != "":
		return at("invariant", fmt.Errorf("kind %s; only a violation and an end have one", e.Kind))
	case e.Kind != End && e.Hash != "":
		return at("hash", fmt.Errorf("kind %s; only an end has one", e.Kind))
	case (e.Kind == Step || e.Kind == State || e.Kind == Turn || e.Kind == Down || e.Kind == Freeze || e.Kind == Thaw || e.Kind == Lost) && e.Node == "":
		return at("node", fmt.Errorf("it is missing; every %s has one", e.Kind))
	}
	if e.Kind == Turn {
		switch {
		case e.Config != nil && !e.Turn.Begins():
			return at("config", errors.New("with a later turn; only the first of a machine has one"))
		case e.Turn.Input != nil && e.Now != protocol.Reading{}:
			return at("now", errors.New("a step has it in its input"))
		}
		return e.Turn.validate()
	}
	if e.Kind != Step {
		return nil
	}
	switch {
	case e.Input == nil:
		return at("input", errors.New("it is missing; every step has one"))
	case e.Input.Kind < protocol.Boot || e.Input.Kind > protocol.Do:
		return at("input.kind", errors.New("it is missing; want one such as boot"))
	case e.View == nil:
		return at("view", errors.New("it is missing; every step has one"))
	case e.Effects != nil && e.Digest != "":
		return at("digest", errors.New("it is there beside the effects; want one of them"))
	case e.Now != protocol.Reading{}:
		return at("now", errors.New("a step has it in its input"))
	case e.Config != nil && e.Input.Kind != protocol.Boot:
		return at("config", fmt.Errorf("with the input %s; only a boot has one", e.Input.Kind))
	}
	return nil
}

// order is what both ends of a trace keep track of.
type order struct {
	nodes map[protocol.NodeID]bool
	last  uint64
	at    int64
	over  bool
	group bool // it is of a group
}

func newOrder(h *Header) order {
	o := order{nodes: make(map[protocol.NodeID]bool, len(h.Nodes)), group: h.Protocol == Groups}
	for _, n := range h.Nodes {
		o.nodes[n.ID] = true
	}
	return o
}

// next says what is wrong with the event after those before it.
func (o *order) next(e *Event) error {
	if err := e.validate(); err != nil {
		return err
	}
	switch {
	case o.over:
		return at("kind", fmt.Errorf("%s after the end", e.Kind))
	case o.group && (e.Kind == Step || e.Kind == State || e.Kind == Lost), !o.group && e.Kind == Turn:
		return at("kind", fmt.Errorf("%s; want %s in a trace of a group, and nowhere else", e.Kind, Turn))
	case e.N <= o.last:
		return at("n", fmt.Errorf("%d after %d; want them to rise", e.N, o.last))
	case e.At < o.at:
		return at("at", fmt.Errorf("%d after %d; time does not fall", e.At, o.at))
	case e.Node != "" && !o.nodes[e.Node]:
		return at("node", fmt.Errorf("%q is not among the header's nodes", e.Node))
	}
	o.last, o.at, o.over = e.N, e.At, e.Kind == End
	return nil
}

// Error is what is wrong with a trace.
type Error struct {
	Line  int    // from 1; 0 if it is not known
	Field string // such as input.message.term; empty if it is the whole line
	Err   error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Field != "" {
		text = "field " + e.Field + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func at(field string, err error) error { return &Error{Field: field, Err: err} }

// onLine gives an error its line.
func onLine(line int, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Line == 0 {
		return &Error{Line: line, Field: e.Field, Err: e.Err}
	}
	return &Error{Line: line, Err: err}
}
