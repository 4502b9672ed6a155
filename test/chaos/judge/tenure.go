//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/test/chaos/lives"
)

// tenure is a leader's time: of a program, in which Check returned nil; of a command, in which a
// member of its family was alive and so could act.
type tenure struct {
	token, pid  int64
	node        int
	kind        lives.Kind
	start, last int64
	// Its zombie is the last of the excused stamps, and does not count in last; 0 if there are
	// none.
	excuse
}

func (g *tenure) String() string { return fmt.Sprintf("%s with token %d", nodeName(g.node), g.token) }

// nodeName is a node's name as the harness gives it: the first is n1.
func nodeName(node int) string {
	if node < 0 {
		return "a node that is not known"
	}
	return fmt.Sprintf("n%d", node+1)
}

// excuse is what is excused of a life: its stamps from woke up to zombie. It is zero if nothing is.
type excuse struct {
	zombie, woke int64
	stood        bool // not frozen by the harness: the computer did not run
}

// excused splits a life in which a process was frozen together with all that would have killed it
// in time: its stamps within thaw of resuming could not have been prevented. It then counts as
// alive until it was frozen. At least half of the pause between its stamps must be due to the
// freeze, because a pause alone proves nothing. Of several pauses the first counts from which on
// the stamps can be excused. Thaw counts from the life's own first stamp after the pause, which
// shows that it has resumed, and that the computer runs, however long the harness had to wait until
// it could record that. And the pause must be the one in which it was about to resume: a later one,
// before the harness recorded the end, has another cause. A program that uses Check is never
// excused.
func excused(l lives.Life, freezes []freeze, thaw time.Duration) (last int64, x excuse) {
	if l.Kind.Checked() {
		return l.Last, x
	}
	for _, p := range l.Gaps {
		i, _ := slices.BinarySearchFunc(freezes, p.Resumed+1, func(f freeze, at int64) int { return cmp.Compare(f.from, at) })
		for _, f := range freezes[:i] { // all that began before it went on
			stood := f.node == NoNode
			if !stood && f.node != int(l.Node) || l.Last > p.Resumed+int64(thaw) || f.thaw != 0 && (f.thaw < p.Paused || f.thaw > p.Resumed) || 2*(span{f.from, f.to}).both(span{p.Paused, p.Resumed}).length() < p.Resumed-p.Paused {
				continue
			}
			if last, x = p.Paused, (excuse{l.Last, p.Resumed, stood}); !stood {
				break
			}
		}
		if x != (excuse{}) {
			return last, x
		}
	}
	return l.Last, x
}

// assemble makes one tenure of all the lives of a family: the first process and its descendants,
// which have its token. Two first processes with one token are two tenures, and the descendants
// count with each. Tenures are sorted by their beginnings.
func assemble(all []lives.Life, freezes []freeze, thaw time.Duration) []tenure {
	type family struct {
		token int64
		node  int
	}
	var tenures []tenure
	first := map[family][]int{}
	add := func(l lives.Life) {
		last, x := excused(l, freezes, thaw)
		of := family{l.Token, int(l.Node)}
		first[of] = append(first[of], len(tenures))
		tenures = append(tenures, tenure{token: l.Token, pid: l.Pid, node: int(l.Node), kind: l.Kind, start: l.Start, last: last, excuse: x})
	}
	for _, l := range all {
		if l.Kind != lives.Descendant {
			add(l)
		}
	}
	for _, l := range all {
		if l.Kind != lives.Descendant {
			continue
		}
		of := first[family{l.Token, int(l.Node)}]
		if len(of) == 0 { // its first process was killed before it could stamp
			add(l)
			continue
		}
		last, x := excused(l, freezes, thaw)
		for _, i := range of {
			g := &tenures[i]
			g.start, g.last = min(g.start, l.Start), max(g.last, last)
			if x.zombie > g.zombie {
				g.excuse = x
			}
		}
	}
	for i := range tenures {
		if g := &tenures[i]; g.zombie <= g.last {
			g.excuse = excuse{}
		}
	}
	slices.SortFunc(tenures, func(a, b tenure) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.last, b.last), cmp.Compare(a.token, b.token))
	})
	// Without another leader meanwhile there is nothing to excuse.
	for i := range tenures {
		if g := &tenures[i]; g.zombie != 0 && (i+1 == len(tenures) || tenures[i+1].start > g.zombie) {
			g.last, g.excuse = g.zombie, excuse{}
		}
	}
	return tenures
}

// sweepTenures checks that tenures are disjoint and tokens rise, in the order of their beginnings.
// It also counts those that stamped after another had begun, and are excused.
func (r *run) sweepTenures(found *findings, report *Report) {
	var latest, highest *tenure // of the earlier ones: the last to end, and the one with the highest token
	for i := range r.tenures {
		g := &r.tenures[i]
		if g.zombie != 0 {
			report.Zombies++
			report.Grace = max(report.Grace, time.Duration(g.zombie-g.woke))
			if g.stood {
				report.Stood++
			}
		}
		if latest != nil && g.start <= latest.last {
			found.add(Violation{Check: CheckOverlap, At: g.start, Node: g.node, Text: fmt.Sprintf("%v (%v) still led %v after %v (%v) had begun to",
				latest, latest.kind, time.Duration(latest.last-g.start), g, g.kind)})
		}
		if highest != nil && g.token <= highest.token {
			found.add(Violation{Check: CheckToken, At: g.start, Node: g.node, Text: fmt.Sprintf("%v began after %v: tokens must rise", g, highest)})
		}
		if latest == nil || g.last > latest.last {
			latest = g
		}
		if highest == nil || g.token > highest.token {
			highest = g
		}
	}
}

// nodesByToken checks that no two nodes held one token.
func (r *run) nodesByToken(found *findings) {
	holder := map[int64]int{}
	for _, g := range r.tenures {
		if node, ok := holder[g.token]; ok && node != g.node {
			found.add(Violation{Check: CheckTerm, At: g.start, Node: g.node, Text: fmt.Sprintf("token %d was that of %s, and of %s", g.token, nodeName(node), nodeName(g.node))})
			continue
		}
		holder[g.token] = g.node
	}
}
