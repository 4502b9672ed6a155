package play

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/story"
)

// maxPlaces is how many processes a trace may have at once.
const maxPlaces = 2 * trace.MaxNodes

// maker makes the records of a run from the events of a trace. It adds what the steps imply: that a
// process starts, and that a message leaves.
type maker struct {
	run   *run
	tape  *tape
	ns    []uint64 // of the events,
	mains []int    // and the number of the record of each
	start int64    // the time of the first event
	lives map[process]int
	all   []*place

	standings []sim.Standing // of all
}

type process struct {
	node protocol.NodeID
	life uint64
}

// place is a process, and those of its node after it. A second one at the same time is a twin, and
// has a place of its own.
type place struct {
	index  int
	node   protocol.NodeID
	life   uint64
	starts uint32
	view   protocol.View
	shown  protocol.Reading // by its clocks
	clock  story.Clock
	saved  uint64
	held   []held
	stand  stand

	// What its proof comes from: its view; when it was told to stop, with the token joining, the
	// last one before, until its work has returned.
	active  bool
	end     protocol.Instant
	read    protocol.Reading
	joining uint64
}

// held is a message that waits for a save.
type held struct {
	send  *protocol.Send
	cause int // the record of the step
	nth   int
}

func newMaker(r *run, t *tape) *maker {
	m := &maker{run: r, tape: t, lives: map[process]int{}}
	for _, n := range t.header.Nodes {
		m.add(n.ID)
	}
	return m
}

func (m *maker) add(id protocol.NodeID) *place {
	p := &place{index: len(m.all), node: id}
	m.all = append(m.all, p)
	m.run.nodes = append(m.run.nodes, id)
	m.tape.stands = append(m.tape.stands, nil)
	m.standings = append(m.standings, sim.Standing{Node: id, Place: p.index})
	return p
}

// of is the place of an event's process; nil if it has none.
func (m *maker) of(e *trace.Event) (*place, error) {
	if e.Node == "" {
		return nil, nil
	}
	if i, ok := m.lives[process{e.Node, e.Life}]; ok {
		return m.all[i], nil
	}
	var first, free *place
	for _, p := range m.all {
		if p.node != e.Node {
			continue
		}
		if first == nil {
			first = p
		}
		if free == nil && !p.stand.up {
			free = p
		}
	}
	if e.Kind != trace.Step && e.Kind != trace.State {
		return first, nil // of a process that never did anything
	}
	if m.tape.header.Source == trace.Recorder {
		free = first // a record is of one process after the other
	}
	if free == nil {
		if len(m.all) >= maxPlaces {
			return nil, fmt.Errorf("more than %d processes at once", maxPlaces)
		}
		free = m.add(e.Node)
	}
	delete(m.lives, process{free.node, free.life})
	*free = place{index: free.index, node: free.node, life: e.Life, starts: free.starts + 1}
	m.lives[process{e.Node, e.Life}] = free.index
	return free, nil
}

