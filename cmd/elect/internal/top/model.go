// Package top has the model and the picture of elect top: what sources say of elections, what follows from it, and how
// that looks. Neither reads a clock or does I/O; Participant asks a participant over HTTP.
//
// A [Model] belongs to one goroutine.
package top

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/cli"
)

// Key is an election: its URL, as people may see it, and its name.
type Key struct{ Election, Name string }

// KeyOf makes a key. Participants of one election among peers have URLs that differ in their parameters.
func KeyOf(election, name string) Key {
	if strings.HasPrefix(election, "peer:") {
		election, _, _ = strings.Cut(election, "?")
	}
	return Key{election, name}
}

// Report is what a source says at an instant.
type Report struct {
	Source string // its URL, as people may see it
	At     time.Time
	Err    error // it did not answer; what it said before is old
	Seen   []Seen
	Whole  bool // Seen has all elections of the source
}

// Seen is what a source says of one election.
type Seen struct {
	Key
	State *State // nil: it does not say
	Nodes []Node // nil: it does not say
}

// State is who leads.
type State struct {
	Leader *elect.Leader
	Stale  bool
	Cause  string
}

// Node is a participant. Fields are added, and never renamed or removed.
type Node struct {
	ID     string        `json:"id"`
	Source string        `json:"source"` // who says so
	State  string        `json:"state"`  // by peers and by HTTP in their own words; empty: it did not answer
	Leads  bool          `json:"leads"`  // it proves that it leads
	Token  elect.Token   `json:"token,omitzero"`
	Lease  *int64        `json:"lease_left_ms,omitempty"` // of a leader with a lease
	RTT    time.Duration `json:"rtt_ns,omitzero"`
	Ready  bool          `json:"ready"`
	Ill    bool          `json:"ill,omitempty"`
	Health string        `json:"health,omitempty"` // well or ill; empty: not known, or there are no checks
	Paused bool          `json:"paused,omitempty"`
	Error  string        `json:"error,omitempty"`
	At     time.Time     `json:"-"` // when Lease was read; zero: with the report
}

// Source is an address that is asked.
type Source struct {
	Source string `json:"source"`
	Error  string `json:"error,omitempty"` // why it did not answer; empty if it did

	said     map[Key]Seen
	asked    Key // the election that it was asked for; zero if it tells itself
	answered bool
}

// Election is what is known of an election. Fields are added, and never renamed or removed.
type Election struct {
	Election string        `json:"election"`
	Name     string        `json:"name"`
	Leader   *elect.Leader `json:"leader"`
	Stale    bool          `json:"stale"`
	Cause    string        `json:"cause,omitempty"`
	Changes  int           `json:"changes"` // since the start
	Nodes    []Node        `json:"nodes"`

	heard   bool // a source answers
	last    elect.Token
	changed []time.Time // the changes
	leases  map[string]*slack
}

// Model is all that is known.
type Model struct {
	Fresh time.Duration // for how long a reading of a lease counts; then it is not known

	sources   map[string]*Source
	names     []string // of sources, sorted
	elections map[Key]*Election
	holding   map[string]time.Time // conditions of rules: since when each holds
	alerts    []Alert
}

// Expect adds a source that has not answered yet. An empty key is that of a source that tells its elections itself.
func (m *Model) Expect(source string, of Key) {
	if m.sources == nil {
		m.sources, m.elections, m.holding = map[string]*Source{}, map[Key]*Election{}, map[string]time.Time{}
	}
	if m.sources[source] == nil {
		m.sources[source] = &Source{Source: source, said: map[Key]Seen{}, asked: of}
		i, _ := slices.BinarySearch(m.names, source)
		m.names = slices.Insert(m.names, i, source)
	}
	if of != (Key{}) {
		m.knows(of)
	}
}

// knows adds an election that is not there yet.
func (m *Model) knows(k Key) {
	if m.elections[k] == nil {
		m.elections[k] = &Election{Election: k.Election, Name: k.Name, Stale: true, Nodes: []Node{}, leases: map[string]*slack{}}
	}
}

// Apply takes a report. Judge finds the alerts afterwards.
func (m *Model) Apply(r Report) {
	m.Expect(r.Source, Key{})
	s := m.sources[r.Source]
	s.answered = true
	if s.Error = ""; r.Err != nil {
		s.Error = cli.OneLine(r.Err.Error())
	}
	touched := slices.AppendSeq([]Key{s.asked}, maps.Keys(s.said))
	if r.Whole {
		clear(s.said)
	}
	for _, seen := range r.Seen {
		said := s.said[seen.Key]
		said.Key = seen.Key
		said.State = cmp.Or(seen.State, said.State)
		if seen.Nodes != nil {
			said.Nodes = slices.Clone(seen.Nodes)
			for i := range said.Nodes {
				if said.Nodes[i].At.IsZero() {
					said.Nodes[i].At = r.At
				}
			}
		}
		s.said[seen.Key] = said
		m.knows(seen.Key)
		touched = append(touched, seen.Key)
	}
	for _, k := range touched {
		if e := m.elections[k]; e != nil && !m.settle(k, e, r.At) {
			delete(m.elections, k)
		}
	}
}

