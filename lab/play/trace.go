package play

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// MaxTrace is the greatest length of a trace, in bytes.
const MaxTrace = 128 << 20

// Trace is what a recorded trace is, and what it does not tell.
type Trace struct {
	Source trace.Source `json:"source"`
	Build  string       `json:"build,omitempty"` // of the program that wrote it
	Seed   uint64       `json:"seed,omitempty"`
	Whole  bool         `json:"whole"` // it has its end
	// Note is why it is not shown to its end; empty if it is.
	Note    string    `json:"note,omitempty"`
	Unknown []Unknown `json:"unknown"`
}

// Unknown is what a trace does not tell; the page has to leave it out.
type Unknown struct {
	What string `json:"what"` // writes, links, timers, nodes, letters, terms, faults, clocks
	Says string `json:"says"`
}

// tape is a trace whose events were recorded in a run. An event is decoded again when it is looked at.
type tape struct {
	header *trace.Header
	text   string
	lines  []int // where the line of each event begins; that of event 1 is lines[0]
	stands [][]stand
	failed map[sim.Invariant]*sim.Violation
	whole  bool
	hash   string
	note   string
}

// stand is a process from an event on.
type stand struct {
	event      uint64
	view       uint64 // the event that has its view; 0 is none
	up, frozen bool
	proof      sim.Time      // when its proof ends, if it has one
	lease      time.Duration // how long its proof was when it was last made longer
	clock      time.Duration
}

type traceParams struct {
	Text string `json:"text"` // NDJSON
}

// trace opens a recorded trace.
func (p *Player) trace(a *traceParams) (any, error) {
	r, err := play(a.Text, MaxEvents)
	if err != nil {
		return nil, err
	}
	p.run = r
	return r.overview(), nil
}

// play records the events of a trace, at most so many.
func play(text string, most int) (*run, error) {
	if len(text) > MaxTrace {
		return nil, fmt.Errorf("a trace of %d bytes; want %d at most", len(text), MaxTrace)
	}
	d, err := trace.NewDecoder(strings.NewReader(text))
	if err != nil {
		if isHistory(text) {
			err = errors.New("this is the history of a run of make chaos, which has no steps of machines; want a flight record beside it, from data or flight")
		}
		return nil, err
	}
	h := d.Header()
	p, ok := protocols.ByName(h.Protocol)
	if !ok {
		return nil, fmt.Errorf("line 1: field protocol: %q; want %s", h.Protocol, strings.Join(names(), ", "))
	}
	s, err := scheduled(h, p)
	if err != nil {
		s = &sim.Schedule{}
	}
	r := blank(p, s)
	t := &tape{header: h, text: text, failed: map[sim.Invariant]*sim.Violation{}}
	r.tape = t
	m := newMaker(r, t)
	line := strings.IndexByte(text, '\n') + 1
	for {
		e, err := d.Next()
		if e != nil {
			if len(t.lines) == most {
				r.cut, t.note = true, fmt.Sprintf("it has more than %d events; the others are left out", most)
				break
			}
			t.lines = append(t.lines, line)
			if i := strings.IndexByte(text[line:], '\n'); i >= 0 {
				line += i + 1
			} else {
				line = len(text)
			}
			if err = m.event(e); err != nil {
				t.lines = t.lines[:len(t.lines)-1]
				err = fmt.Errorf("line %d: %w", d.Line(), err)
			}
		}
		switch {
		case err != nil && len(t.lines) == 0:
			return nil, err
		case err != nil:
			t.note = err.Error()
		case d.Torn():
			t.note = "its last line is cut short, and left out"
		}
		if e == nil || err != nil {
			break
		}
	}
	if len(t.lines) == 0 {
		return nil, errors.New("line 2: there is no event; want one at least")
	}
	r.end(r.now)
	return r, nil
}

// isHistory tells the history of a run of real processes by its first line, which says that the run begins.
func isHistory(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	var begins struct {
		At   int64  `json:"at"`
		Kind string `json:"kind"`
	}
	return json.Unmarshal([]byte(line), &begins) == nil && begins.At > 0 && begins.Kind == "run"
}

// scheduled is the schedule of a trace of the simulator.
func scheduled(h *trace.Header, p *sim.Protocol) (*sim.Schedule, error) {
	if h.Source != trace.Sim || h.Schedule == nil {
		return nil, errors.New("there is none")
	}
	s, err := sim.ParseSchedule(h.Schedule)
	if err != nil {
		return nil, err
	}
	return s, s.Validate(p)
}

