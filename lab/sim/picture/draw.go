package picture

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"
)

// colours is how many colours messages have; kinds beyond share them.
const colours = 6

// style affects such pictures only.
const style = `.spacetime text{font:12px system-ui,sans-serif;fill:#24292f}
.spacetime .h{font-weight:600;font-size:16px}.spacetime .s{fill:#57606a;font-size:11px}.spacetime .id{font-weight:600;text-anchor:middle}
.spacetime path{fill:none}.spacetime .up{stroke:#8c959f;stroke-width:1.5}.spacetime .el{stroke:#bfe3c8;stroke-width:9}.spacetime .pr{stroke:#1a7f37;stroke-width:9}
.spacetime .ice{stroke:#fff;stroke-width:5;stroke-dasharray:3 4}.spacetime .st{stroke:#afb8c1;stroke-width:9}
.spacetime .f{stroke:#d1242f;stroke-dasharray:2 4}.spacetime .t{stroke:#d8dee4}
.spacetime .win{font-weight:600;fill:#1a7f37}.spacetime .bad{fill:#d1242f}.spacetime .dead{stroke:#d1242f;stroke-width:2}
.spacetime .w{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
.spacetime .l{stroke:currentColor;stroke-width:1.3}.spacetime .a{fill:currentColor;stroke:none}.spacetime text.m{fill:currentColor;font-size:11px}
.spacetime .r{color:#afb8c1}.spacetime .k0{color:#0072b2}.spacetime .k1{color:#b85c00}.spacetime .k2{color:#007d5a}.spacetime .k3{color:#b04a86}.spacetime .k4{color:#5b4bb3}.spacetime .k5{color:#8a6d00}
@media(prefers-color-scheme:dark){.spacetime text{fill:#e6edf3}.spacetime .s{fill:#9198a1}.spacetime .up{stroke:#6e7681}.spacetime .el{stroke:#1f4d2b}.spacetime .pr{stroke:#3fb950}
.spacetime .ice,.spacetime .w{stroke:#0d1117}.spacetime .st{stroke:#3d444d}.spacetime .t{stroke:#2d333b}.spacetime .f,.spacetime .dead{stroke:#f85149}.spacetime .win{fill:#3fb950}.spacetime .bad{fill:#f85149}
.spacetime .r{color:#4b535d}.spacetime .k0{color:#4aa8e8}.spacetime .k1{color:#f0923b}.spacetime .k2{color:#2fc296}.spacetime .k3{color:#e08dbd}.spacetime .k4{color:#a99bf5}.spacetime .k5{color:#f0e442}}
`

// drawing is what has been drawn.
type drawing struct{ strings.Builder }

func (d *drawing) text(class string, x, y float64, s string) {
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, number(x), number(y), escape(s))
}

func (d *drawing) path(class, path string) {
	if path != "" {
		fmt.Fprintf(d, `<path class="%s" d="%s"/>`+"\n", class, path)
	}
}

// write draws everything and writes it.
func (p *picture) write(w io.Writer) error {
	title := p.o.Title
	if title == "" {
		title = "A run of " + p.r.header.Protocol
		if p.r.header.Seed != 0 {
			title += fmt.Sprintf(", seed %d", p.r.header.Seed)
		}
	}
	foot := p.y(p.times[len(p.times)-1]) + 14
	p.grid()
	p.columns(foot)
	p.arrows()
	p.heads()
	p.words()
	p.labels()
	bottom := p.legend(foot)

	says := p.says()
	sum := fnv.New32a()
	io.WriteString(sum, title+says) // never fails
	id := fmt.Sprintf("s%08x", sum.Sum32())
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="spacetime" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" style="max-width:100%%;height:auto" role="img" aria-labelledby="%[3]st %[3]sd">`+"\n",
		number(p.wide), number(bottom), id)
	fmt.Fprintf(&b, "<title id=\"%st\">%s</title>\n<desc id=\"%sd\">%s</desc>\n<style>\n%s</style>\n", id, escape(title), id, escape(says), style)
	fmt.Fprintf(&b, `<text class="h" x="12" y="24">%s</text>`+"\n", escape(title))
	sub := "time downwards, not to scale"
	if left := p.left.String(); left != "" {
		sub += "; left out: " + left
	}
	fmt.Fprintf(&b, `<text class="s" x="12" y="43">%s</text>`+"\n", escape(sub))
	b.WriteString(p.out.String())
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// says is the picture in words: the faults, and the leaders.
func (p *picture) says() string {
	type line struct {
		at   int64
		says string
	}
	var all []line
	for _, m := range p.r.marks {
		all = append(all, line{m.at, m.says})
	}
	for _, n := range p.r.notes {
		all = append(all, line{n.at, p.r.columns[n.column].id + " " + n.says})
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "%d columns, %d messages.", len(p.shown), len(p.r.messages))
	for i, l := range all {
		if i == 30 {
			fmt.Fprintf(&b, " And %d more.", len(all)-i)
			break
		}
		fmt.Fprintf(&b, " %s: %s.", p.clock(l.at), l.says)
	}
	return b.String()
}

