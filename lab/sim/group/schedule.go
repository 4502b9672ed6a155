package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// Kind is what a [Fault] does.
type Kind string

// The faults. Node -1 is the node of the coordinator at that time.
const (
	Pause     Kind = "pause"    // the process of Node stands still for For
	Trap      Kind = "trap"     // the process stands still for For in the middle of the effects of a step: before part Part
	TrapCrash Kind = "trap-die" // the process dies there
	Crash     Kind = "crash"    // the process dies; its work lives on for Linger, its claim permitting; Witness; back after For
	Both      Kind = "both"     // the processes of the coordinator and of Node die at once, likewise
	Break     Kind = "break"    // the connection from Node to To breaks
	Cut       Kind = "cut"      // no connection from Node to To for For
	Isolate   Kind = "isolate"  // Node can reach and is reached by nobody for For
	Stall     Kind = "stall"    // what is sent between Node and To, in the direction Part, waits for For
	Fade      Kind = "fade"     // what Node's member says is lost, and what it is told waits for Linger
	Orphan    Kind = "orphan"   // Node is alone for For, and another coordinator begins
	Lapse     Kind = "lapse"    // E's tenure ends
	Resign    Kind = "resign"   // the coordinator is asked to resign
	Slow      Kind = "slow"     // work on Node takes up to Linger to return, for For
	Move      Kind = "move"     // placement wants random moves
	Wild      Kind = "wild"     // placement wants moves that fit nothing
	GiveUp    Kind = "give-up"  // a work on Node returns by itself
	Choose    Kind = "choose"   // the member of Node wants other keys
	Drain     Kind = "drain"    // Node is to be emptied, for For
	Gone      Kind = "gone"     // the process dies, and no other one starts on Node
	Leave     Kind = "leave"    // the member of Node says goodbye, the process ends and is back after For
	Rolling   Kind = "rolling"  // all nodes leave, one after the other, For apart
	Twin      Kind = "twin"     // a second process with Node's id runs elsewhere for For
	Standing  Kind = "standing" // Node begins or ceases to be a candidate of E
	Rate      Kind = "rate"     // Node's clock runs at Rate
	Suspend   Kind = "suspend"  // Node's machine sleeps for For: the process stands still, and one of its clocks
	Halt      Kind = "halt"     // all processes stand still for about For, with an odd Part because their machines sleep
	Jump      Kind = "jump"     // Node's boot clock jumps by For
	Overlap   Kind = "overlap"  // E elects another one while the tenure goes on for For: its contract breaks
	Desert    Kind = "desert"   // the coordinator's node is unreachable for most members, for ever
	Rollout   Kind = "rollout"  // the processes restart one by one, For apart, with the settings numbered Part
	Misfit    Kind = "misfit"   // Node's process restarts with settings that no coordinator takes: which of them says Part
)

// Fault is one event of a schedule.
type Fault struct {
	At      sim.Time      `json:"at"`
	Kind    Kind          `json:"kind"`
	Node    int           `json:"node,omitzero"`
	To      int           `json:"to,omitzero"`
	For     time.Duration `json:"for,omitzero"`
	Linger  time.Duration `json:"linger,omitzero"`
	Part    int           `json:"part,omitzero"`
	Rate    int64         `json:"rate,omitzero"`
	Witness bool          `json:"witness,omitzero"`
	Late    time.Duration `json:"late,omitzero"` // how long after the death of the work the witness speaks
}

// Node is a machine with a process.
type Node struct {
	ID        protocol.NodeID `json:"id"`
	Candidate bool            `json:"candidate,omitzero"` // of E
	Member    bool            `json:"member,omitzero"`
	Rate      int64           `json:"rate,omitzero"`     // of its clocks, in parts per million that they are fast
	Zero      int64           `json:"zero,omitzero"`     // what they show at first
	Settings  int             `json:"settings,omitzero"` // in the schedule's
	Weight    int             `json:"weight,omitzero"`   // for placement, as
	Zone      string          `json:"zone,omitzero"`
}

