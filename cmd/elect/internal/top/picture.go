package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/cmd/elect/internal/printable"
	"github.com/electd/elect/cmd/elect/internal/screen"
)

// View is what of a model is shown, and how.
type View struct {
	Colour bool

	sort     int     // of orders
	orders   []order // that there are
	selected Key
	detail   bool // the nodes of the selected election
	first    int  // row that is shown
	rows     []Key
	page     int // rows at once
}

// order is an order of rows, with its name. Rows that are equal are in the order of names.
type order struct {
	name    string
	compare func(a, b *line) int
}

// orders are those of elections.
var orders = [...]order{
	{"name", func(a, b *line) int { return 0 }},
	{"alerts", func(a, b *line) int { return cmp.Compare(b.grade, a.grade) }},
	{"changes", func(a, b *line) int { return cmp.Compare(b.changes, a.changes) }},
	{"newest", func(a, b *line) int { return b.since.Compare(a.since) }},
}

// line is a row: an election, or a source of which no election is known.
type line struct {
	Key
	cells   []string // as many as the header has
	grade   int      // 2: red, 1: yellow
	changes int      // or, of a member of a group, its keys
	since   time.Time
}

// header are the columns. The first two and the last are texts, and the others are numbers.
var header = [...]string{"ELECTION", "LEADER", "TOKEN", "FOR", "LEASE", "CHANGES", "NODES", "RTT", "TROUBLE"}

// Key handles a key, and reports whether it means to quit.
func (v *View) Key(key string) (quit bool) {
	at := max(slices.Index(v.rows, v.selected), 0)
	last := len(v.rows) - 1
	switch key {
	case "q", "Q", screen.CtrlC:
		return true
	case screen.KeyUp, "k":
		at--
	case screen.KeyDown, "j":
		at++
	case screen.KeyPageUp:
		at -= max(v.page, 1)
	case screen.KeyPageDown, " ":
		at += max(v.page, 1)
	case "g":
		at = 0
	case "G":
		at = last
	case "s":
		v.sort = (v.sort + 1) % max(len(v.orders), 1)
	case screen.KeyEnter, "\n", screen.KeyRight:
		v.detail = true
	case screen.KeyEsc, screen.KeyLeft:
		v.detail = false
	}
	if last >= 0 {
		v.selected = v.rows[min(max(at, 0), last)]
	}
	return false
}

// Picture is the screen: at most height lines, none wider than width.
func (m *Model) Picture(v *View, now time.Time, width, height int) []string {
	lines := m.lines(now)
	v.arrange(lines, orders[:])
	nodes := 0
	for _, e := range m.elections {
		nodes += len(e.Nodes)
	}
	p := painter{width: width, colour: v.Colour}
	p.title(v, fmt.Sprintf("elect top  %s, %s, %s", count(len(m.elections), "election"), count(nodes, "node"), count(len(m.alerts), "alert")), now)
	keys := "q quit  j/k or arrows select  enter nodes  s sort by " + v.next()
	if v.detail {
		keys = "q quit  esc all elections  j/k next election"
	}
	bottom := bottom(m.alerts, keys, height)
	room := max(height-1-len(bottom), 1)
	if e := m.elections[v.selected]; v.detail && e != nil {
		m.detail(&p, e, now, room)
	} else {
		p.table(v, header[:], lines, room)
	}
	return p.end(bottom, height)
}

// arrange sorts rows, and keeps one of them selected.
func (v *View) arrange(lines []line, by []order) {
	v.orders = by
	slices.SortStableFunc(lines, func(a, b line) int { return by[v.sort].compare(&a, &b) })
	v.rows = v.rows[:0]
	for _, l := range lines {
		v.rows = append(v.rows, l.Key)
	}
	if !slices.Contains(v.rows, v.selected) && len(v.rows) > 0 {
		v.selected = v.rows[min(v.first, len(v.rows)-1)]
	}
}

// next is the name of the order after the present one.
func (v *View) next() string { return v.orders[(v.sort+1)%len(v.orders)].name }

// title adds the first line.
func (p *painter) title(v *View, left string, now time.Time) {
	right := "by " + v.orders[v.sort].name + "  " + now.Format("15:04:05")
	p.add(bold, left+strings.Repeat(" ", max(p.width-len(left)-len(right), 1))+right)
}

// end adds the last lines at the bottom of the screen.
func (p *painter) end(bottom []styled, height int) []string {
	for len(p.lines) < height-len(bottom) {
		p.add(plain, "")
	}
	for _, b := range bottom {
		p.add(b.style, b.text)
	}
	return p.lines[:min(len(p.lines), max(height, 1))]
}

// styled is a line with one look.
type styled struct {
	style style
	text  string
}