// event records an event.
func (m *maker) event(e *trace.Event) error {
	r, t := m.run, m.tape
	at := e.Time(t.header)
	if len(m.ns) == 0 && t.header.Source != trace.Sim {
		m.start = at
	}
	now := sim.Time(at - m.start)
	if len(m.ns) > 0 {
		now = max(now, r.now)
	}
	if now < 0 || now > math.MaxInt64/4 {
		return errors.New("its time is too far from that of the first event")
	}
	p, err := m.of(e)
	if err != nil {
		return err
	}
	r.now = now
	event := uint64(len(m.ns) + 1)
	rec := sim.Record{Cause: m.number(e.Cause), Event: event, At: now, Node: e.Node, Index: -1, Reading: e.Reading(), Says: e.Says}
	m.ns = append(m.ns, e.N)
	if p != nil && e.Kind != trace.Fault && e.Kind != trace.Heal {
		rec.Index, rec.Life = p.index, p.starts
		p.stand.event = event
		if rec.Reading != (protocol.Reading{}) {
			p.shown = rec.Reading
			p.clock.Sampled(int64(now), rec.Reading)
			if r.schedule.Protocol != "" {
				p.stand.clock = r.ahead(p.node, rec.Reading, now)
			}
		}
	} else {
		p = nil
	}
	switch e.Kind {
	case trace.Step:
		m.step(p, e, rec)
		m.mains = append(m.mains, len(r.lines)) // what it sends comes later
		m.sends(p, e, rec)
	case trace.State:
		m.begins(p, e, rec)
		p.view, p.stand.view = *e.View, event
		rec.View = e.View
		r.shows(&rec)
		m.line(lineState, rec)
	case trace.Down:
		p.stand.up, p.stand.frozen, p.stand.view, p.held = false, false, 0, nil
		p.view = protocol.View{}
		rec.Kind = sim.RecordDeath
		m.record(rec)
	case trace.Freeze, trace.Thaw:
		p.stand.up, p.stand.frozen = true, e.Kind == trace.Freeze
		if rec.Kind = sim.RecordThaw; p.stand.frozen {
			rec.Kind = sim.RecordFreeze
		}
		m.record(rec)
	case trace.Lost:
		i := slices.IndexFunc(p.held, func(h held) bool {
			return uint64(h.cause) == rec.Cause && h.send.To == e.Send.To && h.send.Message.Type == e.Send.Message.Type
		})
		if i >= 0 { // it is lost as it leaves, before the step that says that the save is done
			m.release(p, p.held[i].send.After, i+1, rec)
		}
		rec.Kind, rec.Peer, rec.Message = sim.RecordLost, e.Send.To, &e.Send.Message
		m.record(rec)
	case trace.Fault, trace.Heal:
		m.fault(e, rec)
	case trace.Violation:
		inv := sim.Invariant(e.Invariant)
		if t.failed[inv] == nil {
			t.failed[inv] = &sim.Violation{Invariant: inv, At: now, Event: event, Node: e.Node, Says: e.Says}
		}
		rec.Kind, rec.Says = sim.RecordViolation, e.Invariant+": "+e.Says
		m.record(rec)
	case trace.End:
		t.whole, t.hash = true, e.Hash
		rec.Kind = sim.RecordEnd
		m.record(rec)
	default: // a note, or something about the leader's program, which has no form
		m.line(lineNote, rec)
	}
	if len(m.mains) < len(m.ns) {
		m.mains = append(m.mains, len(r.lines))
	}
	if p != nil {
		m.prove(p, e, now)
		t.stands[p.index] = append(t.stands[p.index], p.stand)
	}
	r.tenures.Take(now, m.standings)
	return nil
}

// number is the number of the record of event n; 0 if there is none.
func (m *maker) number(n uint64) uint64 {
	if i, ok := slices.BinarySearch(m.ns, n); ok {
		return uint64(m.mains[i])
	}
	return 0
}

func (m *maker) record(rec sim.Record) {
	rec.Number = uint64(len(m.run.lines) + 1)
	m.run.Event(nil, &rec)
}

// line records what no run of the simulator has.
func (m *maker) line(kind lineKind, rec sim.Record) {
	m.run.lines = append(m.run.lines, line{
		at: rec.At, event: rec.Event, cause: uint32(rec.Cause), node: int16(rec.Index), other: -1, kind: kind, letter: -1,
	})
}

// begins is called for an event of a process that runs, which may be the first that is known of it.
func (m *maker) begins(p *place, e *trace.Event, rec sim.Record) {
	boots := e.Kind == trace.Step && e.Input.Kind == protocol.Boot
	if p.stand.up && !boots {
		return
	}
	p.stand.up, p.stand.frozen = true, false
	if boots {
		rec.Kind = sim.RecordMake
		m.record(rec)
	} else {
		m.run.lived(&rec, true, false)
	}
}

func (m *maker) step(p *place, e *trace.Event, rec sim.Record) {
	m.begins(p, e, rec)
	if in := e.Input; in.Kind == protocol.Saved {
		if !in.Failed {
			p.saved = max(p.saved, in.Number)
		}
		if in.Failed {
			p.held = slices.DeleteFunc(p.held, func(h held) bool { return h.send.After <= in.Number })
		}
		m.release(p, in.Number, len(p.held), rec)
	}
	rec.Kind, rec.Input, rec.Effects, rec.View = sim.RecordStep, e.Input, e.Effects, e.View
	if e.Panic != "" {
		rec.Effects, rec.View = nil, &p.view // both are unknown
	} else {
		p.view, p.stand.view = *e.View, rec.Event
	}
	m.record(rec)
}

