//go:build linux

package judge

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"github.com/electd/elect/test/chaos/network"
)

// maxNodes is the greatest number of nodes of a run.
const maxNodes = 64

// nodes is a set of nodes.
type nodes uint64

func (s nodes) has(i int) bool { return s>>i&1 != 0 }

func (s nodes) list() (all []int) {
	for ; s != 0; s &= s - 1 {
		all = append(all, bits.TrailingZeros64(uint64(s)))
	}
	return all
}

// world is what determines whether a node can lead.
type world struct {
	voters   nodes
	majority int
	links    network.Links
	healthy  []bool
	told     bool                  // healthy was reported
	up       [maxNodes]map[int]int // node → process → 1 while it boots, 2 when it has booted
	frozen   [maxNodes]map[string]bool
}

// well reports whether a node runs without a fault.
func (w *world) well(i int) bool {
	if len(w.frozen[i]) > 0 || w.told && (i >= len(w.healthy) || !w.healthy[i]) {
		return false
	}
	for _, state := range w.up[i] {
		if state == 2 {
			return true
		}
	}
	return false
}

// sets are the smallest sets of voters that can elect, each well and with perfect links among them,
// both ways.
func (w *world) sets() []nodes {
	var well []int
	for _, i := range w.voters.list() {
		if w.well(i) {
			well = append(well, i)
		}
	}
	majority := w.majority
	if majority == 0 {
		majority = bits.OnesCount64(uint64(w.voters))/2 + 1
	}
	var found []nodes
	var choose func(from int, set nodes, missing int)
	choose = func(from int, set nodes, missing int) {
		if missing == 0 {
			found = append(found, set)
			return
		}
		for k := from; k <= len(well)-missing; k++ {
			if i := well[k]; w.joined(set, i) {
				choose(k+1, set|1<<i, missing-1)
			}
		}
	}
	choose(0, 0, majority)
	return found
}

// joined reports whether the links between a node and a set are perfect.
func (w *world) joined(set nodes, i int) bool {
	for _, j := range set.list() {
		if (w.links[network.Way{From: i, To: j}] != network.Link{}) || (w.links[network.Way{From: j, To: i}] != network.Link{}) {
			return false
		}
	}
	return true
}

// change is a change of the world.
type change struct {
	at int64
	do func(w *world)
}

// worlds yields the world at each time at which it changes, by the events. It is one world, which
// changes.
func (r *run) worlds() iter.Seq2[int64, *world] {
	var all []change
	add := func(at int64, do func(w *world)) { all = append(all, change{at, do}) }
	for _, e := range r.events {
		if e.Node >= maxNodes {
			continue
		}
		switch e.Kind {
		case Run, Voters:
			add(e.At, func(w *world) {
				w.voters = 0
				for _, i := range e.Voters {
					if i >= 0 && i < maxNodes {
						w.voters |= 1 << i
					}
				}
				w.majority = e.Majority
			})
		case Links:
			add(e.At, func(w *world) { w.links = e.Links })
		case Health:
			add(e.At, func(w *world) { w.healthy, w.told = e.Healthy, true })
		}
		if e.Node < 0 {
			continue
		}
		switch e.Kind {
		case Start:
			add(e.At, func(w *world) {
				if w.up[e.Node] == nil {
					w.up[e.Node] = map[int]int{}
				}
				w.up[e.Node][e.Pid] = 1
			})
			add(e.At+int64(r.options.Boot), func(w *world) {
				if w.up[e.Node][e.Pid] == 1 { // it has not ended meanwhile
					w.up[e.Node][e.Pid] = 2
				}
			})
		case End:
			add(e.At, func(w *world) {
				delete(w.up[e.Node], e.Pid)
				clear(w.frozen[e.Node])
			})
		case Stop:
			add(e.At, func(w *world) {
				if w.frozen[e.Node] == nil {
					w.frozen[e.Node] = map[string]bool{}
				}
				w.frozen[e.Node][e.Part] = true
			})
		case Cont:
			add(e.At, func(w *world) {
				if delete(w.frozen[e.Node], e.Part); e.Part == PartFamily {
					clear(w.frozen[e.Node])
				}
			})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return func(yield func(int64, *world) bool) {
		var w world
		for i, c := range all {
			c.do(&w)
			if last := i+1 == len(all) || all[i+1].at != c.at; last && !yield(c.at, &w) {
				return
			}
		}
	}
}

// majorities finds when a majority was connected and well: for each of the smallest sets that can
// elect, the times throughout which it could.
func (r *run) majorities() map[nodes][]span {
	able := map[nodes][]span{}
	since := map[nodes]int64{}
	for at, w := range r.worlds() {
		now := w.sets()
		for set, from := range since {
			if !slices.Contains(now, set) {
				able[set] = append(able[set], span{from, at})
				delete(since, set)
			}
		}
		for _, set := range now {
			if _, ok := since[set]; !ok {
				since[set] = at
			}
		}
	}
	for set, from := range since {
		able[set] = append(able[set], span{from, max(from, r.to)})
	}
	return able
}
