package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// Mode is how time passes.
type Mode string

// The modes.
const (
	// Async: each clock by itself, and only when something is due.
	Async Mode = "async"
	// Timed: true time in ticks, and clocks that drift within bounds.
	Timed Mode = "timed"
)

// The greatest bounds. They are what a state has room for.
const (
	MaxNodes    = 5
	MaxTerms    = 7
	MaxMessages = 8
	maxBudget   = 255
	maxTicks    = 255
)

// World is the object of an exploration: bounds, and the possible events within them. Everything
// else is unbounded: every message may be lost, delayed and overtaken, every save may take any
// time.
type World struct {
	Name string `json:"name,omitzero"`
	Mode Mode   `json:"mode"`
	// Nodes is the number of nodes, 1 to MaxNodes. The first Voters of them are voters, all if that
	// is 0; the others are observers.
	Nodes  int `json:"nodes"`
	Voters int `json:"voters,omitzero"`
	// Candidates is how many of the first nodes stand for election when they are voters; 0 is all.
	Candidates int `json:"candidates,omitzero"`
	// Terms is the highest term of a vote request, 1 to MaxTerms.
	Terms int `json:"terms"`
	// Messages is the greatest number in flight, 1 to MaxMessages. When one more is sent, any of
	// them may be lost to make room.
	Messages int `json:"messages"`

	// The greatest total number of each event. Fires counts timers that fire, Waits clocks that
	// advance without one.
	Fires      int `json:"fires"`
	Saves      int `json:"saves,omitzero"` // a save takes its time; all others are durable at once
	Waits      int `json:"waits,omitzero"`
	Crashes    int `json:"crashes,omitzero"`
	Duplicates int `json:"duplicates,omitzero"`
	Hints      int `json:"hints,omitzero"`     // a node is told that its leader closed its connection
	Witnesses  int `json:"witnesses,omitzero"` // a keeper tells all that a dead node's work is dead
	Failures   int `json:"failures,omitzero"`  // a save fails
	Resigns    int `json:"resigns,omitzero"`   // a leader is told to resign
	Transfers  int `json:"transfers,omitzero"` // a leader is told to transfer to some other
	Pauses     int `json:"pauses,omitzero"`    // a node is paused; it is resumed at any time
	Changes    int `json:"changes,omitzero"`   // a leader is told to make one of Memberships that of the election

	// Memberships are the possible voters after a change; all other nodes are observers then.
	Memberships [][]protocol.NodeID `json:"memberships,omitzero"`
	// Priorities of single nodes, where they are not the default.
	Priorities map[protocol.NodeID]int `json:"priorities,omitzero"`

	// Begin is the world's beginning.
	Begin Beginning `json:"begin,omitzero"`

	// Of mode Timed.
	Ticks int `json:"ticks,omitzero"` // true time ends then, at most maxTicks
	// Rates are the amounts by which a clock may advance in a tick, in hundredths of a tick: 100 is
	// a true clock. Each clock keeps its first rate, unless Swing is set: then it may have another
	// one in each tick.
	Rates []int `json:"rates,omitzero"`
	Swing bool  `json:"swing,omitzero"`
	// Outlives: a work goes on when its process dies, until the end of its lease.
	Outlives bool `json:"outlives,omitzero"`

	// Promises of single nodes, in heartbeats, where they differ from the others'.
	Promises map[protocol.NodeID]int `json:"promises,omitzero"`
	// Promise is that of all others, in heartbeats, if it is not 0.
	Promise int `json:"promise,omitzero"`

	// Mutant is the rule that is switched off, in builds with mutants.
	Mutant string `json:"mutant,omitzero"`
}

// Beginning is how a world begins.
type Beginning string

// The beginnings.
const (
	// Idle: all nodes have booted and saved that, and then nothing has happened until nothing is
	// owed and every node may stand.
	Idle Beginning = ""
	// Cold: no node has been started yet; starts are events.
	Cold Beginning = "cold"
	// Led: n1 leads, all have acked that, and nothing is in flight.
	Led Beginning = "led"
	// Apart: n1 leads, and its lease is proven by all but n2, which has heard
	// nothing for so long that it owes nothing and may stand.
	Apart Beginning = "apart"
)

// tick is true time's unit in mode Timed, and the heartbeat there.
const tick = time.Millisecond

