package group

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
)

// World is one run.
type World struct {
	s       *Schedule
	profile profile
	out     io.Writer // of the story; nil: none
	now     sim.Time
	agenda  agenda
	seq     uint64
	events  uint64
	hash    uint64
	over    bool

	nodes  []*node
	e      election
	links  map[[2]int]*link // by the indices of the member's and the candidate's node
	keys   []*key
	byName map[machine.Key]*key
	conns  machine.Conn
	lives  uint64
	fx     machine.Effects

	net, chance, wait *sim.Stream // of delays, of machines and placement, of work

	healed sim.Time // since then there are no faults; 0: not yet
	mishap *sim.Violation
	stats  Stats
	seen   situations
	watch  func(string) // a test's, of what is told
	// stepped is a test's, of each step of a coordinator.
	stepped func(*process, *coordinator, *machine.Input, *machine.Effects)
	tracer  *tracer // nil: there is no trace
}

// node is a machine: its clocks outlive its processes.
type node struct {
	Node
	index    int
	clock    sim.Clock
	rate     int64 // of the clock of E's participant
	asleep   bool
	p        *process      // nil: none runs
	aside    sim.Time      // E does not elect it before
	settings int           // of the next process, in the schedule's
	unfit    unfit         // of the next process
	slow     sim.Time      // until then its work returns late
	linger   time.Duration // by as much
	drained  bool
	gone     bool // nothing starts here any more
	twin     bool
}

// link is the network from one node to another, for connections of a member to a candidate.
type link struct {
	cut sim.Time // until then nothing passes
}

// longest is the time by which a world that has healed has to be in order again. Peers may need most of it to elect, and
// those that a deserted coordinator would come back to.
const (
	longest           = 20 * time.Second
	longestAmongPeers = 60 * time.Second
)

func (w *World) longest() time.Duration {
	if w.e.peers != nil {
		return longestAmongPeers
	}
	return longest
}

// New returns the world of a schedule at its beginning. A story of the run is written to out, unless it is nil.
func New(s *Schedule, out io.Writer) (*World, error) {
	p, ok := profileNamed(s.Profile)
	if !ok {
		return nil, fmt.Errorf("profile %q; want one of: %v", s.Profile, Profiles())
	}
	w := &World{s: s, profile: p, out: out, links: map[[2]int]*link{}, byName: map[machine.Key]*key{}}
	w.net, w.chance, w.wait = sim.NewStream(s.Seed, "net"), sim.NewStream(s.Seed, "chance"), sim.NewStream(s.Seed, "work")
	w.e = election{w: w, r: sim.NewStream(s.Seed, "election"), sight: sim.NewStream(s.Seed, "sight")}
	for i := range s.Keys {
		k := &key{name: machine.Key(fmt.Sprintf("k%02d", i+1))}
		w.keys = append(w.keys, k)
		w.byName[k.name] = k
	}
	for _, n := range s.Nodes {
		w.addNode(n)
	}
	if s.Election != nil { // which starts the processes
		q, err := newPeers(w, s.Election)
		if err != nil {
			return nil, err
		}
		w.e.peers = q
	} else {
		for _, n := range w.nodes {
			w.in(w.wait.Between(0, 20*time.Millisecond), func() { w.start(n) })
		}
		w.in(w.e.r.Between(0, 60*time.Millisecond), w.e.elect)
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		w.at(f.At, func() { w.fault(f) })
	}
	w.at(sim.Time(s.Span), w.heal)
	return w, nil
}

func (w *World) addNode(n Node) *node {
	x := &node{Node: n, index: len(w.nodes), clock: sim.NewClock(protocol.Instant(n.Zero), n.Rate), rate: n.Rate, settings: n.Settings, unfit: fitting}
	w.nodes = append(w.nodes, x)
	return x
}

// Step lets the next event happen, and returns false if the run is over.
func (w *World) Step() bool {
	if w.over || len(w.agenda) == 0 {
		w.over = true
		return false
	}
	e := w.agenda.pop()
	w.now = e.at
	w.events++
	w.guarded(e.do)
	return !w.over
}

// guarded turns a panic of a machine into a violation.
func (w *World) guarded(do func()) {
	defer func() {
		if r := recover(); r != nil {
			w.fail(sim.NoPanic, nil, "%v\n%s", r, debug.Stack())
		}
	}()
	do()
}