// grid writes the times, where there is room, those of notes and faults first.
func (p *picture) grid() {
	var wanted []int64
	for _, m := range p.r.marks {
		wanted = append(wanted, m.at)
	}
	for _, n := range p.r.notes {
		wanted = append(wanted, n.at)
	}
	wanted = append(wanted, p.times...)
	var ys []float64
	var lines strings.Builder
	for _, t := range wanted {
		y := p.y(t)
		if slices.ContainsFunc(ys, func(o float64) bool { return math.Abs(o-y) < 15 }) {
			continue
		}
		ys = append(ys, y)
		p.taken = append(p.taken, box{0, y - 8, margin - 4, y + 8})
		p.out.text("s", 8, y+4, p.clock(t))
		fmt.Fprintf(&lines, "M%s %sH%s", number(margin-8), number(y), number(p.wide-8))
	}
	p.out.path("t", lines.String())
}

// columns draws the lives of nodes.
func (p *picture) columns(foot float64) {
	paths := make([]strings.Builder, 4)
	var ice strings.Builder
	for _, c := range p.shown {
		col := &p.r.columns[c]
		x := p.x(c)
		if c == p.r.store {
			p.out.path("st", fmt.Sprintf("M%s %sV%s", number(x), number(head), number(foot)))
			continue
		}
		for i, s := range col.spans {
			from, to := max(s.from, p.r.from), min(s.to, p.r.end())
			if from >= to {
				continue
			}
			y0, y1 := p.y(from), p.y(to)
			if from == p.r.from || i == 0 && s.from == p.r.start {
				y0 = head
			}
			if to == p.r.end() && i == len(col.spans)-1 && len(col.up) > 0 {
				y1 = foot
			}
			fmt.Fprintf(&paths[s.state], "M%s %sV%s", number(x), number(y0), number(y1))
		}
		for _, s := range col.ice {
			if from, to := max(s.from, p.r.from), min(s.to, p.r.end()); from < to {
				fmt.Fprintf(&ice, "M%s %sV%s", number(x), number(p.y(from)), number(p.y(to)))
			}
		}
	}
	p.out.path("up", paths[up].String())
	p.out.path("el", paths[elected].String())
	p.out.path("pr", paths[proven].String())
	p.out.path("ice", ice.String())
}

// heads writes the names above the columns, and takes their room.
func (p *picture) heads() {
	var dead strings.Builder
	p.taken = append(p.taken, box{0, 0, p.wide, head - 4})
	for _, c := range p.shown {
		p.out.text("id", p.x(c), head-10, p.r.columns[c].id)
	}
	for _, n := range p.r.notes {
		if n.says == "down" {
			fmt.Fprintf(&dead, "M%s %sl10 10m-10 0l10-10", number(p.x(n.column)-5), number(p.y(n.at)-5))
		}
	}
	p.out.path("dead", dead.String())
}

// arrows draws the messages.
func (p *picture) arrows() {
	var lines, tips [colours + 1]strings.Builder // the last ones are routine
	for _, m := range p.r.messages {
		k := colours
		if !m.routine {
			k = slices.Index(p.kinds, m.kind) % colours
		}
		x0, y0, x1, y1 := p.ends(m)
		switch m.fate {
		case flying: // it goes a bit
			x1, y1 = x0+(x1-x0)*.3, y0+(y1-y0)*.3
			fmt.Fprintf(&lines[k], "M%s %sL%s %s", number(x0), number(y0), number(x1), number(y1))
		case lost, wasted:
			if m.fate == lost {
				x1, y1 = x0+(x1-x0)*.62, y0+(y1-y0)*.62
			}
			fmt.Fprintf(&lines[k], "M%s %sL%s %sm-4-4l8 8m-8 0l8-8", number(x0), number(y0), number(x1), number(y1))
		case unknown:
			x0, y0 = x1+(x0-x1)*.3, y1+(y0-y1)*.3
			fallthrough
		default:
			fmt.Fprintf(&lines[k], "M%s %sL%s %s", number(x0), number(y0), number(x1), number(y1))
			tip(&tips[k], x0, y0, x1, y1)
		}
		weight := 2.0
		if m.routine {
			weight = 1
		}
		p.lines = append(p.lines, line{x0, y0, x1, y1, weight, m})
	}
	for k := range lines {
		class := fmt.Sprintf("k%d", k)
		if k == colours {
			class = "r"
		}
		p.out.path(class+" l", lines[k].String())
		p.out.path(class+" a", tips[k].String())
	}
}

// ends is where a message goes from and to. One of whose way half is known goes
// as steeply as others do.
func (p *picture) ends(m *message) (x0, y0, x1, y1 float64) {
	x0, x1 = p.x(m.from), p.x(m.to)
	y0 = p.y(max(m.sent, p.r.from))
	y1 = y0 + 10
	if m.fate == arrived {
		y1 = p.y(m.at)
	}
	if m.fate == unknown {
		y0, y1 = p.y(m.at)-10, p.y(m.at)
	}
	// Clear of the bars.
	d := 5.0
	if x0 > x1 {
		d = -5
	}
	return x0 + d, y0, x1 - d, y1
}

