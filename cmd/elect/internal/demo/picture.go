package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/cmd/elect/internal/printable"
)

// frame is the area of a picture.
type frame struct {
	width, height int
	colour        bool
	ascii         bool // the terminal shows ASCII only
}

// The smallest terminal for the picture.
const (
	leastWidth  = 72
	leastHeight = 22
)

// mostWidth is the greatest width of the picture: longer lines are hard to read.
const mostWidth = 132

// picture draws the model: exactly height lines, none wider than width. It is a
// pure function.
func picture(m *model, f frame) []string {
	var rows []row
	switch {
	case f.width < leastWidth || f.height < leastHeight:
		rows = tooSmall(f)
	case m.help:
		rows = helpPage(m, f)
	default:
		p := painter{m: m, frame: f, glyphs: unicodeGlyphs()}
		if f.ascii {
			p.glyphs = asciiGlyphs()
		}
		p.width = min(f.width, mostWidth)
		rows = p.draw()
	}
	lines := make([]string, f.height)
	for i := range lines {
		if i < len(rows) {
			lines[i] = rows[i].fit(f.width).paint(f.colour)
		}
	}
	return lines
}

func tooSmall(f frame) []row {
	var rows []row
	for _, text := range []string{
		fmt.Sprintf("This terminal is %d x %d, and the demo wants %d x %d.", f.width, f.height, leastWidth, leastHeight),
		"Please make it larger. The nodes go on meanwhile.",
		"q quits. elect demo --plain needs no room.",
	} {
		for _, line := range wrap(text, max(f.width, 1), 0) {
			rows = append(rows, words(normal, line))
		}
	}
	return rows
}

// painter draws the main picture.
type painter struct {
	m *model
	frame
	glyphs
}

func (p *painter) draw() []row {
	rows := []row{p.title()}
	rows = append(rows, p.boxes()...)
	rows = append(rows, p.timeline()...)
	rows = append(rows, nil)
	free := p.height - len(rows) - 2 // figures and keys
	log, said := 2, 0
	if p.height >= 30 {
		log = min(tailLines, 2+(p.height-26)/4)
		said = min(10, 2+(p.height-26)/4)
	}
	told := free - log - 2
	if said > 0 {
		told -= said + 2
		log++
		told--
	}
	rows = append(rows, words(strong, " What happens"))
	rows = append(rows, p.told(told)...)
	if said > 0 {
		rows = append(rows, nil)
	}
	rows = append(rows, row{{" The log that the jobs write", strong}, {"  a line every " + span(beat), faint}})
	rows = append(rows, p.log(log)...)
	if said > 0 {
		id := ids[p.m.selected]
		rows = append(rows, row{{" What elect run on " + id + " says", strong}, {"  the selected node's stderr", faint}})
		rows = append(rows, p.said(said)...)
	}
	for len(rows) < p.height-2 {
		rows = append(rows, nil)
	}
	return append(rows, p.figures(), p.keys())
}

func (p *painter) title() row {
	m := p.m
	left := row{{" elect demo", strong}, {"  three nodes, one job that must never run twice", normal}}
	clock := fmt.Sprintf("%d:%02d ", int(m.now.Minutes()), int(m.now.Seconds())%60)
	right := fmt.Sprintf("promise %s   ", span(m.promise))
	if p.width >= 100 {
		right = "profile " + m.profile + ", " + right
	}
	if m.chaos {
		right = "CHAOS   "
	}
	left = left.fit(p.width - utf8.RuneCountInString(right+clock))
	style := faint
	if m.chaos {
		style = failed
	}
	return append(left, piece{right, style}, piece{clock, faint})
}

// boxes are the three nodes, side by side.
func (p *painter) boxes() []row {
	const inner = 4
	width := p.width / size
	rows := make([]row, inner+2)
	for i := range p.m.nodes {
		w := width
		if i == size-1 {
			w = p.width - (size-1)*width
		}
		for k, r := range p.box(i, w) {
			rows[k] = append(rows[k], r...)
		}
	}
	return rows
}

func (p *painter) box(i, width int) []row {
	m, n := p.m, &p.m.nodes[i]
	edge := normal
	name := fmt.Sprintf(" %d  %s ", i+1, ids[i])
	if i == m.selected {
		edge = picked
		name = fmt.Sprintf("[%d] %s ", i+1, ids[i])
	}
	inner := width - 4
	side := func(r row) row {
		r = append(row{{p.down + " ", edge}}, r.fit(inner)...)
		return append(r, piece{" " + p.down, edge})
	}
	rest := max(width-3-utf8.RuneCountInString(name), 0)
	rows := []row{{{p.topLeft + p.across, edge}, {name, edge}, {strings.Repeat(p.across, rest) + p.topRight, edge}}}
	for _, r := range []row{p.state(i), p.lease(i, inner), p.work(i), p.links(n, i)} {
		rows = append(rows, side(r))
	}
	return append(rows, row{{p.bottomLeft + strings.Repeat(p.across, width-2) + p.bottomRight, edge}})
}

