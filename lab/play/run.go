package play

import (
	"cmp"
	"fmt"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// run is a run of a world, as far as it was executed, or a trace, with what was recorded of it.
type run struct {
	world    *World // nil of a trace, as is history; then there is a tape
	protocol *sim.Protocol
	schedule *sim.Schedule // without a protocol if the trace has none
	hands    map[int]bool  // of the schedule's operations
	history  *sim.History
	tape     *tape
	nodes    []protocol.NodeID // by place; twins last
	over     bool
	cut      bool

	fit   []int32 // the places of the lines below fitTo that the log was last asked for,
	fitTo int
	fitOf string // by that choice

	tenures sim.Tenures
	lines   []line   // the records, in their order: that of number n is lines[n-1]
	all     []letter // messages and requests, by when they were sent
	types   []string // of letters
	typed   map[string]uint16
	ops     map[uint16]protocol.Op // of the types of requests
	flying  map[route][]int32      // letters that have not arrived, by sender and receiver
	asked   map[asking]int32
	lives   []Life
	living  map[int]int // the open one of each place
	turns   []Turn
	roles   []Role
	role    map[int]Role
	marks   []Mark
	writes  []Write
	grants  []grant
	said    Write       // what the last turn said of a write
	result  *sim.Result // of the run so far
	leases  bool
	now     sim.Time
}

// line is a record of the run, without the parts that repeating its event brings back.
type line struct {
	at          sim.Time
	event       uint64
	cause       uint32
	node, other int16 // places; -1 is none
	kind        lineKind
	turn        bool   // there is a Turn for it
	nth         uint16 // of a send in a trace: its place among those of the step
	letter      int32
}

// lineKind is the kind of a line, as the page names it.
type lineKind uint8

const (
	_ lineKind = iota
	lineBoot
	lineStep
	lineReceive
	lineReply
	lineFire
	lineCommand
	lineDown
	lineFreeze
	lineThaw
	lineSend
	lineLost
	lineDurable
	lineWrite
	lineFault
	lineHeal
	lineViolation
	lineEnd
	lineState
	lineNote
)

var lineKinds = [...]string{
	lineBoot: "boot", lineStep: "step", lineReceive: "receive", lineReply: "reply", lineFire: "fire", lineCommand: "command",
	lineDown: "down", lineFreeze: "freeze", lineThaw: "thaw", lineSend: "send", lineLost: "lost", lineDurable: "durable",
	lineWrite: "write", lineFault: "fault", lineHeal: "heal", lineViolation: "violation", lineEnd: "end", lineState: "state", lineNote: "note",
}

// letter is a message, or a request to the store or its answer.
type letter struct {
	sent, arrived sim.Time // arrived is 0 while its fate is not known
	from, to      int16    // places; -1 is the store
	kind          uint16   // an index of types
	routine, lost bool
	sender        uint32 // the number of the record of the step that sent it,
	left          uint32 // and that of its leaving; 0 of a request
	receiver      uint32
	term          uint64
}

type route struct {
	cause    uint64
	from, to protocol.NodeID
	kind     protocol.MessageType
}

type asking struct {
	place  int
	life   uint32
	number uint64
}

// Life is a time in which a process was up, running or frozen.
type Life struct {
	Node   protocol.NodeID `json:"node"`
	Place  int             `json:"place"`
	Frozen bool            `json:"frozen,omitempty"` // it was stopped, or its machine slept
	From   sim.Time        `json:"from"`
	Until  sim.Time        `json:"until"` // 0: it goes on
}

// Turn is an important event of a run, in a sentence.
type Turn struct {
	Event uint64          `json:"event"`
	At    sim.Time        `json:"at"`
	Kind  string          `json:"kind"` // elected, leads, stops, term, down, up, freeze, thaw, fault, heal, violation, write, end
	Node  protocol.NodeID `json:"node,omitempty"`
	Token uint64          `json:"token,omitempty"`
	Says  string          `json:"says"`
}

// Role is the role of a participant from a time on.
type Role struct {
	At     sim.Time        `json:"at"`
	Place  int             `json:"place"`
	Role   string          `json:"role"`
	Term   uint64          `json:"term,omitempty"`
	Leader protocol.NodeID `json:"leader,omitempty"`
}

// Mark is the time in which an operation goes on.
type Mark struct {
	Op    int        `json:"op"` // its index in the schedule
	Hand  int        `json:"hand"`
	Kind  sim.OpKind `json:"kind"`
	Says  string     `json:"says"`
	From  sim.Time   `json:"from"`
	Until sim.Time   `json:"until"` // 0: it goes on; From if it was over at once
}

// Write is a write that has reached the guarded resource.
type Write struct {
	At    sim.Time        `json:"at"`
	Event uint64          `json:"event"`
	Node  protocol.NodeID `json:"node"`
	Token uint64          `json:"token"`
	Says  string          `json:"says"`
	OK    bool            `json:"ok"`    // it was accepted
	Stale bool            `json:"stale"` // a later term had written before it
}

func newRun(w *World, p *sim.Protocol, s *sim.Schedule, hands map[int]bool, world *sim.World) *run {
	r := blank(p, s)
	r.world, r.hands = w, hands
	for _, n := range world.AppendProcesses(nil) {
		r.nodes = append(r.nodes, n.Node)
	}
	world.Trace(r)
	r.history = sim.Begin(world, 0)
	return r
}

// blank is a run of which nothing is recorded.
func blank(p *sim.Protocol, s *sim.Schedule) *run {
	return &run{
		protocol: p, schedule: s,
		typed: map[string]uint16{}, ops: map[uint16]protocol.Op{}, flying: map[route][]int32{}, asked: map[asking]int32{},
		living: map[int]int{}, role: map[int]Role{}, leases: !p.Leaseless && !s.Work.NonExclusive,
	}
}

func (r *run) events() uint64 {
	if r.tape != nil {
		return uint64(len(r.tape.lines))
	}
	_, last := r.history.Span()
	return last
}

// grow executes that many events, or fewer if the run ends.
func (r *run) grow(events int) {
	for ; events > 0 && !r.over; events-- {
		if r.events() >= MaxEvents {
			r.cut = true
			r.end(r.now)
			return
		}
		more := r.history.Grow(func(w *sim.World) {
			r.tenures.Look(w)
			r.now = w.Now()
			if events == 1 || w.Over() {
				r.result = w.Result()
			}
		})
		if !more {
			r.end(r.now)
		}
	}
}

func (r *run) end(at sim.Time) {
	r.over = true
	r.tenures.End(at)
	for _, i := range r.living {
		r.lives[i].Until = at
	}
	for i := range r.marks {
		if r.marks[i].Until == 0 {
			r.marks[i].Until = at
		}
	}
}

// Event implements [sim.Tracer].
func (r *run) Event(_ *sim.World, rec *sim.Record) {
	l := line{at: rec.At, event: rec.Event, cause: uint32(rec.Cause), node: int16(rec.Index), other: -1, letter: -1}
	switch rec.Kind {
	case sim.RecordMake:
		l.kind = lineBoot
		r.lived(rec, true, false)
		if rec.Life > 1 {
			r.turned(&l, rec, "up", "%s starts again", rec.Node)
		}
	case sim.RecordStep:
		r.stepped(&l, rec)
	case sim.RecordDeath:
		l.kind = lineDown
		r.lived(rec, false, false)
		r.role[rec.Index] = Role{}
		r.roles = append(r.roles, Role{At: rec.At, Place: rec.Index, Role: protocol.Down.String()})
		r.turned(&l, rec, "down", "%s is dead: %s", rec.Node, rec.Says)
	case sim.RecordFreeze:
		l.kind = lineFreeze
		r.lived(rec, true, true)
		r.turned(&l, rec, "freeze", "%s is frozen", rec.Node)
	case sim.RecordThaw:
		l.kind = lineThaw
		r.lived(rec, true, false)
		r.turned(&l, rec, "thaw", "%s runs again", rec.Node)
	case sim.RecordSend:
		l.kind, l.other = lineSend, int16(r.place(rec.Peer))
		l.letter = r.send(rec)
	case sim.RecordLost:
		l.kind, l.other = lineLost, int16(r.place(rec.Peer))
		if i, ok := r.taken(route{rec.Cause, rec.Node, rec.Peer, rec.Message.Type}); ok {
			r.all[i].lost, r.all[i].arrived = true, rec.At
			l.letter = i
		}
	case sim.RecordDurable:
		l.kind = lineDurable
	case sim.RecordWrite:
		l.kind = lineWrite
		r.wrote(&l, rec)
	case sim.RecordFault:
		l.kind = lineFault
		r.mark(&l, rec, rec.Op.Kind, rec.Op.String(), true)
	case sim.RecordFaultEnd:
		l.kind = lineHeal
		r.mark(&l, rec, rec.Op.Kind, rec.Op.String(), false)
	case sim.RecordHeal:
		l.kind = lineHeal
		r.turned(&l, rec, "heal", "the faults are over")
	case sim.RecordViolation:
		l.kind = lineViolation
		r.turned(&l, rec, "violation", "violated: %s", rec.Says)
	case sim.RecordEnd:
		l.kind = lineEnd
		r.turned(&l, rec, "end", "%s", cmp.Or(rec.Says, "the end of the run"))
	}
	r.lines = append(r.lines, l)
}

// turned records a turn for the line.
func (r *run) turned(l *line, rec *sim.Record, kind, format string, args ...any) {
	l.turn = true
	t := Turn{Event: rec.Event, At: rec.At, Kind: kind, Node: rec.Node, Says: fmt.Sprintf(format, args...)}
	if rec.View != nil {
		t.Token = rec.View.Token
	}
	r.turns = append(r.turns, t)
}

// lived ends the present life of a process, and begins the next one if it is up.
func (r *run) lived(rec *sim.Record, up, frozen bool) {
	if i, ok := r.living[rec.Index]; ok {
		r.lives[i].Until = rec.At
		delete(r.living, rec.Index)
	}
	if up {
		r.living[rec.Index] = len(r.lives)
		r.lives = append(r.lives, Life{Node: rec.Node, Place: rec.Index, Frozen: frozen, From: rec.At})
	}
}

func (r *run) stepped(l *line, rec *sim.Record) {
	in := rec.Input
	switch in.Kind {
	case protocol.Receive:
		l.kind, l.other = lineReceive, int16(r.place(in.From))
		if g := r.protocol.Grants; g != nil {
			if term, ok := g(&in.Message); ok && l.other >= 0 {
				r.grants = append(r.grants, grant{rec.At, l.other, l.node, term})
			}
		}
		if i, ok := r.taken(route{rec.Cause, in.From, rec.Node, in.Message.Type}); ok {
			r.all[i].arrived, r.all[i].receiver = rec.At, uint32(rec.Number)
			l.letter = i
		}
	case protocol.Replied:
		l.kind = lineReply
		if k := (asking{rec.Index, rec.Life, in.Answer.Number}); in.Answer.Status != protocol.StatusEvent {
			if i, ok := r.asked[k]; ok {
				r.all[i].arrived, r.all[i].receiver = rec.At, uint32(rec.Number)
				r.all[i].lost = in.Answer.Status == protocol.StatusUnknown
				l.letter = i
				delete(r.asked, k)
			}
		}
	case protocol.Fire:
		l.kind = lineFire
	case protocol.Do:
		l.kind = lineCommand
	default:
		l.kind = lineStep
	}
	if rec.Effects != nil {
		for i := range rec.Effects.Asks {
			a := &rec.Effects.Asks[i]
			kind := r.typeOf(a.Op.String())
			r.ops[kind] = a.Op
			r.asked[asking{rec.Index, rec.Life, a.Number}] = int32(len(r.all))
			r.all = append(r.all, letter{
				sent: rec.At, from: int16(rec.Index), to: -1, kind: kind, sender: uint32(rec.Number),
				routine: rec.View.Elected || a.Op == protocol.Watch,
			})
		}
		for i := range rec.Effects.Orders {
			switch o := &rec.Effects.Orders[i]; o.Kind {
			case protocol.Elected:
				r.turned(l, rec, "elected", "%s is elected, with token %d", rec.Node, o.Token)
			case protocol.Lead:
				r.turned(l, rec, "leads", "%s leads: its lease is proven, with token %d", rec.Node, o.Token)
			case protocol.Stop:
				r.turned(l, rec, "stops", "%s stops its work (token %d): %s", rec.Node, o.Token, o.Reason)
			}
		}
	}
	r.shows(rec)
}

// shows records the role of a process, if it is another one.
func (r *run) shows(rec *sim.Record) {
	v := rec.View
	now := Role{Place: rec.Index, Role: v.Role.String(), Term: v.Term, Leader: v.Leader.ID}
	if was := r.role[rec.Index]; was != now {
		r.role[rec.Index] = now
		now.At = rec.At
		r.roles = append(r.roles, now)
	}
}

// send records a message that leaves.
func (r *run) send(rec *sim.Record) int32 {
	i := int32(len(r.all))
	r.all = append(r.all, letter{
		sent: rec.At, from: int16(rec.Index), to: int16(r.place(rec.Peer)), kind: r.typeOf(string(rec.Message.Type)),
		routine: r.protocol.Heartbeat != nil && r.protocol.Heartbeat(rec.Message), sender: uint32(rec.Cause), left: uint32(rec.Number), term: rec.Message.Term,
	})
	k := route{rec.Cause, rec.Node, rec.Peer, rec.Message.Type}
	r.flying[k] = append(r.flying[k], i)
	return i
}

// taken returns the oldest letter on a route that has not arrived.
func (r *run) taken(k route) (int32, bool) {
	all := r.flying[k]
	if len(all) == 0 {
		return -1, false // it arrives for the second time, or was sent under another name
	}
	if len(all) == 1 {
		delete(r.flying, k)
	} else {
		r.flying[k] = all[1:]
	}
	return all[0], true
}

func (r *run) typeOf(name string) uint16 {
	i, ok := r.typed[name]
	if !ok {
		i = uint16(len(r.types))
		r.typed[name] = i
		r.types = append(r.types, name)
	}
	return i
}

func (r *run) place(id protocol.NodeID) int {
	for i, n := range r.nodes {
		if n == id {
			return i
		}
	}
	return -1
}

func (r *run) wrote(l *line, rec *sim.Record) {
	w := Write{At: rec.At, Event: rec.Event, Node: rec.Node, Token: rec.Count, Says: rec.Says}
	w.OK = rec.Says == sim.WriteAccepted || rec.Says == sim.WriteStaleAccepted
	w.Stale = rec.Says == sim.WriteRefused || rec.Says == sim.WriteStaleAccepted
	r.writes = append(r.writes, w)
	said := Write{Node: w.Node, Token: w.Token, Says: w.Says}
	if was := r.said; was != said && rec.Says != sim.WriteAccepted { // the first of many is enough
		r.turned(l, rec, "write", "the write of %s with token %d is %s", rec.Node, rec.Count, rec.Says)
	}
	if rec.Says != sim.WriteAccepted {
		r.said = said
	}
}

// mark begins or ends an operation.
func (r *run) mark(l *line, rec *sim.Record, kind sim.OpKind, says string, begins bool) {
	if !begins {
		for i := range r.marks {
			if m := &r.marks[i]; m.Until == 0 && m.Says == says {
				m.Until = rec.At
				break
			}
		}
		r.turned(l, rec, "heal", "over: %s", says)
		return
	}
	m := Mark{Op: -1, Hand: -1, Kind: kind, Says: says, From: rec.At}
	hand := 0
	for i := range r.schedule.Ops {
		is := r.hands[i]
		if o := &r.schedule.Ops[i]; m.Op < 0 && o.At == rec.At && o.Kind == kind && (o.Node == rec.Node || o.Node == sim.Leader) {
			if m.Op = i; is {
				m.Hand = hand
			}
		}
		if is {
			hand++
		}
	}
	nobody := m.Op >= 0 && r.schedule.Ops[m.Op].Node == sim.Leader && rec.Node == "" // there was no leader
	if nobody || r.atOnce(&m) {
		m.Until = max(m.From, 1) // 0 is that it goes on
	}
	r.marks = append(r.marks, m)
	r.turned(l, rec, "fault", "%s", says)
}

// atOnce reports whether an operation is over when it has begun; no record says that it ends.
func (r *run) atOnce(m *Mark) bool {
	switch m.Kind {
	case sim.OpReplay, sim.OpReset, sim.OpDrop, sim.OpStep, sim.OpFlip, sim.OpResign, sim.OpConfirm, sim.OpTransfer,
		sim.OpWatchClose, sim.OpExpireEarly, sim.OpFailover, sim.OpRollback, sim.OpStoreElect, sim.OpForeign:
		return true
	case sim.OpLocate: // or it holds the position for a while
		return m.Op < 0 || r.schedule.Ops[m.Op].Count > 0 || r.schedule.Ops[m.Op].For <= 0
	}
	return false
}
