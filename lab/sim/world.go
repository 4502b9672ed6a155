package sim

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// World is one run of a [Schedule]: participants with their machines, clocks and disks, the links
// between them, a store if the protocol uses one, and an oracle that checks after every event. It
// is driven by one goroutine.
type World struct {
	protocol   *Protocol
	excused    []Invariant // need not hold in this run; never changed
	schedule   *Schedule
	membership *protocol.Membership

	now    Time
	seq    uint64 // of the event that was planned last
	events uint64 // that have happened
	hash   uint64
	burst  int // events in a row at one instant
	agenda agenda

	nodes []*node // n1, …, o1, …, s1, …, and then a twin of each that gets one

	links   []link  // from·len(nodes) + to
	shapes  []shape // from·width + to, of bases: the state of each link
	shaping []int   // scratch of reshape
	width   int     // participants without twins
	core    places  // the healed participants; see chooseCore
	// Of the nodes, by index, with the participants: index·width + base. nil where there are no
	// twins, or none that are distinguished.
	meetings []meeting
	idle     time.Duration // how long a connection lasts that is cut
	lies     bool          // a participant may pass for another
	never    uint32        // participants that never lead, by place
	strict   bool          // positions are required
	// No majority is left that could be healed.
	noCore  bool
	flights slab[flight]
	waiting slab[waiting]
	delayed slab[delayed]
	ops     []opState

	operator stream // of what operators choose
	store    storeModel
	servers  servers
	oracle   oracle
	work     work
	resource resource
	stats    Stats
	seen     Seen

	violation *Violation
	found     []Violation
	over      bool
	healed    bool

	// A step is being carried out: no other input is allowed.
	busy  bool
	input protocol.Input
	fx    protocol.Effects

	tracer Tracer
	record uint64            // number of the last record
	cause  uint64            // the record that caused the present event
	causes map[uint64]uint64 // of planned events, by seq; only while traced
}

// Result is the outcome of a run.
type Result struct {
	Schedule  *Schedule     `json:"schedule"`
	Hash      uint64        `json:"hash"` // of the whole run; equal builds and schedules give equal hashes
	Events    uint64        `json:"events"`
	Virtual   time.Duration `json:"virtual"` // how much true time has passed
	Violation *Violation    `json:"violation,omitempty"`
	// Found are the first failures of invariants that may or must fail.
	Found []Violation `json:"found,omitempty"`
	Stats Stats       `json:"stats"`
	Seen  Seen        `json:"seen"`
}

// Failure is the first failure of that invariant, expected or not, or nil.
func (r *Result) Failure(inv Invariant) *Violation {
	if r.Violation != nil && r.Violation.Invariant == inv {
		return r.Violation
	}
	for i := range r.Found {
		if r.Found[i].Invariant == inv {
			return &r.Found[i]
		}
	}
	return nil
}

// Violation is a violation of an invariant.
type Violation struct {
	Invariant Invariant       `json:"invariant"`
	At        Time            `json:"at"`
	Event     uint64          `json:"event"` // how many events had happened, this one included
	Node      protocol.NodeID `json:"node,omitempty"`
	Says      string          `json:"says"`
}

// String is the violation in one line.
func (v *Violation) String() string {
	who := ""
	if v.Node != "" {
		who = string(v.Node) + ": "
	}
	return fmt.Sprintf("%s, at %s: %s%s", v.Invariant, v.At, who, v.Says)
}

// String is the time since the world began, such as 1.5s.
func (t Time) String() string { return time.Duration(t).String() }

// New makes the world of a schedule, before its first event. The error names the wrong field of the
// schedule, and what would be right.
func New(p *Protocol, s *Schedule) (*World, error) {
	if err := s.Validate(p); err != nil {
		return nil, err
	}
	excused, err := s.Excused(p)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	w := &World{protocol: p, excused: excused, schedule: s, width: s.Nodes + s.Observers + s.Spares, hash: s.Seed}
	w.populate()
	w.operator = *w.stream("operator")
	for _, n := range w.nodes[:w.width] {
		// A configuration from which no machine can be made is an error of the schedule.
		if _, err := p.New(w.participant(n)); err != nil {
			return nil, fmt.Errorf("config: %s: %w", n.id, err)
		}
	}
	if p.Store != StoreNone {
		w.store = newStore(p.Store, w)
	}
	if err := w.appoint(); err != nil {
		return nil, err
	}
	if err := w.meet(); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	w.oracle.founded(w.membership)
	w.plan()
	return w, nil
}

// appoint determines which participants never lead, and whether positions are required.
func (w *World) appoint() (err error) {
	if w.protocol.Requires != nil {
		if w.strict, err = w.protocol.Requires(w.schedule.Config); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	}
	if w.protocol.Never == nil {
		return nil
	}
	for _, n := range w.nodes[:w.width] {
		never, err := w.protocol.Never(w.schedule.Config, n.id)
		if err != nil {
			return fmt.Errorf("config: %s: %w", n.id, err)
		}
		if never {
			w.never |= 1 << n.base
		}
	}
	return nil
}

// Now is the true time.
func (w *World) Now() Time { return w.now }

// Hash is the hash of everything that has happened so far.
func (w *World) Hash() uint64 { return w.hash }

// Run executes all events until the run is over.
func (w *World) Run() {
	for w.Step() {
	}
}

// maxBurst is how many events at one instant show that time will never advance.
const maxBurst = 1_000_000

// Step executes one event. It returns false when the run is over: at its end, or when an invariant
// that must hold was violated.
func (w *World) Step() bool {
	for !w.over && !w.next() {
	}
	return !w.over
}

