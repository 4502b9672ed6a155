package check

import (
	"reflect"
	"sync"
)

// Ending is why an exploration ended.
type Ending string

// The endings.
const (
	// Exhausted: all reachable states were visited without a violation.
	Exhausted Ending = "exhausted"
	// Violated: an invariant does not hold.
	Violated Ending = "violated"
	// Bounded: Limit or Memory was reached first.
	Bounded Ending = "bounded"
	// Stopped: Look returned false.
	Stopped Ending = "stopped"
)

// Options are for an exploration.
type Options struct {
	// Cores is how many goroutines explore; 1 if it is 0.
	Cores int
	// Limit is the greatest number of states, and Memory the approximate limit in bytes; 0 is no
	// limit but that of the numbering, 2^32 states.
	Limit, Memory uint64
	// Look is called from time to time. If it returns false, the exploration stops.
	Look func(Progress) bool
}

// Progress is the progress of an exploration.
type Progress struct {
	States uint64 `json:"states"` // distinct ones
	Steps  uint64 `json:"steps"`  // that were taken between them
	Queue  uint64 `json:"queue"`  // states that were not expanded yet
	Depth  int    `json:"depth"`  // steps from the beginning, of the tick in mode Timed
	Tick   int    `json:"tick,omitzero"`
	// NodeStates, Messages and NodeSteps are the numbers of distinct ones.
	NodeStates int    `json:"node_states"`
	Messages   int    `json:"messages"`
	NodeSteps  int    `json:"node_steps"`
	Won        int    `json:"won"`   // the highest term that was won in any of them
	Cut        uint64 `json:"cut"`   // steps that were skipped because they go beyond the terms
	Bytes      uint64 `json:"bytes"` // of memory, about
}

// PerState is how many bytes a state takes.
func (p *Progress) PerState() float64 { return float64(p.Bytes) / float64(max(p.States, 1)) }

// Result is the result of an exploration.
type Result struct {
	Progress
	Ending    Ending     `json:"ending"`
	Violation *Violation `json:"violation,omitempty"`
	Trail     *Trail     `json:"trail,omitempty"` // to the violation
}

// batch is how many states are expanded before the next are checked, and shards the number of parts
// of the set of seen states. The order of the exploration depends on these two alone.
const (
	batch  = 2048
	shards = 16
	root   = 1<<32 - 1 // the parent of a first state
	byTick = 1 << 15   // in a link: the step is a tick
)

// found is a state that was reached, and the way to it.
type found struct {
	state   state
	print   uint64
	parent  uint32
	ordinal uint16
}

// bad is a step with a violation.
type bad struct {
	wrong   *Violation
	parent  uint32
	ordinal uint16
}

type explorer struct {
	e       *engine
	o       Options
	queue   [][]state // of this tick, in parts of a batch
	head    uint64    // the number of the first state in the queue
	seen    [shards]seen
	parents [][]uint32
	ways    [][]uint16
	workers []*worker
	first   []state
	p       Progress
	fresh   [shards][]found
	bad     *bad
	size    uint64 // of a state
}

type worker struct {
	expander
	out   [shards][]found
	bad   *bad
	steps uint64
}