// unknown is what the trace does not tell.
func (t *tape) unknown(r *run) []Unknown {
	all := []Unknown{
		{"writes", "No trace has the writes to the guarded resource."},
		{"links", "No trace has the state of the links; the faults and the lost messages are in the log."},
		{"timers", "No trace has when a node wants to be called next, nor what waits at it."},
	}
	if t.header.Source == trace.Sim && r.schedule.Protocol == "" {
		all = append(all,
			Unknown{"faults", "This trace has no schedule that this build can read, so faults are known by their words only."},
			Unknown{"clocks", "Without a schedule it is not known what the clocks showed at the beginning, nor how far they are off."})
	}
	if t.header.Source != trace.Recorder {
		return all
	}
	return append(all,
		Unknown{"nodes", "A flight record is of one node; of others it has only what this one received."},
		Unknown{"letters", "A flight record has the requests to a store. Of messages it has those that arrived, in the log, and not when they were sent."},
		Unknown{"terms", "Whether another node led at the same time is not in the record of one node."},
		Unknown{"faults", "A flight record has no faults, and not how the process ended."},
		Unknown{"clocks", "All times are those of the node's own clock."})
}

// overview completes that of the run.
func (t *tape) overview(r *run, o *Overview) {
	h := t.header
	o.Trace = &Trace{Source: h.Source, Build: h.Build, Seed: h.Seed, Whole: t.whole, Note: t.note, Unknown: t.unknown(r)}
	o.Until, o.Hash = r.now, t.hash
	if h.Source == trace.Recorder {
		for i := range o.Lanes {
			o.Lanes[i].True = nil // whether a later term had begun is not known
		}
	}
}

// at decodes an event again.
func (t *tape) at(event uint64) (*trace.Event, error) {
	line, _, _ := strings.Cut(t.text[t.lines[event-1]:], "\n")
	e := new(trace.Event)
	return e, json.Unmarshal([]byte(line), e)
}

// stand is the state of a process after an event.
func (t *tape) stand(place int, event uint64) stand {
	all := t.stands[place]
	i, _ := slices.BinarySearchFunc(all, event, func(s stand, event uint64) int {
		if s.event <= event {
			return -1
		}
		return 1
	})
	if i == 0 {
		return stand{}
	}
	return all[i-1]
}

// seen is the event whose view an observer sees of a process that stands so.
func (t *tape) seen(s stand) (*trace.Event, error) {
	if s.view == 0 {
		return &trace.Event{View: &protocol.View{Role: protocol.Down}}, nil
	}
	return t.at(s.view)
}

// firstOf is the first line of an event, or the end of the lines.
func (r *run) firstOf(event uint64) int {
	i, _ := slices.BinarySearchFunc(r.lines, event, func(l line, e uint64) int { return cmp.Or(cmp.Compare(l.event, e), 1) })
	return i
}

// look is the world after an event, as far as it is known.
func (t *tape) look(r *run, event uint64, s *State) error {
	last := uint64(len(t.lines))
	if event > last {
		return fmt.Errorf("event %d; want 0 to %d", event, last)
	}
	s.Over = event == last
	if event > 0 {
		s.At = r.lines[r.firstOf(event)].at
	}
	for place, id := range r.nodes {
		is := t.stand(place, event)
		e, err := t.seen(is)
		if err != nil {
			return err
		}
		v := e.View
		n := Node{ID: id, Place: place, Up: is.up, Frozen: is.frozen, Role: protocol.Down.String(), Clock: is.clock}
		switch {
		case is.event == 0 && t.header.Source != trace.Sim:
			n.Unknown, n.Role = true, "unknown"
		case is.up && is.view > 0:
			n.shows(v)
			n.Observer = v.Role == protocol.Observer
			if n.Proven = v.Active && s.At < is.proof; n.Proven && v.LeaseEnd != protocol.Never {
				// Its clock runs straight from the view to the end of the proof.
				from := r.lines[r.firstOf(is.view)].at
				n.Lease = is.lease
				n.Left = time.Duration(float64(v.LeaseEnd.Sub(e.Reading().Boot)) * float64(is.proof-s.At) / float64(is.proof-from))
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	return nil
}

// replay tells the lines of an event.
func (t *tape) replay(r *run, event uint64, to *teller) error {
	e, err := t.at(event)
	if err != nil {
		return err
	}
	for i := to.first; i < len(r.lines) && r.lines[i].event == event; i++ {
		l := &r.lines[i]
		rec := &sim.Record{Index: int(l.node), Node: e.Node, At: l.at}
		switch l.kind {
		case lineBoot:
			rec.Kind = sim.RecordMake
			to.says(i, rec, nil)
		case lineSend:
			of, err := t.at(r.lines[l.cause-1].event)
			if err != nil {
				return err
			}
			s := &of.Effects.Sends[l.nth]
			rec.Kind, rec.Peer, rec.Message = sim.RecordSend, s.To, &s.Message
			to.says(i, rec, nil)
		default:
			if rec.Index >= 0 {
				was, err := t.seen(t.stand(rec.Index, event-1))
				if err != nil {
					return err
				}
				to.views[rec.Index] = *was.View
			}
			if rec.Input, rec.Effects, rec.View = e.Input, e.Effects, e.View; e.Kind == trace.Step {
				rec.Kind = sim.RecordStep
			}
			e.At = int64(l.at)
			to.says(i, rec, e)
		}
	}
	return nil
}
