//go:build linux

package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/electd/elect/test/chaos/network"
)

// bar is something that a row of the timeline shows for a time.
type bar struct {
	span
	class string
	text  string // its tooltip
}

// row is one line of the timeline.
type row struct {
	name string
	bars []bar // by when they begin
}

// rows are the timeline: the leaders, the states of the nodes, the links, when a majority could
// elect without a leader, and the faults.
func (r *run) rows() []row {
	n := r.size()
	leads := make([]row, n)
	for i := range leads {
		leads[i].name = nodeName(i) + " leads"
	}
	for i := range r.tenures {
		g := &r.tenures[i]
		if g.node < 0 || g.node >= n {
			continue
		}
		text := fmt.Sprintf("%v (%v, process %d), from %s to %s", g, g.kind, g.pid, r.since(g.start), r.since(g.last))
		leads[g.node].bars = append(leads[g.node].bars, bar{span{g.start, g.last}, "lead", text})
		if g.zombie != 0 {
			leads[g.node].bars = append(leads[g.node].bars, bar{span{g.last, g.zombie}, "zombie", "frozen, and alive again for an instant: " + text})
		}
	}
	all := append(leads, r.conditions(n)...)
	all = append(all, r.ability())
	return append(all, r.lanes()...)
}

// size is how many nodes there are.
func (r *run) size() int {
	n := 1
	for _, e := range r.events {
		n = max(n, e.Nodes, e.Node+1, len(e.Healthy))
	}
	for _, g := range r.tenures {
		n = max(n, g.node+1)
	}
	return min(n, maxNodes)
}

// condition describes the state of a node.
func (w *world) condition(i int) (class, text string) {
	booted, booting := false, false
	for _, s := range w.up[i] {
		booted, booting = booted || s == 2, booting || s == 1
	}
	switch {
	case !booted && !booting:
		return "down", "down"
	case len(w.frozen[i]) > 0:
		return "frozen", "frozen: " + strings.Join(slices.Sorted(maps.Keys(w.frozen[i])), ", ")
	case !booted:
		return "boots", "boots"
	case w.told && (i >= len(w.healthy) || !w.healthy[i]):
		return "unwell", "not well"
	case !w.voters.has(i):
		return "idle", "well, and no voter"
	}
	return "well", "well"
}

// conditions are a row for each node, and one for the links.
func (r *run) conditions(n int) []row {
	rows := make([]row, n+1)
	for i := range n {
		rows[i].name = nodeName(i)
	}
	rows[n].name = "links"
	now := make([]bar, n+1)
	change := func(i int, at int64, class, text string) {
		if now[i].class == class && now[i].text == text {
			return
		}
		if b := now[i]; b.class != "" && b.from < at {
			b.to = at
			rows[i].bars = append(rows[i].bars, b)
		}
		now[i] = bar{span{at, at}, class, text}
	}
	for at, w := range r.worlds() {
		for i := range n {
			class, text := w.condition(i)
			change(i, at, class, text)
		}
		if text := linksText(w.links); text != "" {
			change(n, at, "broken", text)
		} else {
			change(n, at, "", "")
		}
	}
	for i := range now {
		change(i, max(r.to, now[i].from), "", "")
	}
	return rows
}

// linksText describes the links that are not perfect; "" is none.
func linksText(links network.Links) string {
	ways := slices.SortedFunc(maps.Keys(links), func(a, b network.Way) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	var parts []string
	for _, way := range ways {
		k := links[way]
		if k == (network.Link{}) {
			continue
		}
		text := nodeName(way.From) + "→" + nodeName(way.To)
		if k.Cut {
			text += " cut"
		}
		if k.Loss > 0 {
			text += fmt.Sprintf(" loses %d %%", k.Loss)
		}
		if k.Delay > 0 || k.Jitter > 0 {
			text += fmt.Sprintf(" takes %v to %v more", k.Delay, k.Delay+k.Jitter)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// ability is when a majority could elect, and when there was no leader nevertheless.
func (r *run) ability() row {
	able := r.majorities()
	var any []span
	for _, spans := range able {
		any = append(any, spans...)
	}
	any = union(any)
	led, within := r.led()
	var bars []bar
	for _, s := range any {
		bars = append(bars, bar{s, "able", "a majority is connected and well"})
	}
	for _, s := range common(without(within, led), any) {
		bars = append(bars, bar{s, "leaderless", fmt.Sprintf("there is no leader from %s to %s, and a majority is connected and well", r.since(s.from), r.since(s.to))})
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(a.from, b.from) })
	return row{"majority", bars}
}

// mostLanes is how many faults are shown beside each other.
const mostLanes = 8

// lanes are the faults, in as many rows as go on at once.
func (r *run) lanes() []row {
	var rows []row
	for _, f := range r.faults {
		text := fmt.Sprintf("fault %d, %s, from %s to %s", f.id, f.name, r.since(f.from), r.since(f.to))
		if f.node >= 0 {
			text += ", befalls " + nodeName(f.node)
		}
		i := slices.IndexFunc(rows, func(w row) bool { return w.bars[len(w.bars)-1].to <= f.from })
		if i < 0 && len(rows) < mostLanes {
			rows = append(rows, row{name: ""})
			i = len(rows) - 1
		} else if i < 0 {
			i = len(rows) - 1
		}
		rows[i].bars = append(rows[i].bars, bar{span{f.from, f.to}, "fault", f.name + "\n" + text})
	}
	if len(rows) > 0 {
		rows[0].name = "faults"
	}
	return rows
}