// settle combines what the sources say of an election. It returns false if no source knows it.
func (m *Model) settle(k Key, e *Election, now time.Time) (known bool) {
	var best *State
	var old State
	var nodes []Node
	e.heard = false
	for _, name := range m.names {
		s := m.sources[name]
		said, ok := s.said[k]
		known = known || ok || s.asked == k
		switch {
		case s.Error != "" && (ok || s.asked == k):
			old.Cause = cmp.Or(old.Cause, s.Error)
		case ok && said.State != nil:
			e.heard = true
			if best == nil || said.State.better(best) {
				best = said.State
			}
		}
		for _, n := range said.Nodes {
			if s.Error != "" {
				n.Error, n.Leads, n.Ready = s.Error, false, false
			}
			nodes = merge(nodes, n)
		}
	}
	if best == nil { // the last leader is still shown
		best = &State{Leader: e.Leader, Stale: true, Cause: old.Cause}
	}
	e.Leader, e.Stale, e.Cause, e.Nodes = best.Leader, best.Stale, best.Cause, append([]Node{}, nodes...)
	if l := e.Leader; l != nil && !e.Stale && l.Token > e.last {
		if e.last != 0 {
			e.Changes++
			e.changed = append(slices.DeleteFunc(e.changed, func(t time.Time) bool { return now.Sub(t) > changeWindow }), now)
		}
		e.last = l.Token
	}
	slices.SortStableFunc(e.Nodes, func(a, b Node) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Source, b.Source)) })
	for i := range e.Nodes {
		e.sample(&e.Nodes[i])
	}
	return known
}

// better reports whether s says more than o: a known leader is better than none, and none is better than an old state.
// Of two leaders the one with the greater token is better.
func (s *State) better(o *State) bool {
	rank := func(s *State) int {
		switch {
		case s.Stale:
			return 0
		case s.Leader == nil:
			return 1
		}
		return 2
	}
	if a, b := rank(s), rank(o); a != b || a < 2 {
		return a > b
	}
	return s.Leader.Token > o.Leader.Token
}

// merge adds a node. What the peers say of a node and what it says itself over HTTP are merged into one, which is ready
// if both say so. Two nodes that have the same id over HTTP stay two.
func merge(nodes []Node, n Node) []Node {
	i := slices.IndexFunc(nodes, func(o Node) bool { return o.ID == n.ID && IsHTTP(o.Source) != IsHTTP(n.Source) })
	if i < 0 {
		return append(nodes, n)
	}
	mine, other := n, nodes[i]
	if IsHTTP(n.Source) {
		mine, other = other, n
	}
	if other.Error == "" {
		mine.Ill, mine.Health, mine.Ready = other.Ill, other.Health, mine.Ready && other.Ready
		if mine.Error != "" { // it cannot be asked as a peer
			mine.State, mine.Leads, mine.Token, mine.Lease, mine.At = other.State, other.Leads, other.Token, other.Lease, other.At
		}
	}
	nodes[i] = mine
	return nodes
}

// lease is how much of a node's lease was left when it was read, for people.
func (n *Node) lease() string {
	if n.Lease == nil {
		return "-"
	}
	return short(max(time.Duration(*n.Lease)*time.Millisecond, 0))
}

// leading is the node that leads, or nil.
func (e *Election) leading() *Node {
	i := slices.IndexFunc(e.Nodes, func(n Node) bool { return n.Leads && e.Leader != nil && n.ID == e.Leader.ID })
	if i < 0 {
		return nil
	}
	return &e.Nodes[i]
}

// Document is the model as -o json shows it. Fields are added, and never renamed or removed.
type Document struct {
	Time      time.Time   `json:"time"`
	Elections []*Election `json:"elections"`
	Sources   []*Source   `json:"sources"`
	Alerts    []Alert     `json:"alerts"`
}

// GiveUp ends the wait for the sources that have not answered.
func (m *Model) GiveUp(err error, now time.Time) {
	for _, name := range m.names {
		if !m.sources[name].answered {
			m.Apply(Report{Source: name, At: now, Err: err})
		}
	}
}

// Document returns the model in a stable order.
func (m *Model) Document(now time.Time) Document {
	d := Document{Time: now, Elections: []*Election{}, Sources: []*Source{}, Alerts: append([]Alert{}, m.alerts...)}
	for _, k := range slices.SortedFunc(maps.Keys(m.elections), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Election, b.Election))
	}) {
		e := m.elections[k]
		for i := range e.Nodes {
			if n := &e.Nodes[i]; now.Sub(n.At) > m.Fresh {
				n.Lease = nil
			}
		}
		d.Elections = append(d.Elections, e)
	}
	for _, name := range m.names {
		s := *m.sources[name]
		if !s.answered {
			s.Error = noAnswer
		}
		d.Sources = append(d.Sources, &s)
	}
	return d
}

const noAnswer = "no answer yet"

// ErrNone is the error of a place where elections could be, and none is.
var ErrNone = errors.New("no election was held there")