// Explore visits all reachable states of a world.
func Explore(w World, o Options) (*Result, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	e, err := newEngine(&w)
	if err != nil {
		return nil, err
	}
	x := &explorer{e: e, o: o, size: uint64(reflect.TypeFor[state]().Size())}
	for range max(o.Cores, 1) {
		x.workers = append(x.workers, &worker{expander: expander{e: e}})
	}
	var wrong *Violation
	if x.first, wrong = e.first(); wrong != nil {
		return &Result{Ending: Violated, Violation: wrong, Progress: x.p, Trail: &Trail{World: w, Violation: wrong}}, nil
	}
	for i := range x.first {
		x.take([]found{{x.first[i], e.fingerprint(&x.first[i]), root, uint16(i)}})
	}
	r := &Result{Ending: x.run()}
	x.look()
	r.Progress = x.p
	if x.bad != nil {
		r.Violation = x.bad.wrong
		if r.Trail, err = x.trail(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// run explores tick after tick; without ticks, there is one.
func (x *explorer) run() Ending {
	begin := uint64(0) // the number of the first state of the tick
	for {
		x.p.Depth = 0
		for at := begin; at < x.p.States; x.p.Depth++ {
			end := x.p.States
			for at < end {
				n := min(batch, end-at)
				x.expand(at, n, (*expander).expand, 0)
				at += n
				if e := x.check(end - at); e != "" {
					return e
				}
				if x.e.w.Mode == Async {
					x.forget(at)
				}
			}
		}
		if x.p.Tick == x.e.w.Ticks || x.p.States == begin {
			return Exhausted
		}
		end := x.p.States
		for at := begin; at < end; {
			n := min(batch, end-at)
			x.expand(at, n, (*expander).tick, byTick)
			at += n
			if e := x.check(end - at); e != "" {
				return e
			}
			x.forget(at)
		}
		begin = end
		x.p.Tick++
	}
}

// expand finds the successors of n states, and keeps the new ones.
func (x *explorer) expand(at, n uint64, how func(*expander, *state), flag uint16) {
	one := func(w *worker, from, to uint64) {
		for i := from; i < to; i++ {
			how(&w.expander, x.at(i))
			if len(w.succ) >= byTick {
				panic("too many ways to go on from a state")
			}
			for j := range w.succ {
				s := &w.succ[j]
				if s.wrong != nil {
					if w.bad == nil {
						w.bad = &bad{s.wrong, uint32(i), uint16(j) | flag}
					}
					continue
				}
				f := x.e.fingerprint(&s.state)
				w.out[f%shards] = append(w.out[f%shards], found{s.state, f, uint32(i), uint16(j) | flag})
			}
			w.steps += uint64(len(w.succ))
		}
	}
	x.each(func(k int) {
		c := uint64(len(x.workers))
		one(x.workers[k], at+n*uint64(k)/c, at+n*uint64(k+1)/c)
	})
	x.each(func(k int) {
		for s := k; s < shards; s += len(x.workers) {
			fresh := x.fresh[s][:0]
			for _, w := range x.workers {
				for i := range w.out[s] {
					if x.seen[s].add(w.out[s][i].print) {
						fresh = append(fresh, w.out[s][i])
					}
				}
				w.out[s] = w.out[s][:0]
			}
			x.fresh[s] = fresh
		}
	})
	for _, w := range x.workers {
		if w.bad != nil && x.bad == nil {
			x.bad = w.bad
		}
	}
	for s := range x.fresh {
		x.keep(x.fresh[s])
	}
}

// each runs a function for each worker, and waits.
func (x *explorer) each(do func(k int)) {
	if len(x.workers) == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	for k := range x.workers {
		all.Go(func() { do(k) })
	}
	all.Wait()
}

// take keeps the states that were not seen before.
func (x *explorer) take(all []found) {
	for _, f := range all {
		if x.seen[f.print%shards].add(f.print) {
			x.keep([]found{f})
		}
	}
}

// keep numbers states and puts them into the queue.
func (x *explorer) keep(all []found) {
	const part = 1 << 16
	for i := range all {
		n := x.p.States
		if n%part == 0 {
			x.parents, x.ways = append(x.parents, make([]uint32, part)), append(x.ways, make([]uint16, part))
		}
		x.parents[n/part][n%part], x.ways[n/part][n%part] = all[i].parent, all[i].ordinal
		if k := len(x.queue); k == 0 || len(x.queue[k-1]) == batch {
			x.queue = append(x.queue, make([]state, 0, batch))
		}
		k := len(x.queue) - 1
		x.queue[k] = append(x.queue[k], all[i].state)
		x.p.States++
	}
}

// at is the state with that number, which is still in the queue.
func (x *explorer) at(n uint64) *state { return &x.queue[(n-x.head)/batch][(n-x.head)%batch] }

// forget drops the states before one from the queue.
func (x *explorer) forget(before uint64) {
	for before-x.head >= batch {
		x.queue[0] = nil
		x.queue = x.queue[1:]
		x.head += batch
	}
}

func (x *explorer) check(left uint64) Ending {
	x.p.Queue = left
	x.look()
	switch {
	case x.bad != nil:
		return Violated
	case x.o.Look != nil && !x.o.Look(x.p):
		return Stopped
	case x.o.Limit > 0 && x.p.States >= x.o.Limit, x.o.Memory > 0 && x.p.Bytes >= x.o.Memory, x.p.States >= root-1<<24:
		return Bounded
	}
	return ""
}

func (x *explorer) look() {
	p, e := &x.p, x.e
	p.NodeStates, p.Messages, p.NodeSteps = int(e.nodes.n), int(e.messages.n), int(e.outcomes.n)
	p.Bytes = e.bytes + uint64(len(x.queue))*batch*x.size + uint64(len(x.parents))*(1<<16)*6
	if t := e.steps.table.Load(); t != nil {
		p.Bytes += uint64(len(t.keys)) * 12
	}
	for i := range x.seen {
		p.Bytes += uint64(len(x.seen[i].slots)) * 8
	}
	p.Steps, p.Cut = 0, 0
	for _, w := range x.workers {
		p.Steps += w.steps
		p.Cut += w.cuts
		p.Won = max(p.Won, int(w.won))
	}
}