// Schedule is a whole run as data. The same schedule gives the same run, with the same build.
type Schedule struct {
	Seed     uint64             `json:"seed"`
	Profile  string             `json:"profile"`
	Nodes    []Node             `json:"nodes"`
	Keys     int                `json:"keys"`
	Own      int                `json:"own,omitzero"` // each member wants so many keys, and as many of the one before it; -1: all; 0: all, or some
	Settings []machine.Settings `json:"settings"`     // in the order of their roll-out
	Delay    time.Duration      `json:"delay"`        // mean delay of a message, one way
	Writes   time.Duration      `json:"writes"`       // between two writes of a work; 0: none
	Reuse    bool               `json:"reuse,omitzero"`
	Span     time.Duration      `json:"span"` // of the faults; then the world heals
	Faults   []Fault            `json:"faults,omitempty"`
	// Placement is that of package group/placement, and not by chance.
	Placement bool `json:"placement,omitzero"`
	// Election is E as machines of its own, with the faults of its world, which are those of the group's processes, clocks
	// and links; nil: E is abstract.
	Election *sim.Schedule `json:"election,omitempty"`
	// Mutant is the rule that is switched off: a machine's, in builds with the tag mutants, or one of [Careless].
	Mutant string `json:"mutant,omitzero"`
}

// Options narrow what a seed draws. Zero leaves it to the seed.
type Options struct {
	Profile string
	Nodes   int
	Keys    int
	Span    time.Duration
	Mutant  string
}

// profile is a kind of world.
type profile struct {
	name, says string
	kinds      []Kind // which faults a run has is drawn from these
	dense      time.Duration
	all        bool   // each run has all kinds
	beyond     bool   // E's contract breaks: only tokens help
	placement  bool   // keys are placed by package group/placement
	election   string // the profile of package sim for E's machines; "": E is abstract
}

var common = []Kind{Pause, Trap, TrapCrash, Crash, Both, Break, Cut, Isolate, Stall, Fade, Lapse, Resign, Slow, Move, Wild, GiveUp, Choose, Drain, Leave, Standing, Rate}

// among are the faults that leave processes, clocks and links to E's world.
var among = []Kind{Break, Stall, Fade, Slow, Move, Wild, GiveUp, Choose, Drain}

