package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/lab/sim"
)

// hunt is a series of runs with one seed after the other.
type hunt struct {
	protocol *sim.Protocol
	options  sim.Options
	first    uint64
	count    uint64
	jobs     int

	mu    sync.Mutex // guards what is below
	tally tally
	err   error  // a schedule could not be made
	stop  uint64 // runs from this one on, from 0, need not be made
	ran   atomic.Uint64
	event atomic.Uint64
}

// tally is the result of the runs so far.
type tally struct {
	runs, events uint64
	virtual      time.Duration
	took         time.Duration
	stats        sim.Stats
	seen         sim.Seen
	worst        *sim.Result // the violation with the smallest seed
	last         *sim.Result // of a single run
	cut          *sim.Result // of a single run that was interrupted; it is not counted in runs
	// found has the invariants that may or must fail, or that a run was excused for.
	found map[sim.Invariant]failures
}

// failures is the number of runs in which an invariant failed, and their smallest seed.
type failures struct{ runs, seed uint64 }

// run runs them on all cores until they are done, one has violated an invariant, or ctx ends. The
// violation that it finds has the smallest seed of all, for any number of cores.
func (h *hunt) run(ctx context.Context) error {
	begin := time.Now()
	h.stop = math.MaxUint64
	h.tally.found = make(map[sim.Invariant]failures)
	var next atomic.Uint64
	var all sync.WaitGroup
	for range h.jobs {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= h.count || ctx.Err() != nil || !h.wanted(i) {
					return
				}
				r, err := h.one(ctx, h.first+i)
				h.add(i, r, err)
			}
		})
	}
	all.Wait()
	h.tally.took = time.Since(begin)
	return h.err
}

func (h *hunt) wanted(i uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return i < h.stop
}

// one runs one seed.
func (h *hunt) one(ctx context.Context, seed uint64) (*ran, error) {
	s, err := sim.Generate(h.protocol, seed, h.options)
	if err != nil {
		return nil, err
	}
	w, err := sim.New(h.protocol, s)
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	const look = 1 << 14 // events between two looks at ctx
	for n := 1; w.Step(); n++ {
		if n%look == 0 {
			h.event.Add(look)
			if ctx.Err() != nil {
				return &ran{w.Result(), true}, nil
			}
		}
	}
	r := w.Result()
	h.event.Add(r.Events % look)
	return &ran{r, false}, nil
}

// add adds the result of run number i, from 0. An interrupted one counts only if there is no other.
func (h *hunt) add(i uint64, r *ran, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seed := h.first + i // does not overflow: the command line is checked
	if err != nil {
		if h.err == nil || i < h.stop {
			h.err, h.stop = err, i
		}
		return
	}
	t := &h.tally
	switch {
	case !r.interrupted:
		h.ran.Add(1)
		t.runs++
		t.last = r.Result
	case h.count > 1:
		return
	default:
		t.cut = r.Result
	}
	t.events += r.Events
	t.virtual += r.Virtual
	t.stats.Add(&r.Stats)
	t.seen.Add(r.Seen)
	excused, _ := r.Schedule.Excused(h.protocol) // it was made into a world
	for _, inv := range excused {
		if _, ok := t.found[inv]; !ok {
			t.found[inv] = failures{} // so that it is listed
		}
	}
	for inv := range r.Stats.Failures {
		f := t.found[inv]
		if f.runs == 0 || seed < f.seed {
			f.seed = seed
		}
		f.runs++
		t.found[inv] = f
	}
	if r.Violation != nil && i < h.stop {
		t.worst, h.stop = r.Result, i
	}
}

// progress is how far the hunt is.
func (h *hunt) progress() (ran, all uint64, says string) {
	return h.ran.Load(), h.count, thousands(h.event.Load()) + " events, "
}
