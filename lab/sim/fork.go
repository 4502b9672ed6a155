package sim

import (
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// Fork returns a copy of the world. Both run independently, and identically if they are left alone.
// They share nothing that is written, so each may be driven by a goroutine of its own if several
// goroutines may call the functions of its Protocol. The copy has no tracer. Fork panics if a
// machine cannot load its own state, which is an error of the machine.
func (w *World) Fork() *World {
	c := *w
	c.agenda = slices.Clone(w.agenda)
	c.nodes = make([]*node, len(w.nodes))
	for i, n := range w.nodes {
		c.nodes[i] = w.forkNode(n)
	}
	c.links = make([]link, len(w.links))
	for i := range w.links {
		c.links[i] = w.links[i].clone()
	}
	c.shapes, c.shaping = slices.Clone(w.shapes), nil
	c.meetings = slices.Clone(w.meetings)
	c.flights, c.waiting, c.delayed = w.flights.clone(), w.waiting.clone(), w.delayed.clone()
	for i := range c.delayed.all {
		a := &c.delayed.all[i].answer
		a.Entries = slices.Clone(a.Entries)
	}
	c.ops = slices.Clone(w.ops)
	if w.store != nil {
		c.store = w.store.clone()
	}
	c.oracle, c.work, c.resource, c.stats = w.oracle.clone(), w.work.clone(), w.resource.clone(), w.stats.clone()
	c.found = slices.Clone(w.found)
	c.input, c.fx = protocol.Input{}, protocol.Effects{}
	c.tracer, c.record, c.cause, c.causes = nil, 0, 0, nil
	return &c
}

func (w *World) forkNode(n *node) *node {
	c := *n
	c.inbox, c.held = slices.Clone(n.inbox), slices.Clone(n.held)
	c.disk.queue, c.disk.spare = slices.Clone(n.disk.queue), nil
	for i := range c.disk.queue {
		c.disk.queue[i].data = slices.Clone(c.disk.queue[i].data)
	}
	if n.stash != nil {
		c.stash = cloneEffects(n.stash)
	}
	if n.machine == nil {
		return &c
	}
	m, err := w.protocol.New(w.participant(n))
	if err == nil {
		err = m.LoadState(n.machine.AppendState(nil))
	}
	if err != nil {
		panic(fmt.Sprintf("sim: the machine of %s does not load its own state: %v", n.id, err))
	}
	c.machine = m
	return &c
}

func (s *slab[T]) clone() slab[T] {
	return slab[T]{all: slices.Clone(s.all), free: slices.Clone(s.free)}
}