func profiles() []profile {
	return []profile{
		{name: "swarm", says: "the seed draws which kinds of faults there are", kinds: slices.Concat(common, []Kind{Twin, Rolling, Desert}), dense: 120 * time.Millisecond},
		{name: "storm", says: "all kinds of faults, without a rest", kinds: slices.Concat(common, []Kind{Twin}), dense: 40 * time.Millisecond, all: true},
		{name: "registry", says: "members come, go silent and come back, while coordinators die and change", kinds: []Kind{Pause, Crash, Both, Lapse, Cut, Stall, Break, Twin, TrapCrash, Trap}, dense: 60 * time.Millisecond, all: true},
		{name: "clocks", says: "pauses, and delays at the edge of promises", kinds: []Kind{Pause, Trap, Stall, Fade, Lapse, Rate, Break, Cut, Slow}, dense: 80 * time.Millisecond, all: true},
		{name: "edge", says: "the last word of a member comes late, and clocks are at their bounds", kinds: []Kind{Fade, Stall, Slow, Lapse, Move, Orphan, Orphan}, dense: 150 * time.Millisecond, all: true},
		{name: "moves", says: "placement changes its mind all the time", kinds: []Kind{Move, Wild, GiveUp, Choose, Drain, Slow, Break, Stall}, dense: 10 * time.Millisecond, all: true},
		{name: "rolling", says: "nothing but rolling restarts of three"},
		{name: "leaving", says: "goodbyes, drains, resignations and rolling restarts", kinds: []Kind{Leave, Rolling, Drain, Resign, Move, Crash, Choose}, dense: 250 * time.Millisecond},
		{name: "settings", says: "a longer promise is rolled out in two steps, among faults", kinds: []Kind{Pause, Crash, Both, Lapse, Break, Stall, Fade, Orphan, Misfit}, dense: 120 * time.Millisecond},
		{name: "misfits", says: "candidates come with settings that do not fit, and coordinators die", kinds: []Kind{Pause, Crash, Both, Lapse, Break, Stall, Fade, Move, Misfit}, dense: 150 * time.Millisecond},
		{name: "mixed", says: "half of the processes have the longer promise already", kinds: []Kind{Orphan, Orphan, Fade, Stall, Lapse, Move}, dense: 150 * time.Millisecond, all: true},
		{name: "jumps", says: "machines sleep, and clocks jump", kinds: []Kind{Suspend, Jump, Pause, Lapse, Crash, Break, Stall}, dense: 100 * time.Millisecond, all: true},
		{name: "halts", says: "all processes stand still at once, or all machines sleep, in the end for up to ten minutes", kinds: []Kind{Halt, Crash, Lapse, Move, Break, Stall, Slow, GiveUp}, dense: 300 * time.Millisecond, all: true},
		{name: "deserted", says: "in the end the coordinator is cut off from most members, for ever", kinds: []Kind{Pause, Crash, Lapse, Break, Cut}, dense: 300 * time.Millisecond},
		{name: "placed", says: "members with weights and zones come, leave, are emptied and come back, and the planner places keys", kinds: []Kind{Leave, Rolling, Drain, Crash, Both, Pause, Lapse, Resign, Choose, GiveUp, Slow, Break, Cut}, dense: 150 * time.Millisecond, placement: true},
		{name: "peers", says: "the quorum machines elect the coordinator, among faults of networks, processes, clocks and disks", kinds: among, dense: 500 * time.Millisecond, election: "swarm"},
		{name: "members", says: "the same while the membership of that election changes, and the planner places keys", kinds: among, dense: 500 * time.Millisecond, placement: true, election: "members"},
		{name: "overlap", says: "E has two leaders at a time; only tokens help", kinds: slices.Concat(common, []Kind{Overlap}), dense: 80 * time.Millisecond, all: true, beyond: true},
	}
}

// Profiles names the profiles, the default one first, with what they say.
func Profiles() [][2]string {
	var all [][2]string
	for _, p := range profiles() {
		all = append(all, [2]string{p.name, p.says})
	}
	return all
}

func profileNamed(name string) (profile, bool) {
	all := profiles()
	if name == "" {
		return all[0], true
	}
	i := slices.IndexFunc(all, func(p profile) bool { return p.name == name })
	if i < 0 {
		return profile{}, false
	}
	return all[i], true
}

