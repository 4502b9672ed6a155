package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The measures of a picture, in pixels.
const (
	margin   = 74  // left of the pane, for the times
	inner    = 128 // from there to the first column
	side     = 128 // right of the last column, for its notes
	least    = 760
	widest   = 190 // between two columns
	tight    = 64
	head     = 84
	longest  = 4000 // of the part that shows time; more is scaled down
	lineTall = 13
)

// picture is a trace with a place for everything.
type picture struct {
	r     *reader
	o     *Options
	left  Left
	shown []int // columns, from left to right
	at    []int // the place of each column among them, or -1
	gap   float64
	wide  float64

	times []int64
	ys    []float64 // of times
	scale float64

	kinds []string // of messages, in the order of their first appearance
	taken []box    // where something is written
	lines []line   // the arrows
	out   drawing
}

// box is a part of the picture.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) meets(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

// layOut decides what is drawn, and where.
func layOut(r *reader, o *Options) *picture {
	p := &picture{r: r, o: o}
	p.choose()
	p.thin()
	p.times = r.times()
	if end := r.end(); p.times[len(p.times)-1] < end {
		p.times = append(p.times, end)
	}
	p.ys = make([]float64, len(p.times))
	y := 0.0
	for i := range p.times {
		if i > 0 {
			y += rise(p.times[i] - p.times[i-1])
		}
		p.ys[i] = y
	}
	p.scale = min(1, longest/max(y, 1))
	n := len(p.shown)
	p.gap = min(widest, max(tight, (least-margin-inner-side)/float64(max(n-1, 1))))
	p.wide = max(least, margin+inner+side+p.gap*float64(n-1))
	for _, m := range r.messages {
		if !m.routine && !slices.Contains(p.kinds, m.kind) {
			p.kinds = append(p.kinds, m.kind)
		}
	}
	return p
}

// rise is how much lower than before something is drawn that comes d later.
func rise(d int64) float64 {
	return 12 * math.Log10(1+float64(d)/float64(100*time.Microsecond))
}

// end is the end of what is drawn.
func (r *reader) end() int64 {
	if r.o.To > 0 {
		return min(r.to, r.last)
	}
	return r.last
}

// choose picks the columns: all, or those in which most happens.
func (p *picture) choose() {
	r := p.r
	all := make([]int, len(r.columns))
	for i := range all {
		all[i] = i
	}
	if len(all) > p.o.Columns {
		slices.SortStableFunc(all, func(a, b int) int {
			if a == r.store || b == r.store {
				return cmp.Compare(btoi(b == r.store), btoi(a == r.store))
			}
			return cmp.Compare(r.columns[b].acts, r.columns[a].acts)
		})
		all = all[:p.o.Columns]
		slices.Sort(all)
	}
	p.left.Nodes = len(r.columns) - len(all)
	// The store stands on the right.
	if i := slices.Index(all, r.store); i >= 0 {
		all = append(slices.Delete(all, i, i+1), r.store)
	}
	p.shown, p.at = all, make([]int, len(r.columns))
	for i := range p.at {
		p.at[i] = slices.Index(all, i)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// thin leaves messages out: those of columns that are not there, routine ones if
// they are not wanted or too many, and then the latest.
func (p *picture) thin() {
	r := p.r
	r.messages = slices.DeleteFunc(r.messages, func(m *message) bool { return p.at[m.from] < 0 || p.at[m.to] < 0 })
	slices.SortStableFunc(r.messages, func(a, b *message) int { return cmp.Compare(a.sent, b.sent) })
	routine := 0
	for _, m := range r.messages {
		routine += btoi(m.routine)
	}
	p.left.Routine = r.dropped
	if r.cut > 0 {
		p.left.After = time.Duration(r.cut - r.start)
	}
	if p.o.Plain || r.dropped > 0 || len(r.messages) > p.o.Arrows {
		p.left.Routine += routine
		r.messages = slices.DeleteFunc(r.messages, func(m *message) bool { return m.routine })
	}
	if over := len(r.messages) - p.o.Arrows; over > 0 {
		p.left.Messages = over
		r.messages = r.messages[:p.o.Arrows]
	}
	r.notes = slices.DeleteFunc(r.notes, func(n note) bool { return p.at[n.column] < 0 })
}

func (p *picture) x(column int) float64 {
	return margin + inner + p.gap*float64(p.at[column])
}

// y is where a time is; between two that are known, in proportion.
func (p *picture) y(t int64) float64 {
	i, ok := slices.BinarySearch(p.times, t)
	var y float64
	switch {
	case ok:
		y = p.ys[i]
	case i == 0:
		y = 0
	case i == len(p.times):
		y = p.ys[i-1]
	default:
		part := float64(t-p.times[i-1]) / float64(p.times[i]-p.times[i-1])
		y = p.ys[i-1] + part*(p.ys[i]-p.ys[i-1])
	}
	return head + 14 + y*p.scale
}

// clock is a time since the first event, with the digits that count here.
func (p *picture) clock(t int64) string {
	return time.Duration(t - p.r.start).Round(100 * time.Microsecond).String()
}

// letter and bold are how wide one is, more or less.
const letter, bold = 6.6, 7.2

// place finds room for a text in a row of candidates, and takes it: where it is
// over the fewest lines, and the first of these. It never covers another text;
// false if it would everywhere. Lines that are its own do not count.
func (p *picture) place(width float64, own *message, candidates ...[2]float64) ([2]float64, bool) {
	least, at, taken := math.Inf(1), [2]float64{}, box{}
	for i, c := range candidates {
		b := box{c[0], c[1] - lineTall + 3, c[0] + width, c[1] + 3}
		if b.x0 < 0 || b.x1 > p.wide || slices.ContainsFunc(p.taken, b.meets) {
			continue
		}
		cost := .2 * float64(i)
		for _, c := range p.shown {
			if x := p.x(c); b.x0 < x+5 && x-5 < b.x1 {
				cost += 3
			}
		}
		for _, l := range p.lines {
			if l.of != own && l.crosses(b) {
				cost += l.weight
			}
		}
		if cost < least {
			least, at, taken = cost, c, b
		}
	}
	if math.IsInf(least, 1) {
		return at, false
	}
	p.taken = append(p.taken, taken)
	return at, true
}

// line is something drawn that a text should not be over.
type line struct {
	x0, y0, x1, y1 float64
	weight         float64
	of             *message
}

// crosses reports whether a line goes through a box.
func (l line) crosses(b box) bool {
	from, to := 0.0, 1.0
	clip := func(d, q float64) bool { // q ≥ t·d must hold
		switch {
		case d == 0:
			return q >= 0
		case d > 0:
			to = min(to, q/d)
		default:
			from = max(from, q/d)
		}
		return from <= to
	}
	dx, dy := l.x1-l.x0, l.y1-l.y0
	return clip(-dx, l.x0-b.x0) && clip(dx, b.x1-l.x0) && clip(-dy, l.y0-b.y0) && clip(dy, b.y1-l.y0)
}

// String says what is not there; it is empty if all is.
func (l Left) String() string {
	var all []string
	if l.Routine > 0 {
		all = append(all, fmt.Sprintf("%d routine messages", l.Routine))
	}
	if l.Messages > 0 {
		all = append(all, fmt.Sprintf("the last %d messages", l.Messages))
	}
	if l.Nodes > 0 {
		all = append(all, fmt.Sprintf("%d nodes", l.Nodes))
	}
	if l.After > 0 {
		all = append(all, fmt.Sprintf("all after %v", l.After.Round(time.Millisecond)))
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s and %s", strings.Join(all[:len(all)-1], ", "), all[len(all)-1])
}
