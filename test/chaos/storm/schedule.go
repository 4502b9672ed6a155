//go:build linux

package storm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// Schedule is a storm as data: all that is decided before anything runs. Durations are in
// nanoseconds in JSON.
type Schedule struct {
	Format  int           `json:"format"` // 1
	Seed    uint64        `json:"seed"`
	For     time.Duration `json:"for"` // how long faults begin
	Setup   string        `json:"setup"`
	Network string        `json:"network,omitempty"` // "namespaces" or "proxies"

	// Abilities are those of the computer and the programs for which it was drawn, sorted.
	Abilities []Ability `json:"abilities"`

	Voters    int           `json:"voters"` // founders: nodes 0 to Voters-1
	Size      int           `json:"size"`   // all nodes; those beyond Voters are added later
	Promise   time.Duration `json:"promise"`
	Heartbeat time.Duration `json:"heartbeat"`

	Nodes  []Node    `json:"nodes"`
	Events []Planned `json:"events"` // by when they begin
}

// Node is what differs between nodes from the beginning.
type Node struct {
	Kind string `json:"kind"` // "command", "library" or "guarded": see package cluster

	// Rate is by how many millionths the clocks run fast, from -50000 to 50000.
	Rate int `json:"rate,omitempty"`

	// Boot and Mono are how far the clocks of its time namespace are ahead.
	Boot time.Duration `json:"boot,omitempty"`
	Mono time.Duration `json:"mono,omitempty"`
}

// Planned is one fault of a schedule.
type Planned struct {
	Number int           `json:"number"` // from 1, in the order of their beginnings
	At     time.Duration `json:"at"`     // since the storm began
	For    time.Duration `json:"for"`    // how long it lasts, until it is undone
	Fault  string        `json:"fault"`

	// Order is all nodes: a fault of one node takes the first, one of two the
	// first two, and a partition has its shape in this order.
	Order []int `json:"order"`

	// First moves a node with that role to the front of Order when the fault begins: "leader", or
	// "follower" for any but the leader. Empty: none.
	First string `json:"first,omitempty"`

	Args
}

// Args are the other drawn values of a fault. The table of faults says which of them it uses.
type Args struct {
	Side    int           `json:"side,omitempty"`    // nodes on the smaller side, or affected nodes
	Percent int           `json:"percent,omitempty"` // of packets lost, or of a processor
	Delay   time.Duration `json:"delay,omitempty"`   // of links, of a sync, of a step of a clock
	Jitter  time.Duration `json:"jitter,omitempty"`
	Period  time.Duration `json:"period,omitempty"` // of what comes and goes
	Times   int           `json:"times,omitempty"`  // how often, or how many
	Hard    bool          `json:"hard,omitempty"`   // the harder of two forms
	Rates   []int         `json:"rates,omitempty"`  // of the clock of each node, in millionths
}

// format is the schedule format.
const format = 1

// Load reads a schedule from a file and checks it. Its events are renumbered, so that some can be
// removed by hand.
func Load(path string) (*Schedule, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var s Schedule
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("storm: %s: %w", path, err)
	}
	for i := range s.Events {
		s.Events[i].Number = i + 1
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("storm: %s: %w", path, err)
	}
	return &s, nil
}

// Save writes the schedule to a file.
func (s *Schedule) Save(path string) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// check returns an error if a schedule cannot be carried out.
func (s *Schedule) check() error {
	if s.Format != format {
		return fmt.Errorf("format %d; want %d", s.Format, format)
	}
	set, err := setup(s.Setup)
	if err != nil {
		return err
	}
	if s.Network != "" && s.Network != string(Namespaces) && s.Network != string(Proxies) || (s.Network == "") != set.File {
		return fmt.Errorf("network %q with the setup %s", s.Network, s.Setup)
	}
	if s.Voters < 1 || s.Size < s.Voters || s.Size > 9 || len(s.Nodes) != s.Size || s.Promise <= 0 || s.Heartbeat <= 0 {
		return fmt.Errorf("%d voters of %d nodes, of which %d are described, with a promise of %v and heartbeats of %v", s.Voters, s.Size, len(s.Nodes), s.Promise, s.Heartbeat)
	}
	faults := map[string]fault{}
	for _, f := range table() {
		faults[f.name] = f
	}
	var last time.Duration
	for i, p := range s.Events {
		f, ok := faults[p.Fault]
		switch {
		case !ok:
			return fmt.Errorf("event %d: there is no fault %q", i+1, p.Fault)
		case f.missing(s.has, set) != "":
			return fmt.Errorf("event %d: %s needs %s", i+1, p.Fault, f.missing(s.has, set))
		case p.Number != i+1 || p.At < last || p.For < 0 || p.First != "" && p.First != leader && p.First != follower:
			return fmt.Errorf("event %d: number %d, at %v, for %v, first %q", i+1, p.Number, p.At, p.For, p.First)
		case !permutation(p.Order, s.Voters):
			return fmt.Errorf("event %d: order %v; want all of %d voters", i+1, p.Order, s.Voters)
		}
		last = p.At
	}
	return nil
}

func (s *Schedule) has(a Ability) bool { return slices.Contains(s.Abilities, a) }

// End is the planned end of the last fault.
func (s *Schedule) End() time.Duration {
	end := s.For
	for _, p := range s.Events {
		end = max(end, p.At+p.For)
	}
	return end
}

func permutation(order []int, n int) bool {
	sorted := slices.Sorted(slices.Values(order))
	for i, v := range sorted {
		if i != v {
			return false
		}
	}
	return len(sorted) == n
}
