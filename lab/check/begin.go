package check

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// first makes the initial states of the world: one, or one for each choice of the clocks' rates.
func (e *engine) first() (all []state, wrong *Violation) {
	defer func() {
		if wrong == nil {
			if r := recover(); r != nil {
				wrong = &Violation{NoPanic, "", fmt.Sprint(r)}
			}
		}
	}()
	var s state
	e.mu.Lock()
	for i := range e.w.Nodes {
		n := node{place: i, until: protocol.Always, orphan: protocol.Always, next: protocol.Never}
		n.view.Role = protocol.Down
		s.node[i] = e.intern(&n)
	}
	e.mu.Unlock()
	x := &expander{e: e}
	var flight []uint32 // as many as there are; the bound is for what comes later
	do := func(i int, in input) {
		if wrong != nil {
			return
		}
		o := e.step(s.node[i], in)
		next := s
		next.messages = [MaxMessages]uint32{}
		flight = append(flight, o.sends...)
		quiet := *o
		quiet.sends = nil
		x.succ = x.succ[:0]
		if x.follow(&next, i, &quiet, change{}); len(x.succ) == 0 {
			wrong = &Violation{NoPanic, id(i), "the world cannot begin: its terms are too few"}
			return
		}
		s, wrong = x.succ[0].state, x.succ[0].wrong
	}
	saved := func(i int) {
		for wrong == nil && len(e.nodes.at(s.node[i]).saves) > 0 {
			do(i, saveDone)
		}
	}
	if e.w.Begin != Cold {
		for i := range e.w.Nodes {
			do(i, starts)
			saved(i)
			do(i, idles)
		}
		flight = nil
	}
	if wrong == nil && (e.w.Begin == Led || e.w.Begin == Apart) {
		settle := func(deaf int) {
			for n := 0; n < 200 && wrong == nil; n++ {
				for i := range e.w.Nodes {
					saved(i)
				}
				if len(flight) == 0 {
					break
				}
				l := flight[0]
				flight = flight[1:]
				if to := e.messages.at(l).to; to != deaf {
					do(to, arrives+input(l))
				}
			}
		}
		do(0, fires)
		settle(-1)
		if e.w.Begin == Apart {
			do(1, idles)
			do(0, fires)
			settle(1)
		} else {
			do(0, fires)
			settle(-1)
		}
		if n := e.nodes.at(s.node[0]); wrong == nil && !n.view.Active {
			wrong = &Violation{NoPanic, id(0), "it does not come to lead in this world"}
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	all = []state{s}
	if e.w.Mode == Timed && !e.w.Swing {
		for i := range e.w.Nodes {
			var next []state
			for _, s := range all {
				for r := range e.rates {
					s.rate[i] = uint8(r)
					next = append(next, s)
				}
			}
			all = next
		}
	}
	return all, nil
}