// state is the node's state, in capitals if it is out of order or leads.
func (p *painter) state(i int) row {
	m, n := p.m, &p.m.nodes[i]
	token := func() string {
		if l, ok := m.ledger.now(); ok && m.worker() == i {
			return fmt.Sprintf("  token %v", l.token)
		}
		return ""
	}()
	switch {
	case n.condition == dead && !n.ever:
		return words(faint, "not started")
	case n.condition == dead:
		return row{{"DEAD", failed}, {"  s starts it", faint}}
	case n.condition == paused:
		return row{{"PAUSED", warning}, {"  for " + seconds(m.now-n.since), normal}}
	case m.worker() == i:
		return row{{p.leads + " LEADS", leading}, {token, leading}}
	case n.cut:
		return row{{"CUT OFF", cutOff}, {"  for " + seconds(m.now-n.since), normal}}
	case n.heard < 0:
		return words(faint, "starting")
	case !n.founded:
		return words(normal, "meets the others")
	case n.token != 0 && n.active:
		return words(leading, fmt.Sprintf("is elected  token %v", n.token))
	case n.token != 0:
		return words(normal, "is elected, waits")
	case strings.Contains(n.role, "candidate"):
		return words(normal, "asks for votes")
	case n.role == "fencing":
		return words(normal, "ends its job")
	case n.follows != "" && n.follows != ids[i]:
		return row{{"follows " + n.follows, strong}}
	}
	return words(normal, "waits")
}

// lease is the shrinking bar of a node with a lease.
func (p *painter) lease(i, inner int) row {
	m, n := p.m, &p.m.nodes[i]
	left := n.leaseEnd - m.now
	switch {
	case n.reachable() && n.founded && n.follows != "" && n.follows != ids[i]:
		return words(faint, "has promised "+n.follows+" "+span(m.promise))
	case n.condition == dead || n.leaseEnd == 0 || n.token == 0:
		return words(faint, "no lease")
	case left <= 0 && n.condition == paused:
		return words(warning, "its lease is over")
	case left <= 0:
		return words(normal, "its lease is over")
	}
	text := " " + seconds(left)
	room := max(inner-len("lease ")-len(text), 4)
	full := int(min(int64(room), (int64(room)*int64(left)+int64(m.promise)/2)/int64(m.promise)))
	bar := leading
	switch {
	case n.condition == paused:
		bar = warning
	case n.cut || m.now-n.renewed > m.promise/2:
		bar = cutOff
	}
	return row{{"lease ", normal}, {strings.Repeat(p.full, full), bar}, {strings.Repeat(p.track, room-full), faint}, {text, normal}}
}

func (p *painter) work(i int) row {
	l, ok := p.m.ledger.now()
	if !ok || p.m.worker() != i {
		return words(faint, "job does not run")
	}
	style := leading
	if p.m.nodes[i].condition == paused {
		style = warning
	}
	return row{{"job runs", style}, {", line " + count(l.lines), normal}}
}

// links are the nodes that this one hears.
func (p *painter) links(n *node, i int) row {
	switch {
	case n.condition == dead || n.heard < 0:
		return nil
	case n.condition == paused:
		return words(faint, "hears nothing")
	case n.cut:
		return words(cutOff, "hears nobody")
	}
	text := "hears"
	for k, id := range ids {
		if k != i && p.m.nodes[k].reachable() {
			text += " " + id
		}
	}
	if text == "hears" {
		text = "hears nobody"
	}
	return words(faint, text)
}

// timeline is the strip: a lane for each node, the present at the right.
func (p *painter) timeline() []row {
	m := p.m
	const label = 4
	columns := p.width - label - 2
	rows := []row{{
		{" Who runs the job", strong}, {fmt.Sprintf("  the last %d s   ", columns*2*int(slot/time.Millisecond)/1000), faint},
		{p.full, leading}, {" runs  ", faint}, {p.standing, normal}, {" stands by  ", faint},
		{p.frozen, warning}, {" paused  ", faint}, {p.severed, cutOff}, {" cut off", faint},
	}}
	last := m.strip.end() / 2 // the column of the present
	for i := range m.nodes {
		r := row{{" " + ids[i] + " ", strong}}
		if i == m.selected {
			r[0].style = picked
		}
		for c := last - columns + 1; c <= last; c++ {
			r = append(r, p.column(i, c))
		}
		rows = append(rows, merge(r))
	}
	return rows
}

// column is one column of a lane: two slots.
func (p *painter) column(i, c int) piece {
	one, two := blank, blank
	if m, ok := p.m.strip.at(2 * c); ok {
		one = m[i]
	}
	if m, ok := p.m.strip.at(2*c + 1); ok {
		two = m[i]
	} else if ok = one != blank; ok {
		two = one // it is in the future
	}
	look := func(k mark) style {
		switch k.rest() {
		case frozen:
			return warning
		case severed:
			return cutOff
		}
		if k.worked() {
			return leading
		}
		return faint
	}
	switch {
	case one.worked() && two.worked():
		return piece{p.full, look(two)}
	case one.worked():
		return piece{p.left, look(one)}
	case two.worked():
		return piece{p.right, look(two)}
	}
	switch two {
	case standing:
		return piece{p.standing, faint}
	case frozen:
		return piece{p.frozen, warning}
	case severed:
		return piece{p.severed, cutOff}
	}
	return piece{" ", normal}
}