// next executes the next event, and returns false if it had no effect.
func (w *World) next() bool {
	e := w.agenda.pop()
	if e.at > w.now {
		w.now, w.burst = e.at, 0
	} else if w.burst++; w.burst > maxBurst {
		w.fail(NoPanic, nil, "%d events at one instant", maxBurst)
	}
	if w.tracer != nil {
		w.cause = w.causes[e.seq]
	}
	w.events++ // so that a failure in it has its number
	if !w.happen(e) {
		w.events--
		return false
	}
	if w.schedule.Store.Replicated && w.store != nil {
		w.replicate()
	}
	w.mix(uint64(e.at))
	w.mix(uint64(e.kind)<<56 | uint64(uint32(e.node))<<24 ^ uint64(e.life))
	if w.tracer != nil {
		delete(w.causes, e.seq)
	}
	return true
}

// happen executes e, and returns false if it had no effect.
func (w *World) happen(e event) bool {
	switch e.kind {
	case evFire:
		return w.fire(w.nodes[e.node], e)
	case evDeliver, evClosed:
		w.deliver(w.nodes[e.node], e)
	case evStore:
		w.store.event(w, e)
	case evWork, evWrite:
		w.oracle.event(w, e)
	case evDisk:
		return w.written(w.nodes[e.node], e)
	case evReply, evCommand:
		w.handleDelayed(w.nodes[e.node], e)
	case evBoot:
		n := w.nodes[e.node]
		if n.up || n.life != e.life {
			return false
		}
		w.boot(n)
	case evThaw:
		n := w.nodes[e.node]
		if !n.up || n.life != e.life || !n.frozen || w.now < n.frozeT {
			return false
		}
		w.thaw(n)
	case evWake:
		n := w.nodes[e.node]
		if !n.clock.asleep || w.now < n.sleepT {
			return false
		}
		w.wake(n)
	case evOp:
		w.begin(int(e.ref))
	case evTick:
		return w.tick(int(e.ref))
	case evOpEnd:
		return w.end(int(e.ref))
	case evSnapshot:
		w.ops[e.ref].snapshot = w.nodes[e.node].disk.copySlots()
	case evHeal:
		w.heal()
	case evAppend:
		w.appendLog()
	case evLocate:
		w.copied(w.nodes[e.node], e)
	case evEnd:
		w.finish()
	}
	return true
}

// finish ends the run.
func (w *World) finish() {
	if w.over {
		return
	}
	w.over = true
	w.oracle.over(w)
	w.tell(nil, RecordEnd, "")
}

// fail records a violation of an invariant. The first of one that must hold ends the run; of others
// the first is kept and the rest is counted.
func (w *World) fail(inv Invariant, n *node, format string, args ...any) {
	if w.violation != nil {
		return
	}
	must := w.protocol.Expect[inv] == MustHold && !slices.Contains(w.excused, inv)
	if !must {
		w.stats.failed(inv, 1)
		for i := range w.found {
			if w.found[i].Invariant == inv {
				return
			}
		}
	}
	v := Violation{Invariant: inv, At: w.now, Event: w.events, Says: fmt.Sprintf(format, args...)}
	if n != nil {
		v.Node = n.id
	}
	w.tell(n, RecordViolation, string(inv)+": "+v.Says)
	if !must {
		w.found = append(w.found, v)
		return
	}
	w.violation = &v
	w.finish()
}

// Result is the outcome of the run so far.
func (w *World) Result() *Result {
	r := &Result{
		Schedule: w.schedule, Hash: w.hash, Events: w.events, Virtual: time.Duration(w.now),
		Found: slices.Clone(w.found), Stats: w.stats.clone(), Seen: w.seen,
	}
	if w.violation != nil {
		v := *w.violation
		r.Violation = &v
	}
	return r
}

// mix adds a word to the hash.
func (w *World) mix(word uint64) {
	w.hash = bits.RotateLeft64(w.hash^word, 29) * 0x9e3779b97f4a7c15
}

// mixStep adds the outcome of a step to the hash.
func (w *World) mixStep(n *node, next protocol.Instant) {
	v := &n.view
	w.mix(uint64(next) ^ uint64(v.Role)<<60)
	w.mix(v.Term ^ v.Token<<20 ^ uint64(v.LeaseEnd)<<8)
	w.mix(uint64(len(w.fx.Sends)) | uint64(len(w.fx.Saves))<<16 | uint64(len(w.fx.Asks))<<24 | uint64(len(w.fx.Orders))<<32)
}

// named is the participant with that name, not its twin; nil if there is none.
func (w *World) named(id protocol.NodeID) *node {
	if i := w.index(id); i >= 0 {
		return w.nodes[i]
	}
	return nil
}

// index is the place of a participant, or -1.
func (w *World) index(id protocol.NodeID) int {
	if len(id) < 2 || len(id) > 5 {
		return -1
	}
	k := 0
	for _, c := range []byte(id[1:]) {
		if c < '0' || c > '9' {
			return -1
		}
		k = 10*k + int(c-'0')
	}
	switch {
	case k < 1 || id[1] == '0':
	case id[0] == 'n' && k <= w.schedule.Nodes:
		return k - 1
	case id[0] == 'o' && k <= w.schedule.Observers:
		return w.schedule.Nodes + k - 1
	case id[0] == 's' && k <= w.schedule.Spares:
		return w.schedule.Nodes + w.schedule.Observers + k - 1
	}
	return -1
}
