//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/test/chaos/lives"
)

// reign is a leader's: of a program, in which Check said nil; of a command, in
// which one of its family was alive and so could act.
type reign struct {
	token, pid  int64
	node        int
	kind        lives.Kind
	start, last int64
	// zombie is the last of the stamps that are excused, and not counted in last;
	// 0 if there are none.
	zombie int64
}

func (g *reign) String() string { return fmt.Sprintf("%s with token %d", nodeName(g.node), g.token) }

// nodeName is a node's name as the harness gives it: the first is n1.
func nodeName(node int) string {
	if node < 0 {
		return "a node that is not known"
	}
	return fmt.Sprintf("n%d", node+1)
}

// excused splits a life in which a process was frozen with all that would have
// killed it in time: what it stamped within thaw of going on nobody could have
// prevented. It lived until it was frozen then. At least half of the pause between
// its stamps must be due to that, as a pause alone proves nothing. A program that
// asks Check knows better, and so is never excused.
func excused(l lives.Life, freezes []freeze, thaw time.Duration) (last, zombie int64) {
	if l.Kind.Checked() || l.Resumed == 0 {
		return l.Last, 0
	}
	i, _ := slices.BinarySearchFunc(freezes, l.Resumed+1, func(f freeze, at int64) int { return cmp.Compare(f.from, at) })
	for _, f := range freezes[:i] { // all that began before it went on
		if (f.node == int(l.Node) || f.node == Nobody) && 2*(span{f.from, f.to}).both(span{l.Paused, l.Resumed}).length() >= l.Resumed-l.Paused && l.Last <= max(l.Resumed, f.to)+int64(thaw) {
			return l.Paused, l.Last
		}
	}
	return l.Last, 0
}

// assemble makes one reign of all the lives of a family: the first process and its
// descendants, which have its token. Two first processes with one token are two
// reigns, and the descendants count with each. Reigns are sorted by when they
// began.
func assemble(all []lives.Life, freezes []freeze, thaw time.Duration) []reign {
	type family struct {
		token int64
		node  int
	}
	var reigns []reign
	first := map[family][]int{}
	add := func(l lives.Life) {
		last, zombie := excused(l, freezes, thaw)
		of := family{l.Token, int(l.Node)}
		first[of] = append(first[of], len(reigns))
		reigns = append(reigns, reign{token: l.Token, pid: l.Pid, node: int(l.Node), kind: l.Kind, start: l.Start, last: last, zombie: zombie})
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
		last, zombie := excused(l, freezes, thaw)
		for _, i := range of {
			g := &reigns[i]
			g.start, g.last, g.zombie = min(g.start, l.Start), max(g.last, last), max(g.zombie, zombie)
		}
	}
	for i := range reigns {
		if g := &reigns[i]; g.zombie <= g.last {
			g.zombie = 0
		}
	}
	slices.SortFunc(reigns, func(a, b reign) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.last, b.last), cmp.Compare(a.token, b.token))
	})
	// Where nobody else led meanwhile there is nothing to excuse.
	for i := range reigns {
		if g := &reigns[i]; g.zombie != 0 && (i+1 == len(reigns) || reigns[i+1].start > g.zombie) {
			g.last, g.zombie = g.zombie, 0
		}
	}
	return reigns
}

// sweepReigns looks whether reigns are disjoint and tokens rise, in the order in
// which they began. It also counts those that stamped when another had begun, and are
// excused.
func (r *run) sweepReigns(found *findings) (zombies int) {
	var latest, highest *reign // of those before, the one that ended last, and the one with the highest token
	for i := range r.reigns {
		g := &r.reigns[i]
		if g.zombie != 0 {
			zombies++
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
	return zombies
}

// nodesByToken looks whether any token was held by two nodes.
func (r *run) nodesByToken(found *findings) {
	holder := map[int64]int{}
	for _, g := range r.reigns {
		if node, ok := holder[g.token]; ok && node != g.node {
			found.add(Violation{Check: CheckTerm, At: g.start, Node: g.node, Text: fmt.Sprintf("token %d was that of %s, and of %s", g.token, nodeName(node), nodeName(g.node))})
			continue
		}
		holder[g.token] = g.node
	}
}