// Run runs a schedule to its end. A story is written to out, unless it is nil.
func Run(s *Schedule, out io.Writer) (*Result, error) {
	w, err := New(s, out)
	if err != nil {
		return nil, err
	}
	for w.Step() {
	}
	return w.Result(), nil
}

// Result is what came of a run.
type Result struct {
	Seed      uint64         `json:"seed"`
	Violation *sim.Violation `json:"violation,omitempty"`
	Events    uint64         `json:"events"`
	Virtual   time.Duration  `json:"virtual"`
	Hash      uint64         `json:"hash"` // of all that machines did
	Stats     Stats          `json:"stats"`

	seen situations
}

// Result is what has come of the run so far.
func (w *World) Result() *Result {
	return &Result{Seed: w.s.Seed, Violation: w.mishap, Events: w.events, Virtual: time.Duration(w.now), Hash: w.hash, Stats: w.stats, seen: w.seen}
}

// tell writes a line of the story.
func (w *World) tell(n *node, format string, args ...any) {
	if w.out == nil && w.watch == nil {
		return
	}
	who := "world"
	if n != nil {
		who = string(n.ID)
		if n.twin {
			who += "'"
		}
	}
	line := fmt.Sprintf("%11.6f %-5s %s", time.Duration(w.now).Seconds(), who, fmt.Sprintf(format, args...))
	if w.watch != nil {
		w.watch(line)
	}
	if w.out != nil {
		fmt.Fprintln(w.out, line)
	}
}

// fail ends the run with a violation.
func (w *World) fail(inv sim.Invariant, n *node, format string, args ...any) {
	if w.mishap != nil {
		return
	}
	v := &sim.Violation{Invariant: inv, At: w.now, Event: w.events, Says: fmt.Sprintf(format, args...)}
	if n != nil {
		v.Node = n.ID
	}
	w.mishap, w.over = v, true
	e := &trace.Event{Kind: trace.Violation, Invariant: string(inv), Says: v.Says}
	if n != nil && !n.twin {
		e.Node = n.ID
	}
	w.trace(nil, e)
	w.tell(n, "VIOLATION %s: %s", inv, v.Says)
}

// digest adds what happened to the hash.
func (w *World) digest(words ...uint64) {
	const prime = 1099511628211 // FNV-1a
	for _, x := range words {
		w.hash = (w.hash ^ x) * prime
		w.hash ^= w.hash >> 29
	}
}

// node returns the node of a fault: -1 is that of the coordinator, nil if there is none.
func (w *World) nodeOf(i int) *node {
	if i >= 0 {
		return w.nodes[i%len(w.nodes)]
	}
	if t := w.e.tenure; t != nil {
		return t.p.node
	}
	return nil
}

// link returns the network from the member at m to the candidate at c.
func (w *World) link(m, c *node) *link {
	at := [2]int{m.index, c.index}
	l := w.links[at]
	if l == nil {
		l = &link{}
		w.links[at] = l
	}
	return l
}

// heal ends all faults. Broken for ever stay what Desert has cut off, and some of the dead.
func (w *World) heal() {
	w.healed = w.now
	w.tell(nil, "the faults are over")
	w.trace(nil, &trace.Event{Kind: trace.Heal, Says: "the faults are over"})
	for _, n := range w.nodes {
		n.slow, n.drained, n.unfit = 0, false, fitting
		if n.p != nil && n.p.unfit != fitting {
			w.kill(n, &Fault{})
		}
		if n.twin {
			if n.p != nil && w.chance.Chance(0.5) {
				w.kill(n, &Fault{})
			}
			n.gone = true
		}
		switch {
		case w.e.peers != nil: // its world heals now, too
		case n.p != nil:
			n.p.trap = nil
			w.thaw(n.p)
		case !n.gone:
			w.start(n)
		}
	}
	if w.e.peers == nil && !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.Candidate && !n.gone }) {
		w.nodes[0].Candidate = true
	}
	for _, m := range w.nodes {
		for _, c := range w.nodes {
			if l := w.links[[2]int{m.index, c.index}]; l != nil && l.cut != forever {
				*l = link{}
			}
			w.dial(m, c)
		}
	}
	w.in(20*time.Millisecond, w.judgeLive)
}

// forever is after the end of every run.
const forever = sim.Time(1 << 62)
