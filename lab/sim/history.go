package sim

import (
	"cmp"
	"fmt"
	"slices"
)

// History is a run that can be inspected after each of its events, in any order, also while it goes
// on. It holds at most 80 forks of the world, and reaches an event from the nearest fork before it.
// So it is as exact as the machines' AppendState and LoadState.
//
// A History belongs to one goroutine. The worlds that it returns are the caller's: they share
// nothing that is written with it or with each other. Each may be driven by a goroutine of its own,
// traced, or continued to see another outcome.
type History struct {
	kept  []*World // by rising event; they are never stepped
	every uint64   // the distance between two of them
	front *World   // the run, which only Grow steps
	here  *World   // at the event of the last call; never handed out
	near  []*World // forks of the last long way, after the one of kept at which it began, by rising event
}

const (
	mostKept  = 64
	keptEvery = 256
	nearMost  = 16 // of near: who steps back goes the same way again and again
	nearEvery = 16 // the least distance of two of near
)

// Keep runs w to its end and keeps its history from the present event of w. It forks w every so
// many events, 256 if every is 0; whenever there are too many forks it drops every other one and
// doubles the distance. Reaching an event costs up to one distance of steps, and two forks.
func Keep(w *World, every uint64) *History {
	h := Begin(w, every)
	for h.Grow(nil) {
	}
	h.here = w.Fork()
	return h
}

// Begin is Keep, but runs nothing: Grow does. w belongs to the History from then on.
func Begin(w *World, every uint64) *History {
	if every == 0 {
		every = keptEvery
	}
	return &History{every: every, kept: []*World{w.Fork()}, front: w, here: w.Fork()}
}

// Grow executes one more event of the run and returns false when the run is over. after, if not
// nil, may look at the world, and must not step it.
func (h *History) Grow(after func(w *World)) bool {
	more := h.front.Step()
	if after != nil {
		after(h.front)
	}
	if more && h.front.events-h.kept[len(h.kept)-1].events >= h.every {
		h.keep(h.front.Fork())
	}
	return more
}

func (h *History) keep(w *World) {
	if len(h.kept) == mostKept {
		for i := range mostKept / 2 {
			h.kept[i] = h.kept[2*i]
		}
		clear(h.kept[mostKept/2:])
		h.kept = h.kept[:mostKept/2]
		h.every *= 2
		if w.events-h.kept[len(h.kept)-1].events < h.every {
			return
		}
	}
	h.kept = append(h.kept, w)
}

// Span returns the first and the last event that At accepts. The first is the number of events
// before the call of Keep or Begin: 0 if w was new.
func (h *History) Span() (first, last uint64) { return h.kept[0].events, h.front.events }

// At returns the world exactly as it was after that many events. It fails if there is no such
// event, or if the run cannot be repeated, which is an error of a machine.
func (h *History) At(event uint64) (*World, error) {
	if err := h.Visit(event, func(*World) {}); err != nil {
		return nil, err
	}
	return h.here.Fork(), nil
}

// Visit is At for who only looks: the world is the History's own, valid during the call, and must
// not be stepped. It saves a fork, so that events that follow each other cost a step each.
func (h *History) Visit(event uint64, look func(w *World)) error {
	if first, last := h.Span(); event < first || event > last {
		return fmt.Errorf("event %d; want %d to %d", event, first, last)
	}
	i, found := slices.BinarySearchFunc(h.kept, event, func(w *World, event uint64) int { return cmp.Compare(w.events, event) })
	if !found {
		i--
	}
	from := h.kept[i]
	if j := h.nearest(event); j >= 0 && h.near[j].events > from.events {
		from = h.near[j]
	}
	if h.here.events > event || h.here.events < from.events {
		h.here = from.Fork()
	}
	h.walk(h.kept[i], event)
	if h.here.events != event || event == h.front.events && h.here.hash != h.front.hash {
		return fmt.Errorf("event %d: the run from a fork differs from the first run: the AppendState of a machine is incomplete, or the machine is not deterministic", event)
	}
	look(h.here)
	return nil
}

// nearest is the index of the last of near that is not after an event; -1 if there is none.
func (h *History) nearest(event uint64) int {
	i, found := slices.BinarySearchFunc(h.near, event, func(w *World, event uint64) int { return cmp.Compare(w.events, event) })
	if found {
		return i
	}
	return i - 1
}

// walk brings the world to an event after the fork that is kept. It keeps near forks of a way that
// is not short; those of another way are let go.
func (h *History) walk(kept *World, event uint64) {
	stride := max(2*h.every/nearMost, nearEvery)
	if event-h.here.events < stride {
		for h.here.events < event && h.here.Step() {
		}
		return
	}
	i := h.nearest(h.here.events)
	if i < 0 || h.near[0].events < kept.events || h.near[i].events < kept.events {
		h.near, i = nil, -1
	}
	h.near = h.near[:i+1] // the way goes on from there
	last := h.here.events
	for h.here.events < event && h.here.Step() {
		if h.here.events-last >= stride && len(h.near) < nearMost {
			last = h.here.events
			h.near = append(h.near, h.here.Fork())
		}
	}
}

// Replay repeats one event, and has the tracer receive it that from returns for the world before it.
// Records are numbered from 1.
func (h *History) Replay(event uint64, from func(w *World) Tracer) error {
	if first, _ := h.Span(); event <= first {
		return fmt.Errorf("event %d; want one after %d", event, first)
	}
	if err := h.Visit(event-1, func(w *World) { w.Trace(from(w)) }); err != nil {
		return err
	}
	for h.here.events < event && h.here.Step() {
	}
	h.here.Trace(nil)
	return h.Visit(event, func(*World) {})
}

// Back returns the world one event before the one that At, Back or Forward returned last, at first
// the end. It fails at the first event.
func (h *History) Back() (*World, error) {
	if first, _ := h.Span(); h.here.events == first {
		return nil, fmt.Errorf("event %d is the first that is kept", first)
	}
	return h.At(h.here.events - 1)
}

// Forward returns the world one event later. It fails at the end.
func (h *History) Forward() (*World, error) {
	if _, last := h.Span(); h.here.events == last {
		return nil, fmt.Errorf("event %d is the last of the run", last)
	}
	return h.At(h.here.events + 1)
}
