package group

import (
	"time"

	"github.com/electd/elect/lab/sim"
)

// event is what happens at a true time.
type event struct {
	at  sim.Time
	seq uint64 // orders simultaneous events: the first planned comes first
	do  func()
}

// agenda holds the events to come, as a binary heap.
type agenda []event

func (a agenda) before(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}

func (a *agenda) push(e event) {
	*a = append(*a, e)
	h := *a
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (a *agenda) pop() event {
	h := *a
	top, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	*a = h
	for i := 0; ; {
		least, left := i, 2*i+1
		for c := left; c < min(left+2, last); c++ {
			if h.before(c, least) {
				least = c
			}
		}
		if least == i {
			return top
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// at plans an event for a true time; for a time that has passed, after all that is due now.
func (w *World) at(when sim.Time, do func()) {
	w.seq++
	w.agenda.push(event{max(when, w.now), w.seq, do})
}

// in plans an event at d from now.
func (w *World) in(d time.Duration, do func()) { w.at(w.now+sim.Time(d), do) }