// Validate returns an error if the world is invalid.
func (w *World) Validate() error {
	in := func(what string, n, least, most int) error {
		if n < least || n > most {
			return fmt.Errorf("%s: %d; want %d to %d", what, n, least, most)
		}
		return nil
	}
	err := errors.Join(
		in("nodes", w.Nodes, 1, MaxNodes), in("voters", w.Voters, 0, w.Nodes), in("candidates", w.Candidates, 0, w.Nodes),
		in("terms", w.Terms, 1, MaxTerms), in("messages in flight", w.Messages, 1, MaxMessages),
		in("fires", w.Fires, 0, maxBudget), in("saves", w.Saves, 0, maxBudget), in("waits", w.Waits, 0, maxBudget), in("crashes", w.Crashes, 0, maxBudget),
		in("duplicates", w.Duplicates, 0, maxBudget), in("hints", w.Hints, 0, maxBudget), in("witnesses", w.Witnesses, 0, maxBudget),
		in("failures", w.Failures, 0, maxBudget), in("resigns", w.Resigns, 0, maxBudget),
		in("transfers", w.Transfers, 0, maxBudget), in("pauses", w.Pauses, 0, maxBudget), in("changes", w.Changes, 0, maxBudget),
		in("memberships", len(w.Memberships), 0, 32),
	)
	if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if w.Begin == Apart && w.Nodes < 3 {
		return fmt.Errorf("a world that begins %q has 3 nodes or more", Apart)
	}
	for _, all := range w.Memberships {
		for _, id := range all {
			if !slices.Contains(w.ids(), id) {
				return fmt.Errorf("a membership with %q; the nodes are %v", id, w.ids())
			}
		}
		if err := w.members(all).Validate(); err != nil {
			return err
		}
	}
	switch w.Begin {
	case Idle, Cold, Led, Apart:
	default:
		return fmt.Errorf("a world that begins %q; want %q, %q, %q or nothing", w.Begin, Cold, Led, Apart)
	}
	switch w.Mode {
	case Async:
		if w.Ticks != 0 || len(w.Rates) > 0 || w.Swing || w.Outlives {
			return errors.New("ticks, rates and works that outlive a process are of mode timed")
		}
	case Timed:
		if err := in("ticks", w.Ticks, 1, maxTicks); err != nil {
			return err
		}
		for _, r := range w.Rates {
			if r < 80 || r > 120 {
				return fmt.Errorf("a rate of %d %%; want 80 to 120: drift is bounded by 20 %%", r)
			}
		}
		if w.Waits > 0 {
			return errors.New("waits are of mode async; in mode timed, time passes by itself")
		}
	default:
		return fmt.Errorf("mode %q; want %s or %s", w.Mode, Async, Timed)
	}
	if _, err := newEngine(w); err != nil {
		return err
	}
	return nil
}

func (w *World) voters() int {
	if w.Voters == 0 {
		return w.Nodes
	}
	return w.Voters
}

func (w *World) candidates() int {
	if w.Candidates == 0 {
		return w.Nodes
	}
	return w.Candidates
}

// rates is what a clock may advance by in a tick.
func (w *World) rates() []int {
	if len(w.Rates) == 0 {
		return []int{100}
	}
	return w.Rates
}

// drift is the least ρ that bounds the rates, in parts per million.
func (w *World) drift() int64 {
	var worst int64
	for _, r := range w.rates() {
		worst = max(worst, int64(r-100)*10_000, int64(100-r)*10_000)
	}
	return worst
}

// id is the id of the i-th node.
func id(i int) protocol.NodeID { return protocol.NodeID(fmt.Sprintf("n%d", i+1)) }

// ids are those of all nodes.
func (w *World) ids() []protocol.NodeID {
	var all []protocol.NodeID
	for i := range w.Nodes {
		all = append(all, id(i))
	}
	return all
}

func voter(i int) protocol.Voter {
	v := protocol.Voter{ID: id(i)}
	for j := range v.Dir {
		v.Dir[j] = byte(i + 1)
	}
	return v
}

// members is a membership of these voters.
func (w *World) members(voters []protocol.NodeID) *protocol.Membership {
	ms := &protocol.Membership{Version: 1}
	for i := range w.Nodes {
		if slices.Contains(voters, id(i)) {
			ms.Voters = append(ms.Voters, voter(i))
		} else {
			ms.Observers = append(ms.Observers, id(i))
		}
	}
	return ms
}

// membership is the one that the world begins with.
func (w *World) membership() *protocol.Membership {
	ms := &protocol.Membership{Version: 1}
	for i := range w.Nodes {
		if i < w.voters() {
			ms.Voters = append(ms.Voters, voter(i))
		} else {
			ms.Observers = append(ms.Observers, id(i))
		}
	}
	return ms
}

// config is the i-th node's configuration.
//
// In mode Timed the times are the smallest that the protocol accepts: a tick is a heartbeat, the
// guard is two, and the promise the least that leaves a lease of two, so that a whole lease fits
// into few ticks. In mode Async only the order of the instants counts; four heartbeats without an
// answer end a lease.
func (w *World) config(i int) (quorum.Config, error) {
	c := quorum.Config{Self: voter(i), Membership: w.membership(), Priority: w.Priorities[id(i)], Unclocked: true}
	switch w.Mode {
	case Timed:
		c.Heartbeat, c.Slot = tick, tick/4
		c.Drift = protocol.Drift{PPM: w.drift(), Guard: 4 * protocol.JumpTolerance}
		c.Promise = 4 * tick
		for c.Drift.Claim(c.Promise) < 2*tick {
			c.Promise += tick
		}
	default:
		c.Heartbeat, c.Promise, c.Slot = 100*time.Millisecond, 400*time.Millisecond, 25*time.Millisecond
	}
	if p := cmp.Or(w.Promises[c.Self.ID], w.Promise); p > 0 {
		c.Promise = time.Duration(p) * c.Heartbeat
	}
	if w.Mutant != "" {
		if err := mutate(&c, w.Mutant); err != nil {
			return c, err
		}
	}
	return c, nil
}
