package play

import (
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
	for i := range o.Lanes {
		for j := range i {
			if a, b := &o.Lanes[i], &o.Lanes[j]; a.Place != b.Place {
				for _, x := range r.counts(a) {
					for _, y := range r.counts(b) {
						if s := x.Within(y); s.Length() > 0 {
							o.Both = append(o.Both, s)
						}
					}
				}
			}
		}
	}
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
	for i := range all {
		next := r.now + 1 // when a later term begins
		for j := range all {
			if c := r.counts(&all[j]); all[j].Place != all[i].Place && len(c) > 0 {
				if mine := r.counts(&all[i]); len(mine) > 0 && c[0].From > mine[0].From {
					next = min(next, c[0].From)
				}
			}
		}
		for _, s := range r.counts(&all[i]) {
			if s = s.Within(sim.Span{Until: next}); s.Length() > 0 {
				all[i].True = append(all[i].True, s)
			}
		}
	}
	return all
}