// tip draws the head of an arrow.
func tip(b *strings.Builder, x0, y0, x1, y1 float64) {
	length := math.Hypot(x1-x0, y1-y0)
	if length == 0 {
		return
	}
	ux, uy := (x1-x0)/length, (y1-y0)/length
	bx, by := x1-7*ux, y1-7*uy
	fmt.Fprintf(b, "M%s %sL%s %sL%s %sz", number(x1), number(y1), number(bx-3*uy), number(by+3*ux), number(bx+3*uy), number(by-3*ux))
}

// words writes the notes beside their columns, and the faults across.
func (p *picture) words() {
	var across strings.Builder
	for _, m := range p.r.marks {
		y := p.y(m.at)
		fmt.Fprintf(&across, "M%s %sH%s", number(margin-8), number(y), number(p.wide-8))
	}
	p.out.path("f", across.String())
	for _, n := range p.r.notes {
		x, y := p.x(n.column), p.y(n.at)
		var tries [][2]float64
		width := letter * float64(len([]rune(n.says)))
		if n.class == "win" {
			width *= bold / letter
		}
		for _, dy := range []float64{4, 14, 24, -6, 36, -16, 48} {
			tries = append(tries, [2]float64{x + 9, y + dy}, [2]float64{x - 9 - width, y + dy})
		}
		if at, ok := p.place(width, nil, tries...); ok {
			p.out.text(strings.TrimSpace(n.class+" w"), at[0], at[1], n.says)
		}
	}
	for _, m := range p.r.marks {
		y := p.y(m.at)
		says := m.says
		if most := int((p.wide - margin) / letter); len([]rune(says)) > most {
			says = string([]rune(says)[:most-1]) + "…"
		}
		width := letter * float64(len([]rune(says)))
		x := p.wide - 8 - width
		var tries [][2]float64
		for _, dy := range []float64{-4, 13, -16, 25, 37, 49} {
			tries = append(tries, [2]float64{x, y + dy}, [2]float64{margin, y + dy})
		}
		if at, ok := p.place(width, nil, tries...); ok {
			p.out.text("bad w", at[0], at[1], says)
		}
	}
}

// labels writes what a message is on its arrow, where there is room.
func (p *picture) labels() {
	type group struct {
		kind  string
		from  int
		sent  int64
		right bool
	}
	done := make(map[group]bool) // what goes to several is named once
	for _, m := range p.r.messages {
		g := group{m.kind, m.from, m.sent, p.at[m.to] > p.at[m.from]}
		if m.routine || m.reply || done[g] {
			continue
		}
		x0, y0, x1, y1 := p.ends(m)
		width := letter * float64(len([]rune(m.kind)))
		if width > p.gap-14 {
			continue
		}
		var tries [][2]float64
		// Between two columns, the nearest first; above the line, then below.
		from, to, step := p.at[m.from], p.at[m.to], 1
		if from > to {
			step = -1
		}
		for _, dy := range []float64{-4, 12} {
			for k := from; k != to; k += step {
				for _, off := range []float64{0, -.18, .18} {
					mid := margin + inner + p.gap*(float64(k)+float64(step)*(.5+off))
					if math.Abs(off)*p.gap+width/2 > p.gap/2-6 {
						continue
					}
					part := (mid - x0) / (x1 - x0)
					tries = append(tries, [2]float64{mid - width/2, y0 + part*(y1-y0) + dy})
				}
			}
		}
		if at, ok := p.place(width, m, tries...); ok {
			k := slices.Index(p.kinds, m.kind) % colours
			p.out.text(fmt.Sprintf("k%d m w", k), at[0], at[1], m.kind)
			done[g] = true
		}
	}
}

// legend says what the colours are, and returns where it ends.
func (p *picture) legend(foot float64) float64 {
	x, y := 12.0, foot+22
	entry := func(class, says string) {
		width := 30 + 6.2*float64(len([]rune(says))) + 16
		if x+width > p.wide {
			x, y = 12, y+18
		}
		p.out.path(class, fmt.Sprintf("M%s %sh20", number(x), number(y-4)))
		p.out.text("s", x+26, y, says)
		x += width
	}
	states := make(map[state]bool)
	frozen := false
	for _, c := range p.shown {
		for _, s := range p.r.columns[c].spans {
			states[s.state] = states[s.state] || s.to > p.r.from
		}
		frozen = frozen || len(p.r.columns[c].ice) > 0
	}
	if states[elected] {
		entry("el", "elected")
	}
	if states[proven] {
		entry("pr", "proven lease")
	}
	if frozen {
		entry("up", "frozen: broken")
	}
	for i, k := range p.kinds {
		entry(fmt.Sprintf("k%d l", i%colours), k)
	}
	for _, m := range p.r.messages {
		if m.routine {
			entry("r l", "heartbeats, other routine")
			break
		}
	}
	return y + 14
}

// number is a coordinate: one digit after the point, and none that is 0.
func number(v float64) string {
	s := fmt.Sprintf("%.1f", math.Round(v*10)/10)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// escape makes any text fit to stand in XML.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, s)
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
