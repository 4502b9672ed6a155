//go:build linux

package judge

import (
	"cmp"
	"slices"
)

// fault is a fault of the run.
type fault struct {
	name     string
	id, node int
	from, to int64 // to: healed; the end of the run if it never was
	healed   bool
}

// faultsOf pairs beginnings with heals, by ID.
func faultsOf(events []Event, end int64) []fault {
	var all []fault
	open := map[int]int{} // id → index
	for _, e := range events {
		switch e.Kind {
		case Fault:
			open[e.ID] = len(all)
			all = append(all, fault{name: e.Fault, id: e.ID, node: e.Node, from: e.At, to: max(end, e.At)})
		case Heal:
			if i, ok := open[e.ID]; ok {
				all[i].to, all[i].healed = e.At, true
				delete(open, e.ID)
			}
		}
	}
	return all
}

// freeze is a time in which all of a node's family, and what would kill it, could do nothing.
type freeze struct {
	node     int // or NoNode: all
	from, to int64
	// thaw is when the first of them was about to resume, before to, when they had: in between they
	// may have, because the harness may have had to wait. 0: not known.
	thaw int64
}

// freezesOf finds them: where the family was stopped as a whole, or each part of it separately, and
// where the computer did not run. A freeze without a known end does not count: it would excuse
// whatever comes after.
func freezesOf(events []Event, end int64) []freeze {
	var all []freeze
	type state struct {
		parts       map[string]bool
		since, thaw int64
	}
	frozen := map[int]*state{}
	whole := func(s *state) bool {
		return s.parts[PartFamily] || s.parts[PartNode] && s.parts[PartKeeper] && s.parts[PartChild]
	}
	for _, e := range events {
		s := frozen[e.Node]
		if s == nil {
			s = &state{parts: map[string]bool{}}
			frozen[e.Node] = s
		}
		was := whole(s)
		switch e.Kind {
		case Stop:
			s.parts[e.Part] = true
		case Thaw:
			if was && s.thaw == 0 {
				s.thaw = e.At
			}
			continue
		case Cont:
			if delete(s.parts, e.Part); e.Part == PartFamily {
				clear(s.parts) // SIGCONT reaches all of them
			}
		case End:
			clear(s.parts)
		case Stall:
			all = append(all, freeze{node: NoNode, from: e.At - int64(e.For), to: e.At})
			continue
		default:
			continue
		}
		switch is := whole(s); {
		case is && !was:
			s.since, s.thaw = e.At, 0
		case was && !is && (e.Kind == Cont || s.thaw != 0):
			all = append(all, freeze{e.Node, s.since, e.At, s.thaw})
		}
	}
	for node, s := range frozen {
		if whole(s) && s.thaw != 0 { // its Cont is still to be written
			all = append(all, freeze{node, s.since, max(end, s.thaw), s.thaw})
		}
	}
	slices.SortFunc(all, func(a, b freeze) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.node, b.node))
	})
	return all
}
