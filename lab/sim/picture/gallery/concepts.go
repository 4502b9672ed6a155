package gallery

import (
	"io"
	"time"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/picture"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

// calm is a world of a story in which nothing is broken but what its operations break.
type calm struct {
	name     string // of the picture
	protocol string
	title    string
	seed     uint64
	nodes    int
	delay    time.Duration // of the links; 0 is the usual one
	ops      []sim.Op
	from, to time.Duration
}

// calms and owned are the pictures of docs/concepts.md: the worlds of the lab's stories, and the time of each that a
// section is about.
func calms() []calm {
	ms := time.Millisecond
	return []calm{
		{name: "election", protocol: "raft", title: "Raft: one candidate, and a majority", seed: 5, nodes: 4, delay: 30 * ms, to: 420 * ms},
		{name: "split-vote", protocol: "raft", title: "Raft: the votes of a term split, and the next one elects", seed: 20, nodes: 4, delay: 30 * ms, to: 800 * ms},
		{
			name: "queue", protocol: "queue", title: "A queue in a store: the first one is killed, and one other wakes", seed: 1, nodes: 5,
			ops: []sim.Op{{At: sim.Time(20 * time.Second), Kind: sim.OpKill, Node: sim.Leader}}, from: 19900 * ms, to: 31 * time.Second,
		},
	}
}

func owned() []lanes {
	s := time.Second
	return []lanes{
		{name: "concepts-cut-bully", scenario: "minority-leader", protocol: "bully", title: "The bully, cut in two: a leader on each side", from: s, to: 21 * s},
		{name: "concepts-cut-quorum", scenario: "minority-leader", protocol: "quorum", title: "A majority, cut in two: one leader at a time", from: s, to: 21 * s},
		{name: "concepts-one-way", scenario: "deaf-leader", protocol: "quorum", title: "A leader that everybody hears, and that hears nobody", from: s, to: 21 * s},
		{name: "concepts-lease", scenario: "gc-pause", protocol: "lease", title: "A lease of 30 s, a pause of 45 s, and the token that refuses the zombie", from: 590 * s, to: 660 * s, writes: true},
	}
}

// svg plays the world and draws it.
func (c calm) svg(w io.Writer) error {
	p, _ := protocols.ByName(c.protocol)
	s, err := scenario.Calm(c.protocol, c.nodes)
	if err != nil {
		return err
	}
	s.Seed, s.Faults, s.Ops = c.seed, c.to+time.Second, c.ops
	if c.delay > 0 {
		s.Links.Delay, s.Links.Jitter = c.delay, c.delay/10
	}
	return drawn(w, p, s, picture.Options{Title: c.title, From: c.from, To: c.to, Plain: true})
}