// sends has leave what the step sends, but for what waits for a save.
func (m *maker) sends(p *place, e *trace.Event, rec sim.Record) {
	if e.Effects == nil || e.Panic != "" {
		return
	}
	for i := range e.Effects.Sends {
		h := held{&e.Effects.Sends[i], m.mains[len(m.mains)-1], i}
		if h.send.After > p.saved {
			p.held = append(p.held, h)
		} else {
			m.leaves(h, rec)
		}
	}
}

// release has leave, of the first n messages that wait, those that waited for the save.
func (m *maker) release(p *place, number uint64, n int, rec sim.Record) {
	waiting := p.held
	p.held = nil
	for i, h := range waiting {
		if i < n && h.send.After <= number {
			m.leaves(h, rec)
		} else {
			p.held = append(p.held, h)
		}
	}
}

// leaves has a message leave. One to a node of which there is no trace is not recorded, as nothing
// is known of its way.
func (m *maker) leaves(h held, rec sim.Record) {
	if m.run.place(h.send.To) < 0 {
		return
	}
	rec.Kind, rec.Cause, rec.Peer, rec.Message = sim.RecordSend, uint64(h.cause), h.send.To, &h.send.Message
	m.record(rec)
	m.run.lines[len(m.run.lines)-1].nth = uint16(min(h.nth, math.MaxUint16))
}

// fault records that an operation begins or ends.
func (m *maker) fault(e *trace.Event, rec sim.Record) {
	r := m.run
	if e.Kind == trace.Heal && m.tape.header.Source == trace.Sim && strings.HasPrefix(e.Says, "the faults are over") {
		rec.Kind = sim.RecordHeal
		m.record(rec)
		return
	}
	kind := lineFault
	if e.Kind == trace.Heal {
		kind = lineHeal
	}
	var op sim.OpKind
	if m.tape.header.Source == trace.Sim {
		word, _, _ := strings.Cut(e.Says, " ")
		op = sim.OpKind(word)
	}
	m.line(kind, rec)
	r.mark(&r.lines[len(r.lines)-1], &rec, op, e.Says, e.Kind == trace.Fault)
}

// prove is what follows from an event for the process as a leader. An interval of proof ends when
// the node's clock shows its end, by the clock's recent rate; at the latest when the process is seen
// without proof.
func (m *maker) prove(p *place, e *trace.Event, now sim.Time) {
	s := &m.standings[p.index]
	s.Elected, s.Token, s.Frozen = p.view.Elected, p.view.Token, p.stand.frozen
	if fx := e.Effects; fx != nil && e.Panic == "" {
		for _, o := range fx.Orders {
			if o.Kind == protocol.Stop {
				p.joining = o.Token
			}
		}
	}
	if in := e.Input; in != nil && in.Kind == protocol.Do && in.Command.Verb == protocol.Joined && in.Command.Token == p.joining {
		p.joining = 0
	}
	was, before := s.Until > now, p.end
	switch v := &p.view; {
	case !p.stand.up:
		p.active, p.joining = false, 0
	case p.joining == 0:
		p.active, p.end, p.read = v.Active, v.LeaseEnd, v.Read
	case p.active && was && v.LeaseEnd > p.end: // it renews until its work has returned
		p.end, p.read = v.LeaseEnd, v.Read
	}
	if p.end != before {
		p.stand.lease = p.end.Sub(p.shown.Boot)
	}
	until := now
	if proof := (protocol.View{Active: p.active, LeaseEnd: p.end, Read: p.read}); proof.Proven(p.shown) {
		if until = math.MaxInt64; p.end != protocol.Never {
			until = max(now, sim.Time(p.clock.Time(p.end)))
		}
	}
	if until > now && !was {
		s.Since, s.Proved = now, p.view.Token
	}
	if was || until > now {
		s.Until = until
	}
	p.stand.proof = until
}