// bottom are the alerts, and the keys.
func bottom(alerts []Alert, keys string, height int) (all []styled) {
	room := max(height/4, 1)
	for i, a := range alerts {
		if i == room-1 && len(alerts) > room {
			all = append(all, styled{yellow, fmt.Sprintf("and %d more alerts", len(alerts)-i)})
			break
		}
		look := yellow
		if a.Severity == critical {
			look = red
		}
		all = append(all, styled{look, a.line()})
	}
	return append(all, styled{faint, keys})
}

func (a *Alert) line() string {
	return fmt.Sprintf("%s %s: %s: %s, since %s", a.Severity, a.Alert, a.Name, a.Text, a.Since.Format("15:04:05"))
}

// table adds the rows around the selected one.
func (p *painter) table(v *View, header []string, lines []line, room int) {
	v.page = max(room-1, 1)
	at := max(slices.Index(v.rows, v.selected), 0)
	v.first = max(min(v.first, at, len(lines)-v.page), at-v.page+1, 0)
	widths := columns(header, lines, p.width)
	p.add(bold, "  "+cells(header, widths))
	for i := v.first; i < min(v.first+v.page, len(lines)); i++ {
		l := &lines[i]
		mark := "  "
		if l.Key == v.selected {
			mark = "> "
		}
		p.add([...]style{plain, yellow, red}[l.grade], mark+cells(l.cells, widths))
	}
}

// columns are the widths of columns: the numbers get what they need, and the texts share the rest.
func columns(header []string, lines []line, width int) (w []int) {
	w = make([]int, len(header))
	rest, last := width-2, len(header)-1
	for c := 2; c < last; c++ {
		w[c] = len(header[c])
		for i := range lines {
			w[c] = max(w[c], utf8.RuneCountInString(lines[i].cells[c]))
		}
		rest -= w[c] + 1
	}
	rest = max(rest-2, 12)
	w[0], w[1] = rest*4/10, rest*3/10
	w[last] = rest - w[0] - w[1]
	return w
}

// cells formats a row. Numbers are at the right of their columns.
func cells(texts []string, widths []int) string {
	var b strings.Builder
	for c, text := range texts {
		blank := strings.Repeat(" ", max(widths[c]-utf8.RuneCountInString(text), 0))
		switch text = clip(text, widths[c]); {
		case c == len(texts)-1:
			b.WriteString(text)
		case c >= 2:
			b.WriteString(blank + text + " ")
		default:
			b.WriteString(text + blank + " ")
		}
	}
	return b.String()
}

// clip shortens a text.
func clip(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:max(width-1, 0)]) + "~"[:min(width, 1)]
	}
	return text
}

// lines are the rows in the order of names.
func (m *Model) lines(now time.Time) (all []line) {
	d := m.Document(now)
	names := map[string]int{}
	for _, e := range d.Elections {
		names[e.Name]++
	}
	for _, e := range d.Elections {
		name := e.Name
		if names[name] > 1 {
			name += " " + e.Election
		}
		all = append(all, m.row(e, name, now))
	}
	for _, s := range d.Sources {
		if m.sources[s.Source].unknown() {
			l := line{Key: Key{Election: s.Source}, cells: []string{s.Source, "(no answer)", "-", "-", "-", "-", "-", "-", s.Error}, grade: 1}
			if s.Error == ErrNone.Error() {
				l.cells[1] = "(no election)"
			}
			all = append(all, l)
		}
	}
	for i := range all {
		for c := range all[i].cells {
			all[i].cells[c] = printable.Text(all[i].cells[c])
		}
	}
	return all
}

// unknown reports whether a source has not answered, and no election of it is known.
func (s *Source) unknown() bool {
	return s.asked == Key{} && len(s.said) == 0 && (s.Error != "" || !s.answered)
}

func (m *Model) row(e *Election, name string, now time.Time) line {
	l := line{Key: Key{e.Election, e.Name}, cells: []string{name, e.leader(), "-", "-", "-", fmt.Sprint(e.Changes), "-", "-", ""}, changes: e.Changes}
	if e.Leader != nil {
		l.cells[2], l.since = e.Leader.Token.String(), e.Leader.Since
		if !e.Leader.Since.IsZero() {
			l.cells[3] = short(max(now.Sub(e.Leader.Since), 0))
		}
	}
	if n := e.leading(); n != nil {
		l.cells[4] = n.lease()
	}
	answer, slowest := 0, time.Duration(0)
	var trouble []string
	for _, n := range e.Nodes {
		if n.Error == "" {
			answer++
		}
		if n.Ill {
			trouble = append(trouble, n.ID+" is ill")
		}
		slowest = max(slowest, n.RTT)
	}
	if len(e.Nodes) > 0 {
		l.cells[6] = fmt.Sprintf("%d/%d", answer, len(e.Nodes))
	}
	if slowest > 0 {
		l.cells[7] = short(slowest)
	}
	if len(trouble) > 0 || answer < len(e.Nodes) || e.Stale || e.Leader == nil {
		l.grade = 1
	}
	var alerts []string
	for _, a := range m.of(e) {
		alerts = append(alerts, a.Alert)
		if a.Severity == critical {
			l.grade = 2
		}
		l.grade = max(l.grade, 1)
	}
	if e.Stale || e.Leader == nil {
		trouble = append(trouble, e.Cause)
	}
	for _, n := range e.Nodes {
		told := (e.Stale || e.Leader == nil) && (strings.Contains(e.Cause, n.ID+"@"+n.Source) || strings.Contains(e.Cause, n.Error))
		if n.Error != "" && !told {
			trouble = append(trouble, n.ID+": "+n.Error)
		}
	}
	l.cells[8] = strings.Join(slices.DeleteFunc(append(slices.Compact(alerts), trouble...), func(t string) bool { return t == "" }), "; ")
	return l
}

