package play

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
)

// Overview is a run as far as it was executed, for the lanes and the timeline. Times are in
// nanoseconds since the beginning of the world, or since the first event of a trace.
type Overview struct {
	World    *World            `json:"world"` // nil of a trace
	Trace    *Trace            `json:"trace,omitempty"`
	Protocol string            `json:"protocol"`
	Nodes    []protocol.NodeID `json:"nodes"`  // by place; twins last
	Leases   bool              `json:"leases"` // leaders prove a lease; else they count while elected
	Store    bool              `json:"store"`  // a store elects
	Until    sim.Time          `json:"until"`  // when the run ends, if nothing ends it before
	Ops      []sim.Op          `json:"ops"`
	Hands    []int             `json:"hands"` // indices of Ops that are the visitor's

	Events uint64   `json:"events"` // so far
	Lines  int      `json:"lines"`  // of the log, so far
	At     sim.Time `json:"at"`
	Over   bool     `json:"over"`
	Cut    bool     `json:"cut,omitempty"` // it ended at MaxEvents
	Hash   string   `json:"hash,omitempty"`

	Lanes  []Lane  `json:"lanes"`
	Lives  []Life  `json:"lives"`
	Roles  []Role  `json:"roles"`
	Turns  []Turn  `json:"turns"`
	Marks  []Mark  `json:"marks"`
	Writes []Write `json:"writes"`
	// Both are the times in which two led at once: by proof, or, without leases, by belief.
	Both []sim.Span `json:"both"`

	Invariants []Invariant `json:"invariants"`
	Result     *sim.Result `json:"result,omitempty"` // when it is over
}

// Lane is a tenure.
type Lane struct {
	Node  protocol.NodeID `json:"node"`
	Place int             `json:"place"`
	Token uint64          `json:"token"`
	// Believes is the time in which it was elected and its process alive, frozen or not.
	Believes sim.Span `json:"believes"`
	// Proven is the time in which its lease was proven by its own clock. True is the part of it, or
	// of Believes without leases, in which no later term had begun.
	Proven []sim.Span `json:"proven"`
	True   []sim.Span `json:"true"`
}

// Invariant is an invariant that is checked after every event.
type Invariant struct {
	Name  sim.Invariant `json:"name"`
	Says  string        `json:"says"`
	Wants string        `json:"wants"` // holds, may fail, must fail
	// Failed is its first failure, nil if it held so far.
	Failed *sim.Violation `json:"failed"`
}

var wants = [...]string{sim.MustHold: "holds", sim.MayFail: "may fail", sim.MustFail: "must fail"}

func (r *run) overview() *Overview {
	o := &Overview{
		World: r.world, Protocol: r.protocol.Name, Nodes: r.nodes, Leases: r.leases, Store: r.protocol.Store != sim.StoreNone,
		Until: sim.Time(r.schedule.Faults + r.schedule.Settle), Ops: r.schedule.Ops, Hands: []int{},
		Events: r.events(), Lines: len(r.lines), At: r.now, Over: r.over, Cut: r.cut,
		Lives: r.lives, Roles: r.roles, Turns: r.turns, Marks: r.marks, Writes: r.writes,
	}
	for i := range r.schedule.Ops {
		if r.hands[i] {
			o.Hands = append(o.Hands, i)
		}
	}
	if r.result != nil && r.over && !r.cut {
		o.Result, o.Hash = r.result, fmt.Sprintf("%016x", r.result.Hash)
	}
	o.Lanes = r.lanes()
	if r.tape != nil {
		r.tape.overview(r, o)
	}
	o.Both = r.both(o.Lanes)
	if r.tape != nil && r.tape.header.Source != trace.Sim {
		return o // nobody has judged it
	}
	for _, p := range sim.Promises() {
		i := Invariant{Name: p.Invariant, Says: p.Says, Wants: wants[r.protocol.Expect[p.Invariant]]}
		if r.result != nil {
			i.Failed = r.result.Failure(p.Invariant)
		} else if r.tape != nil {
			i.Failed = r.tape.failed[p.Invariant]
		}
		o.Invariants = append(o.Invariants, i)
	}
	return o
}

// counts returns the time in which a tenure leads.
func (r *run) counts(l *Lane) []sim.Span {
	if r.leases {
		return l.Proven
	}
	return []sim.Span{l.Believes}
}

func (r *run) lanes() []Lane {
	var all []Lane
	for i := range r.tenures.All {
		t := &r.tenures.All[i]
		l := Lane{Node: t.Who, Place: t.Place, Token: t.Token, Believes: t.Span, Proven: slices.Clone(t.Proven)}
		if l.Believes.Until == 0 {
			l.Believes.Until = r.now
		}
		for k := range l.Proven {
			l.Proven[k].Until = min(l.Proven[k].Until, r.now)
		}
		all = append(all, l)
	}
	next := r.successors(all)
	for i := range all {
		for _, s := range r.counts(&all[i]) {
			if s = s.Within(sim.Span{Until: next[i]}); s.Length() > 0 {
				all[i].True = append(all[i].True, s)
			}
		}
	}
	return all
}

// successors returns for each tenure when a later one of another place begins; after now if none does.
func (r *run) successors(all []Lane) []sim.Time {
	next := make([]sim.Time, len(all))
	var begun []int // the tenures that lead at some time, by when they begin to
	for i := range all {
		if next[i] = r.now + 1; len(r.counts(&all[i])) > 0 {
			begun = append(begun, i)
		}
	}
	from := func(i int) sim.Time { return r.counts(&all[i])[0].From }
	slices.SortFunc(begun, func(a, b int) int { return cmp.Compare(from(a), from(b)) })
	// From the last: the first of the later ones, and the first of them that is of another place than that one.
	const none = -1
	first, other := none, none
	for k := len(begun) - 1; k >= 0; {
		same := k // those that begin at one time are no successors of each other
		for same > 0 && from(begun[same-1]) == from(begun[k]) {
			same--
		}
		for _, i := range begun[same : k+1] {
			switch {
			case first != none && all[first].Place != all[i].Place:
				next[i] = min(next[i], from(first))
			case other != none:
				next[i] = min(next[i], from(other))
			}
		}
		for _, i := range begun[same : k+1] {
			switch {
			case first == none || all[first].Place == all[i].Place:
				first = i
			default:
				first, other = i, first
			}
		}
		k = same - 1
	}
	return next
}

// both returns the times in which two places lead at once, by their tenures.
func (r *run) both(all []Lane) (both []sim.Span) {
	type part struct {
		of int
		sim.Span
	}
	var parts []part
	for i := range all {
		for _, s := range r.counts(&all[i]) {
			parts = append(parts, part{i, s})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.From, b.From) })
	type pair struct{ a, b part }
	var pairs []pair
	var open []part // they have begun, and are not over
	for _, p := range parts {
		open = slices.DeleteFunc(open, func(o part) bool { return o.Until <= p.From })
		for _, o := range open {
			if all[o.of].Place != all[p.of].Place && o.Within(p.Span).Length() > 0 {
				a, b := o, p
				if a.of < b.of {
					a, b = b, a
				}
				pairs = append(pairs, pair{a, b})
			}
		}
		open = append(open, p)
	}
	slices.SortFunc(pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.a.of, y.a.of), cmp.Compare(x.b.of, y.b.of), cmp.Compare(x.a.From, y.a.From), cmp.Compare(x.b.From, y.b.From))
	})
	for _, p := range pairs {
		both = append(both, p.a.Within(p.b.Span))
	}
	return both
}
