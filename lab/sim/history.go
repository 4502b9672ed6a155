package sim

import (
	"cmp"
	"fmt"
	"slices"
)

// History is a run that can be looked at after each of its events, in any order.
// It holds forks of the world, at most 64, and comes to an event from the
// nearest one before it; so it is as exact as the machines' AppendState and
// LoadState are.
//
// A History belongs to one goroutine. The worlds that it returns are the
// caller's: they share nothing that is written with it or with each other, and
// each may be driven by a goroutine of its own, traced, or gone on with to see
// what else might have happened.
type History struct {
	kept  []*World // by rising event; they are never stepped
	every uint64   // how far they are apart
	last  uint64   // the event that the run ended with,
	hash  uint64   // and its hash
	here  *World   // at the event that was asked for last; never handed out
}

const (
	mostKept  = 64
	keptEvery = 256
)

// Keep runs w to its end and keeps its history from where w is now. It forks w
// each so many events, 256 if every is 0; whenever there are too many forks it
// lets every other one go, and doubles the distance. A step to an event costs
// that of up to one distance, and two forks.
func Keep(w *World, every uint64) *History {
	if every == 0 {
		every = keptEvery
	}
	h := &History{every: every, kept: []*World{w.Fork()}}
	for w.Step() {
		if w.events-h.kept[len(h.kept)-1].events >= h.every {
			h.keep(w.Fork())
		}
	}
	h.last, h.hash, h.here = w.events, w.hash, w.Fork()
	return h
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

// Span returns the first and the last event that At has. The first is how many
// had happened when Keep was called: 0 if w was new.
func (h *History) Span() (first, last uint64) { return h.kept[0].events, h.last }

// At returns the world exactly as it was when that many events had happened. The
// error says which there are, or that the run cannot be repeated, which is the
// fault of a machine.
func (h *History) At(event uint64) (*World, error) {
	if first, last := h.Span(); event < first || event > last {
		return nil, fmt.Errorf("event %d; want %d to %d", event, first, last)
	}
	i, found := slices.BinarySearchFunc(h.kept, event, func(w *World, event uint64) int { return cmp.Compare(w.events, event) })
	if !found {
		i--
	}
	if from := h.kept[i]; h.here.events > event || h.here.events < from.events {
		h.here = from.Fork()
	}
	for h.here.events < event && h.here.Step() {
	}
	if h.here.events != event || event == h.last && h.here.hash != h.hash {
		return nil, fmt.Errorf("event %d: the run has come to something else, when it went on from a fork, than it did at first: the AppendState of a machine does not tell all, or the machine does not do the same twice", event)
	}
	return h.here.Fork(), nil
}

// Back returns the world one event before the one that At, Back or Forward
// returned last, at first the end. There is none before the first.
func (h *History) Back() (*World, error) {
	if first, _ := h.Span(); h.here.events == first {
		return nil, fmt.Errorf("event %d is the first that is kept", first)
	}
	return h.At(h.here.events - 1)
}

// Forward returns the world one event later, as Back does one earlier. There is
// none after the end.
func (h *History) Forward() (*World, error) {
	if h.here.events == h.last {
		return nil, fmt.Errorf("event %d is the last of the run", h.last)
	}
	return h.At(h.here.events + 1)
}