// leader is who leads, for people.
func (e *Election) leader() string {
	switch {
	case e.Leader != nil && e.Stale:
		return e.Leader.ID + "?"
	case e.Leader != nil:
		return e.Leader.ID
	case !e.heard && e.Cause == "":
		return "(no answer yet)"
	case e.Stale:
		return "(not known)"
	}
	return "(nobody)"
}

// nodeHeader are the columns of nodes.
const nodeHeader = "NODE\tSTATE\tTOKEN\tLEASE\tRTT\tREADY\tHEALTH\tSOURCE\tTROUBLE"

// row is a node, with tabs between its columns.
func (n *Node) row() string {
	state, token, rtt, ready := cmp.Or(n.State, "?"), "-", "-", "no"
	if n.Token != 0 {
		token = n.Token.String()
	}
	if n.RTT > 0 {
		rtt = short(n.RTT)
	}
	if n.Ready {
		ready = "yes"
	}
	if n.Paused {
		state += ", paused"
	}
	columns := []string{n.ID, state, token, n.lease(), rtt, ready, cmp.Or(n.Health, "-"), n.Source, cmp.Or(n.Error, "-")}
	for i := range columns {
		columns[i] = printable.Text(columns[i])
	}
	return strings.Join(columns, "\t")
}

// detail adds an election and its nodes.
func (m *Model) detail(p *painter, e *Election, now time.Time, room int) {
	leader := e.leader()
	if l := e.Leader; l != nil {
		leader += ", token " + l.Token.String()
		if !l.Since.IsZero() {
			leader += ", since " + l.Since.In(now.Location()).Format(time.RFC3339)
		}
	}
	for _, text := range []string{e.Name + " at " + e.Election, "leader " + leader, "changes " + fmt.Sprint(e.Changes), e.Cause} {
		if text != "" {
			p.add(plain, printable.Text(text))
		}
	}
	p.add(plain, "")
	var b strings.Builder
	_ = writeNodes(&b, e.Nodes)
	for i, row := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		look := plain
		switch {
		case i == 0:
			look = bold
		case e.Nodes[i-1].Error != "" || e.Nodes[i-1].Ill:
			look = yellow
		}
		p.add(look, row)
	}
	if n := len(p.lines) - room; n > 0 {
		p.lines = append(p.lines[:room], fmt.Sprintf("and %d more", n))
	}
}

func writeNodes(w io.Writer, nodes []Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, nodeHeader)
	for i := range nodes {
		fmt.Fprintln(t, nodes[i].row())
	}
	return t.Flush()
}

// Write writes a table of all elections, one of all nodes, and the alerts.
func (m *Model) Write(w io.Writer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header[:], "\t"))
	for _, l := range m.lines(now) {
		l.cells[8] = cmp.Or(l.cells[8], "-")
		fmt.Fprintln(t, strings.Join(l.cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, e := range m.Document(now).Elections {
		if len(e.Nodes) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", printable.Text(e.Name+" at "+e.Election))
		if err := writeNodes(w, e.Nodes); err != nil {
			return err
		}
	}
	for i := range m.alerts {
		if _, err := fmt.Fprintf(w, "\n%s\n", printable.Text(m.alerts[i].line())); err != nil {
			return err
		}
	}
	return nil
}

// short is a time in at most 6 characters.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// style is a look. Each state is also shown in words.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31;1"
	yellow style = "33;1"
)

// painter collects lines.
type painter struct {
	width  int
	colour bool
	lines  []string
}

// add adds a line that fits.
func (p *painter) add(s style, text string) {
	text = strings.TrimRight(clip(printable.Text(text), p.width), " ")
	if p.colour && s != plain && text != "" {
		text = "\x1b[" + string(s) + "m" + text + "\x1b[0m"
	}
	p.lines = append(p.lines, text)
}
