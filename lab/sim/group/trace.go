package group

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
)

// tracer writes the trace of a run. Its error ends the trace, and not the run.
type tracer struct {
	enc     *trace.Encoder
	configs map[protocol.NodeID]trace.GroupConfig // of the header
	n       uint64
	cause   error
}

// Trace writes what the machines do from now on to out, in the schema of package trace: w has not stepped yet. build is
// the version of the program, and may be empty. The machines of a mutant are not told apart from right ones.
func (w *World) Trace(out io.Writer, build string) error {
	schedule, err := json.Marshal(w.s)
	if err != nil {
		return err
	}
	h := &trace.Header{Format: trace.Format, Protocol: trace.Groups, Source: trace.Sim, Seed: w.s.Seed, Schedule: schedule, Build: build}
	t := &tracer{configs: map[protocol.NodeID]trace.GroupConfig{}}
	for _, n := range w.nodes {
		c := trace.GroupConfig{Settings: w.s.Settings[n.settings]}
		config, err := json.Marshal(c)
		if err != nil {
			return err
		}
		t.configs[n.ID] = c
		h.Nodes = append(h.Nodes, trace.Node{ID: n.ID, Config: config})
	}
	if t.enc, err = trace.NewEncoder(out, h); err == nil {
		w.tracer = t
	}
	return err
}

// Traced writes the end of the trace, if the run is over, and returns its first error.
func (w *World) Traced() error {
	if w.over {
		e := &trace.Event{Kind: trace.End, Hash: fmt.Sprintf("%016x", w.hash)}
		if w.mishap != nil {
			e.Invariant = string(w.mishap.Invariant)
		}
		w.trace(nil, e)
	}
	return w.tracer.cause
}

// trace writes an event.
func (w *World) trace(p *process, e *trace.Event) {
	t := w.tracer
	if t == nil || t.cause != nil {
		return
	}
	t.n++
	e.N, e.At = t.n, int64(w.now)
	if p != nil {
		e.Node, e.Life = p.node.ID, p.nonce[1]
	}
	t.cause = t.enc.Event(e)
}

// traceTurn writes a step of the member, or of the coordinator if c is not nil.
func (p *process) traceTurn(c *coordinator, in *machine.Input, fx *machine.Effects) {
	t := p.w.tracer
	if t == nil {
		return
	}
	turn := &trace.GroupTurn{Input: in, Effects: fx}
	if c == nil {
		turn.Hash = trace.HashState(p.m.AppendState(nil))
	} else {
		turn.Tenure, turn.Hash = c.tenure.count, trace.HashState(c.AppendState(nil))
	}
	e := &trace.Event{Kind: trace.Turn, Turn: turn}
	if own := (trace.GroupConfig{Settings: p.settings}); turn.Begins() && own != t.configs[p.node.ID] {
		e.Config, _ = json.Marshal(own) // it always can be
	}
	p.w.trace(p, e)
}
