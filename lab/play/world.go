package play

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/compare"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

// World describes a run. Of Scenario, Profile and Schedule at most one is set; without any the
// world is calm, and its faults are the Hands.
type World struct {
	Protocol string `json:"protocol"`
	// Scenario is the name of a scenario that applies to Protocol.
	Scenario string `json:"scenario,omitempty"`
	// Profile is the name of a family of faults, which are drawn from Seed.
	Profile string `json:"profile,omitempty"`
	// Schedule is a schedule, such as that of a file. If it is for another protocol, it is adapted,
	// as package compare does.
	Schedule *sim.Schedule `json:"schedule,omitempty"`
	// Seed is the seed of all chance; 0 is 1.
	Seed uint64 `json:"seed,omitempty"`
	// Nodes and Seconds (of virtual time) are for a calm world and a profile. 0 is 5 nodes, and 60
	// s. Of more nodes than an election may have voters, the others are observers, as far as the
	// protocol has them.
	Nodes   int     `json:"nodes,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Delay is the least one-way delay of the links of a calm world, and of the way to its store; 0 is
	// half a millisecond.
	Delay time.Duration `json:"delay,omitempty"`
	// Hands are the visitor's operations, in addition to those of the schedule.
	Hands []sim.Op `json:"hands,omitempty"`
}

// The limits of a World.
const (
	MaxNodes   = 15 // where no store elects them; sim.MaxNodes of them vote
	MaxSeconds = 24 * 60 * 60
	MaxHands   = 1000
	MaxDelay   = 10 * time.Second
	MaxEvents  = 5_000_000 // of a run, which then ends with Overview.Cut
	MaxRuns    = 10_000    // of a comparison
	MaxKept    = 7         // runs beside the present one
)

// schedule returns the schedule of w, without its hands.
func (w *World) schedule() (*sim.Protocol, *sim.Schedule, error) {
	p, ok := protocols.ByName(w.Protocol)
	if !ok {
		return nil, nil, fmt.Errorf("protocol %q; want %s", w.Protocol, strings.Join(names(), ", "))
	}
	set := 0
	for _, is := range []bool{w.Scenario != "", w.Profile != "", w.Schedule != nil} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return nil, nil, errors.New("more than one of scenario, profile and schedule; want one at most")
	case (w.Scenario != "" || w.Schedule != nil) && (w.Nodes != 0 || w.Seconds != 0):
		return nil, nil, errors.New("nodes or seconds with a scenario or a schedule, which have their own; want neither")
	case w.Delay != 0 && set > 0:
		return nil, nil, errors.New("delay with a scenario, a profile or a schedule, which have their own; want none")
	case w.Delay < 0 || w.Delay > MaxDelay:
		return nil, nil, fmt.Errorf("delay %s; want 0 to %s", w.Delay, MaxDelay)
	case w.Seconds < 0 || w.Seconds > MaxSeconds:
		return nil, nil, fmt.Errorf("seconds %g; want 0 to %d", w.Seconds, MaxSeconds)
	case len(w.Hands) > MaxHands:
		return nil, nil, fmt.Errorf("%d hands; want %d at most", len(w.Hands), MaxHands)
	}
	if most := mostNodes(p); w.Nodes < 0 || w.Nodes > most {
		return nil, nil, fmt.Errorf("nodes %d; want 1 to %d", w.Nodes, most)
	}
	seed, nodes, span := max(w.Seed, 1), w.Nodes, seconds(w.Seconds)
	if nodes == 0 {
		nodes = 5
	}
	if span == 0 {
		span = time.Minute
	}
	observers := 0
	if p.Store == sim.StoreNone {
		observers = max(nodes-sim.MaxNodes, 0)
		nodes -= observers
	}
	var s *sim.Schedule
	var err error
	switch {
	case w.Scenario != "":
		sc, ok := scenario.ByName(w.Scenario)
		if !ok {
			return nil, nil, errScenario(w.Scenario)
		}
		if s, err = sc.Schedule(p.Name); err == nil && w.Seed != 0 {
			s.Seed = seed
		}
	case w.Schedule != nil:
		c := *w.Schedule
		if s = &c; s.Protocol != p.Name {
			if s, err = compare.Adapt(s, p); err != nil {
				return nil, nil, err
			}
		}
		s.Ops = slices.Clone(s.Ops)
	case w.Profile != "":
		s, err = sim.Generate(p, seed, sim.Options{Nodes: nodes, Observers: observers, Profile: w.Profile, Faults: span, Settle: -1, Spares: -1})
	default:
		if s, err = scenario.Calm(p.Name, nodes); err == nil {
			s.Seed, s.Faults, s.Observers = seed, span, observers
			if w.Delay > 0 {
				s.Links.Delay, s.Links.Jitter = w.Delay, w.Delay/10
				if p.Store != sim.StoreNone {
					s.Store.Delay, s.Store.Jitter = w.Delay, w.Delay/10
					s.Store.Timeout = max(s.Store.Timeout, 4*w.Delay)
				}
			}
		}
	}
	return p, s, err
}

// mostNodes is how many nodes a world of a protocol may have.
func mostNodes(p *sim.Protocol) int {
	switch {
	case p.Store != sim.StoreNone:
		return sim.MaxCandidates
	case p.Members != nil:
		return MaxNodes
	}
	return sim.MaxNodes
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func errScenario(name string) error {
	return fmt.Errorf("scenario %q; want one that the catalogue lists", name)
}

func names() []string {
	var all []string
	for _, p := range known() {
		all = append(all, p.Name)
	}
	return all
}

// known returns the protocols of this laboratory, and the naive locks.
func known() []*sim.Protocol { return append(protocols.All(), protocols.Naive()...) }

// insert adds an operation of the visitor before those of the same time, and returns its index. The
// run may break the protocol's assumptions from then on: it is marked as beyond the model.
func insert(s *sim.Schedule, op sim.Op) int {
	i, _ := slices.BinarySearchFunc(s.Ops, op.At, func(o sim.Op, at sim.Time) int {
		if o.At < at {
			return -1
		}
		return 1
	})
	s.Ops = slices.Insert(s.Ops, i, op)
	s.Beyond = true
	return i
}

// open begins the run of a world.
func (p *Player) open(w *World) (any, error) {
	r, err := begin(w)
	if err != nil {
		return nil, err
	}
	p.run = r
	return r.overview(), nil
}

func begin(w *World) (*run, error) {
	proto, s, err := w.schedule()
	if err != nil {
		return nil, err
	}
	hands := map[int]bool{}
	for _, op := range w.Hands {
		i := insert(s, op)
		next := map[int]bool{i: true}
		for k := range hands {
			if k >= i {
				k++
			}
			next[k] = true
		}
		hands = next
	}
	world, err := sim.New(proto, s)
	if err != nil {
		return nil, err
	}
	return newRun(w, proto, s, hands, world), nil
}

type growParams struct {
	// Events is the greatest number of further events; 0 is 20,000.
	Events int `json:"events"`
}

// grow executes further events of the run.
func (p *Player) grow(a *growParams) (any, error) {
	r, err := p.played()
	if err != nil {
		return nil, err
	}
	if a.Events == 0 {
		a.Events = 20_000
	}
	r.grow(a.Events)
	return r.overview(), nil
}

type doParams struct {
	// Event is the event after which the operation begins; Op.At is set from it.
	Event uint64 `json:"event"`
	Op    sim.Op `json:"op"`
}

// do adds an operation of the visitor, right after an event. The run up to that event stays as it
// was, and continues differently.
func (p *Player) do(a *doParams) (any, error) {
	r, err := p.played()
	if err != nil {
		return nil, err
	}
	op := a.Op
	if err := r.history.Visit(a.Event, func(w *sim.World) { op.At = w.Now() + 1 }); err != nil {
		return nil, err
	}
	w := *r.world
	w.Hands = append(slices.Clone(w.Hands), op)
	slices.SortStableFunc(w.Hands, func(a, b sim.Op) int { return int(min(max(a.At-b.At, -1), 1)) })
	return p.again(&w, a.Event)
}

type dropParams struct {
	Hand  int    `json:"hand"` // its index among the hands
	Event uint64 `json:"event"`
}

// drop removes an operation of the visitor.
func (p *Player) drop(a *dropParams) (any, error) {
	r, err := p.played()
	if err != nil {
		return nil, err
	}
	w := *r.world
	if a.Hand < 0 || a.Hand >= len(w.Hands) {
		return nil, fmt.Errorf("hand %d; want 0 to %d", a.Hand, len(w.Hands)-1)
	}
	w.Hands = slices.Delete(slices.Clone(w.Hands), a.Hand, a.Hand+1)
	return p.again(&w, a.Event)
}

// again runs another world up to an event, and makes that run the present one.
func (p *Player) again(w *World, event uint64) (any, error) {
	r, err := begin(w)
	if err != nil {
		return nil, err
	}
	for !r.over && r.events() < event+1 {
		r.grow(int(event + 1 - r.events()))
	}
	p.run = r
	return r.overview(), nil
}

// encode returns the schedule with the hands, in the form of a file.
func (p *Player) encode(*struct{}) (any, error) {
	switch {
	case p.run == nil:
		return nil, errNone
	case p.run.schedule.Protocol == "":
		return nil, errors.New("this trace has no schedule; want one of the simulator")
	}
	text, err := p.run.schedule.Encode()
	if err != nil {
		return nil, err
	}
	return map[string]string{"schedule": string(text)}, nil
}

// id returns the name of the participant at a place.
func (r *run) id(place int) protocol.NodeID {
	if place < 0 || place >= len(r.nodes) {
		return ""
	}
	return r.nodes[place]
}