// Generate draws a schedule from a seed.
func Generate(seed uint64, o Options) (*Schedule, error) {
	p, ok := profileNamed(o.Profile)
	if !ok {
		return nil, fmt.Errorf("profile %q; want one of: %v", o.Profile, Profiles())
	}
	r := sim.NewStream(seed, "schedule")
	s := &Schedule{Seed: seed, Profile: p.name, Mutant: o.Mutant}
	set := machine.Settings{
		Promise: 500 * time.Millisecond, Cover: 500 * time.Millisecond, Poll: 100 * time.Millisecond, Drain: 60 * time.Millisecond,
		Drift: protocol.Drift{PPM: 100_000, Guard: 5 * time.Millisecond}, Bits: 16,
	}
	if r.Chance(0.3) {
		set.Drift.PPM = 50_000
	}
	if r.Chance(0.3) {
		set.Cover += r.Between(0, 300*time.Millisecond)
	}
	set.Drain = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond}[r.Below(3)]
	if p.name == "edge" {
		set.Drain, set.Cover, set.Poll = 2*time.Millisecond, set.Promise, 40*time.Millisecond
	}
	set.Vouchers = []int{0, 0, 1, 2, 3, 5}[r.Below(6)]
	s.Settings = append(s.Settings, set)
	if p.name == "settings" {
		wide := set
		wide.Cover = 900 * time.Millisecond
		long := wide
		long.Promise = 900 * time.Millisecond
		s.Settings = append(s.Settings, wide, long)
	}
	if p.name == "mixed" {
		s.Settings[0].Cover, s.Settings[0].Drain = 900*time.Millisecond, 2*time.Millisecond
		long := s.Settings[0]
		long.Promise = 900 * time.Millisecond
		s.Settings = append(s.Settings, long)
	}
	nodes := o.Nodes
	if nodes == 0 && p.name == "rolling" {
		nodes = 3
	}
	if nodes == 0 {
		nodes = 3 + r.Below(4)
	}
	rho := set.Drift.PPM
	candidates := 0
	for i := range nodes {
		n := Node{ID: protocol.NodeID(fmt.Sprintf("n%d", i+1)), Candidate: true, Member: true, Zero: int64(r.Below(1 << 40))}
		draw := r.Below(6)
		if p.name == "rolling" {
			draw = 5
		}
		switch draw {
		case 0:
			n.Candidate = candidates < 2
		case 1:
			n.Member = i > 2
		}
		if n.Candidate {
			candidates++
		}
		n.Rate = drawRate(r, rho)
		if p.name == "mixed" {
			n.Settings = r.Below(2)
		}
		if p.name == "edge" || p.name == "mixed" {
			n.Rate = []int64{rho, -rho}[r.Below(2)]
		}
		s.Nodes = append(s.Nodes, n)
	}
	if s.Keys = o.Keys; s.Keys == 0 {
		s.Keys = 1 + r.Below(6)
	}
	s.Delay = []time.Duration{500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 10 * time.Millisecond}[r.Below(4)]
	s.Writes = 40 * time.Millisecond
	s.Reuse = r.Chance(0.5)
	if s.Span = o.Span; s.Span == 0 && p.name == "settings" {
		s.Span = 9 * time.Second
	}
	if s.Span == 0 {
		s.Span = 3*time.Second + r.Between(0, 3*time.Second)
		if p.election != "" {
			s.Span *= 4
		}
	}
	s.Placement = p.placement
	if p.placement {
		for i := range s.Nodes {
			s.Nodes[i].Weight, s.Nodes[i].Zone = []int{0, 0, 50, 300}[r.Below(4)], []string{"", "x", "y"}[r.Below(3)]
		}
	}
	if p.election != "" {
		if err := s.electionOf(p.election, o.Nodes, r); err != nil {
			return nil, err
		}
	}
	s.draw(p, rho)
	return s, nil
}

// drawRate draws a clock's rate, often one of the extremes.
func drawRate(r *sim.Stream, rho int64) int64 {
	switch r.Below(4) {
	case 0:
		return rho
	case 1:
		return -rho
	case 2:
		return 0
	}
	return int64(r.Below(int(2*rho+1))) - rho
}