// merge joins neighbouring pieces of one style.
func merge(r row) row {
	var merged row
	for _, p := range r {
		if n := len(merged); n > 0 && merged[n-1].style == p.style {
			merged[n-1].text += p.text
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

// told is the story, with the newest sentence at the bottom.
func (p *painter) told(height int) []row {
	const indent = 10
	var rows []row
	for k := len(p.m.story) - 1; k >= 0 && len(rows) < height; k-- {
		s := p.m.story[k]
		style := [...]style{plain: normal, good: leading, struck: strong, bad: failed}[s.mood]
		if k < len(p.m.story)-1 && style != failed && p.m.now-s.at > fresh {
			style = normal
		}
		var lines []row
		for n, text := range wrap(s.text, p.width-indent-1, 0) {
			when := strings.Repeat(" ", indent)
			if n == 0 {
				when = fmt.Sprintf("%7.1f s ", s.at.Seconds())
			}
			lines = append(lines, row{{when, faint}, {text, style}})
		}
		if len(rows)+len(lines) > height && len(rows) > 0 {
			break // half a sentence is of no use
		}
		rows = append(lines, rows...)
	}
	rows = rows[:min(len(rows), height)]
	for len(rows) < height {
		rows = append(rows, nil)
	}
	return rows
}

// fresh is how long a sentence is shown as new.
const fresh = 6 * time.Second

func (p *painter) log(height int) []row {
	var rows []row
	tail := p.m.tail
	for _, l := range tail[max(0, len(tail)-height):] {
		r := row{{fmt.Sprintf("%9.3f s  ", l.At.Seconds()), faint}, {fmt.Sprintf("leader=%s  token=%v  ", l.ID, l.Token), normal}}
		switch {
		case l.Seen != 0:
			r = append(r, piece{fmt.Sprintf("REFUSED: the log has seen token %v", l.Seen), failed})
		default:
			r = append(r, piece{fmt.Sprintf("line %s", count(l.Number)), normal})
		}
		rows = append(rows, r)
	}
	for len(rows) < height {
		rows = append(rows, nil)
	}
	return rows
}

func (p *painter) said(height int) []row {
	lines := p.m.nodes[p.m.selected].said
	var rows []row
	for _, text := range lines[max(0, len(lines)-height):] {
		rows = append(rows, words(normal, "   "+printable.Text(text)))
	}
	for len(rows) < height {
		rows = append(rows, nil)
	}
	return rows
}

// figures are the figures that the log proves.
func (p *painter) figures() row {
	g := &p.m.ledger
	style := leading
	if g.overlaps > 0 {
		style = failed
	}
	r := row{{" Two jobs at once: ", strong}, {times(g.overlaps), style}, {" " + p.sep + " takeovers ", normal}, {count(p.m.takeovers), strong}}
	if p.m.took > 0 {
		r = append(r, piece{", last ", normal}, piece{span(p.m.took), strong})
	}
	r = append(r, piece{" " + p.sep + " " + count(g.lines) + " lines", normal})
	add := func(pieces ...piece) {
		if r.width()+row(pieces).width() <= p.width {
			r = append(r, pieces...)
		}
	}
	switch {
	case g.disorder > 0:
		add(piece{", ", normal}, piece{"TOKENS FELL", failed})
	case len(g.lives) > 1:
		add(piece{", tokens rise", normal})
	}
	if g.late > 0 {
		add(piece{" " + p.sep + " " + plural(g.late, "late write") + " refused", normal})
	}
	return r
}

// hintTime is how long the answer to a key without effect is shown.
const hintTime = 3 * time.Second

func (p *painter) keys() row {
	if p.m.hint != "" && p.m.now-p.m.hinted < hintTime {
		return words(warning, " "+p.m.hint)
	}
	var r row
	for _, keys := range [...]string{ // the first that fits; the help page has all
		"1-3 node|k kill|j kill job|s start|p pause|c cut|r resign|w late write|x chaos|? help|q quit",
		"1-3 node|k kill|j job|s start|p pause|c cut|r resign|x chaos|? more|q quit",
		"1-3 node|k kill|s start|p pause|c cut|r resign|x chaos|? more|q quit",
	} {
		r = nil
		for one := range strings.SplitSeq(keys, "|") {
			key, does, _ := strings.Cut(one, " ")
			r = append(r, piece{" " + key, picked}, piece{" " + does, normal})
		}
		if r.width() <= p.width {
			break
		}
	}
	return r
}

// seconds formats a changing time, in a constant width.
func seconds(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// times formats a number of times.
func times(n int) string {
	switch n {
	case 0:
		return "0 times"
	case 1:
		return "ONCE"
	}
	return fmt.Sprintf("%d TIMES", n)
}

// count formats a number with separated thousands.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