// draw draws the faults.
func (s *Schedule) draw(p profile, rho int64) {
	r := sim.NewStream(s.Seed, "faults")
	kinds := slices.Clone(p.kinds)
	if !p.all {
		kinds = slices.DeleteFunc(kinds, func(Kind) bool { return r.Chance(0.5) })
	}
	kinds = slices.DeleteFunc(kinds, func(k Kind) bool { return k == Desert || k == Misfit })
	long := s.Settings[len(s.Settings)-1].Promise
	at := sim.Time(200 * time.Millisecond)
	if len(kinds) > 0 {
		for {
			at += sim.Time(r.Exp(p.dense))
			if at >= sim.Time(s.Span) {
				break
			}
			f := Fault{At: at, Kind: kinds[r.Below(len(kinds))], Node: r.Below(len(s.Nodes)), To: r.Below(len(s.Nodes))}
			if r.Chance(0.25) {
				f.Node = -1
			}
			f.For = r.Between(0, 50*time.Millisecond)
			if r.Chance(0.5) {
				f.For = r.Between(0, long+long/2)
			}
			f.Part, f.Rate, f.Witness = r.Below(4), drawRate(r, rho), r.Chance(0.5)
			f.Late = r.Exp(5 * time.Millisecond)
			if r.Chance(0.2) {
				f.Late = r.Between(0, 2*long)
			}
			f.Linger = r.Exp(8 * time.Millisecond)
			if r.Chance(0.3) {
				f.Linger = r.Between(0, 2*long)
			}
			if f.Kind == Rolling && r.Chance(0.7) {
				continue
			}
			if f.Kind == Rolling {
				f.For = r.Between(20*time.Millisecond, 250*time.Millisecond)
			}
			if (f.Kind == Fade || f.Kind == Orphan) && (p.name == "edge" || p.name == "mixed") {
				f.For, f.Linger = r.Between(long, 2*long), r.Between(0, long)
			}
			if f.Kind == Jump && r.Chance(0.5) {
				f.For = -f.For
			}
			s.Faults = append(s.Faults, f)
			// Bursts: what happens a few milliseconds later often breaks more.
			if r.Chance(0.3) {
				at += sim.Time(r.Exp(3 * time.Millisecond))
			}
		}
	}
	switch p.name {
	case "settings":
		third := sim.Time(s.Span / 3)
		for i := 1; i < 3; i++ {
			s.Faults = append(s.Faults, Fault{At: third * sim.Time(i), Kind: Rollout, Part: i, For: r.Between(10*time.Millisecond, 400*time.Millisecond)})
		}
		if r.Chance(0.3) {
			s.Nodes[len(s.Nodes)-1].Candidate, s.Nodes[len(s.Nodes)-1].Member = false, true
			s.Faults = append(s.Faults, Fault{At: sim.Time(r.Between(0, s.Span)), Kind: Misfit, Node: len(s.Nodes) - 1, For: s.Span / 5})
		}
	case "misfits":
		for at := r.Between(0, s.Span/4); at < s.Span; at += r.Between(0, s.Span/2) {
			s.Faults = append(s.Faults, Fault{
				At: sim.Time(at), Kind: Misfit, Node: r.Below(len(s.Nodes)), For: r.Between(100*time.Millisecond, 2*time.Second), Part: r.Below(int(unfitKinds)), Witness: r.Chance(0.5),
			})
		}
	case "rolling":
		s.Span = 5 * time.Second
		for i := range 3 {
			s.Faults = append(s.Faults, Fault{At: sim.Time(1500+i*1000) * sim.Time(time.Millisecond), Kind: Rolling, For: r.Between(100*time.Millisecond, 300*time.Millisecond)})
		}
	case "placed":
		if r.Chance(0.5) {
			s.Faults = append(s.Faults, Fault{At: sim.Time(r.Between(0, s.Span)), Kind: Gone, Node: r.Below(len(s.Nodes)), Witness: r.Chance(0.5)})
		}
	case "halts":
		last := Fault{At: sim.Time(s.Span), Kind: Halt, For: r.Between(time.Second, 10*time.Minute), Part: r.Below(2)}
		s.Faults = append(s.Faults, last)
		s.Span += last.For + 2*haltSpread + r.Between(0, time.Second)
	case "deserted":
		s.Faults = append(s.Faults, Fault{At: sim.Time(s.Span) - 1, Kind: Desert})
	default:
		if slices.Contains(p.kinds, Desert) && r.Chance(0.1) {
			s.Faults = append(s.Faults, Fault{At: sim.Time(s.Span) - 1, Kind: Desert})
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(min(max(a.At-b.At, -1), 1)) })
}
