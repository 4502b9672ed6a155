package gallery

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

// lanes is a scenario drawn as the lanes of the laboratory's page: for each node, when it believes that it leads, when
// its lease is valid by its own clock, and when it truly leads; and what became of the writes.
type lanes struct {
	name               string // of the picture
	scenario, protocol string
	title              string
	from, to           time.Duration // of the run; the axis counts from from
	writes             bool
}

// watched is what the lanes show of a run.
type watched struct {
	tenures sim.Tenures
	nodes   []protocol.NodeID
	lives   []life
	open    map[int]int // lives, by place
	faults  []fault
	writes  []write
}

// life is a time in which a node was dead, or frozen.
type life struct {
	place  int
	frozen bool
	sim.Span
}

type fault struct {
	says string
	sim.Span
}

type write struct {
	at    sim.Time
	token uint64
	says  string
}

// Event implements [sim.Tracer].
func (r *watched) Event(_ *sim.World, rec *sim.Record) {
	switch rec.Kind {
	case sim.RecordMake, sim.RecordThaw:
		r.ends(rec)
	case sim.RecordDeath, sim.RecordFreeze:
		r.ends(rec)
		r.open[rec.Index] = len(r.lives)
		r.lives = append(r.lives, life{rec.Index, rec.Kind == sim.RecordFreeze, sim.Span{From: rec.At}})
	case sim.RecordFault:
		r.faults = append(r.faults, fault{rec.Op.String(), sim.Span{From: rec.At}})
	case sim.RecordFaultEnd:
		if i := slices.IndexFunc(r.faults, func(f fault) bool { return f.Until == 0 && f.says == rec.Op.String() }); i >= 0 {
			r.faults[i].Until = rec.At
		}
	case sim.RecordWrite:
		r.writes = append(r.writes, write{rec.At, rec.Count, rec.Says})
	}
}

func (r *watched) ends(rec *sim.Record) {
	if i, ok := r.open[rec.Index]; ok {
		r.lives[i].Until = rec.At
		delete(r.open, rec.Index)
	}
}

// watch plays the scenario until the end of the picture.
func (l lanes) watch() (*watched, *sim.Protocol, error) {
	of, ok := scenario.ByName(l.scenario)
	p, known := protocols.ByName(l.protocol)
	if !ok || !known {
		return nil, nil, fmt.Errorf("gallery: there is no scenario %q with %q", l.scenario, l.protocol)
	}
	s, err := of.Schedule(l.protocol)
	if err != nil {
		return nil, nil, fmt.Errorf("gallery: %w", err)
	}
	world, err := sim.New(p, s)
	if err != nil {
		return nil, nil, fmt.Errorf("gallery: %s: %w", p.Name, err)
	}
	r := &watched{open: map[int]int{}}
	for _, n := range world.AppendProcesses(nil) {
		r.nodes = append(r.nodes, n.Node)
	}
	world.Trace(r)
	for world.Now() <= sim.Time(l.to) && world.Step() {
		r.tenures.Look(world)
	}
	r.tenures.End(sim.Time(l.to))
	return r, p, nil
}

// leading is the time in which a tenure leads: by proof, or, without leases, by belief.
func leading(t *sim.Tenure, leases bool) []sim.Span {
	if leases {
		return t.Proven
	}
	return []sim.Span{t.Span}
}

// Where the lanes are on the drawing.
const (
	lanesWide = 760
	lanesLeft = 64
	lanesTop  = 86
	laneHigh  = 38
)

const lanesStyle = `.lanes text{font:12px system-ui,sans-serif;fill:#24292f}
.lanes .h{font-weight:600;font-size:16px}.lanes .s{fill:#57606a;font-size:11px}.lanes .id{font-weight:600}
.lanes .e{stroke:#d8dee4;fill:none}.lanes .el{fill:none;stroke-width:1.25}.lanes .pr{opacity:.5}.lanes .n{font-weight:700;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
.lanes .dead{stroke:#8c959f;stroke-width:1.5;stroke-dasharray:2 3}.lanes .ice{fill:url(#ice)}.lanes .ice-line{stroke:#8c959f;stroke-width:2}
.lanes .both{fill:url(#both)}.lanes .both-line{stroke:#d1242f;stroke-width:1.5}.lanes .f{fill:#d1242f}.lanes .fl{stroke:#d1242f;stroke-dasharray:2 4}
.lanes .no{stroke:#d1242f;stroke-width:2;fill:none}.lanes .bad{fill:#d1242f}.lanes .k{fill:#57606a;stroke:#57606a}
.lanes .t0{fill:#2f6fd0;stroke:#2f6fd0}.lanes .t1{fill:#d2820a;stroke:#d2820a}.lanes .t2{fill:#0f8a6d;stroke:#0f8a6d}.lanes .t3{fill:#a8458d;stroke:#a8458d}
.lanes .box{stroke:none}.lanes .el{fill:none}.lanes .n{stroke-linejoin:round}
@media(prefers-color-scheme:dark){.lanes text{fill:#e6edf3}.lanes .s{fill:#9198a1}.lanes .e{stroke:#2d333b}.lanes .n{stroke:#0d1117}.lanes .dead,.lanes .ice-line{stroke:#6e7681}
.lanes .both-line,.lanes .fl,.lanes .no{stroke:#f85149}.lanes .f,.lanes .bad{fill:#f85149}.lanes .k{fill:#9198a1;stroke:#9198a1}
.lanes .t0{fill:#6ea2ff;stroke:#6ea2ff}.lanes .t1{fill:#f0a63c;stroke:#f0a63c}.lanes .t2{fill:#3cc9a3;stroke:#3cc9a3}.lanes .t3{fill:#e08cc8;stroke:#e08cc8}.lanes .el{fill:none}.lanes .box{stroke:none}}
`

// svg plays the scenario and draws it.
func (l lanes) svg(w io.Writer) error {
	r, p, err := l.watch()
	if err != nil {
		return err
	}
	leases := !p.Leaseless
	var b, says strings.Builder
	x := func(t sim.Time) float64 {
		return lanesLeft + float64(t-sim.Time(l.from))/float64(l.to-l.from)*(lanesWide-lanesLeft-24)
	}
	shown := sim.Span{From: sim.Time(l.from), Until: sim.Time(l.to)}
	rect := func(class string, s sim.Span, y, h float64) {
		if s.Until == 0 {
			s.Until = shown.Until
		}
		if s = s.Within(shown); s.Length() > 0 {
			fmt.Fprintf(&b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`+"\n", class, num(x(s.From)), num(y), num(max(x(s.Until)-x(s.From), 1)), num(h))
		}
	}
	text := func(class string, x, y float64, s string) {
		fmt.Fprintf(&b, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, num(x), num(y), html.EscapeString(s))
	}
	after := func(t sim.Time) string {
		return strconv.FormatFloat(time.Duration(t-shown.From).Seconds(), 'f', -1, 64) + " s"
	}
	foot := float64(lanesTop + len(r.nodes)*laneHigh)
	bottom := foot
	if l.writes {
		bottom += 40
	}

	step := sim.Time(tickOf(l.to - l.from))
	for t := shown.From; t <= shown.Until; t += step {
		fmt.Fprintf(&b, `<path class="e" d="M%s %dV%s"/>`+"\n", num(x(t)), lanesTop, num(bottom))
		text("s", x(t)-8, bottom+16, after(t))
	}
	for i, id := range r.nodes {
		y := float64(lanesTop + i*laneHigh)
		fmt.Fprintf(&b, `<path class="e" d="M0 %s H%d"/>`+"\n", num(y), lanesWide)
		text("id", 12, y+laneHigh/2+4, string(id))
	}
	fmt.Fprintf(&b, `<path class="e" d="M0 %s H%d"/>`+"\n", num(foot), lanesWide)

	// What is wrong: a mark and a line for each fault, with its words where there is room.
	free := 0.
	for _, f := range r.faults {
		if f.From < shown.From || f.From > shown.Until {
			continue
		}
		rect("f", f.Span, lanesTop-9, 4)
		fmt.Fprintf(&b, `<path class="fl" d="M%s %dV%s"/>`+"\n", num(x(f.From)), lanesTop-9, num(bottom))
		if words, _, _ := strings.Cut(f.says, " for "); x(f.From) >= free {
			text("bad", x(f.From), lanesTop-14, words)
			free = x(f.From) + 7*float64(len(words)) + 12
			fmt.Fprintf(&says, "After %s: %s. ", after(f.From), words)
		}
	}
	for _, is := range r.lives {
		y := float64(lanesTop + is.place*laneHigh)
		switch end := cmp.Or(is.Until, shown.Until); {
		case end <= shown.From || is.From >= shown.Until:
		case is.frozen:
			rect("ice", is.Span, y+2, laneHigh-4)
			fmt.Fprintf(&says, "%s is frozen until %s. ", r.nodes[is.place], after(min(end, shown.Until)))
		default:
			s := sim.Span{From: is.From, Until: end}.Within(shown)
			fmt.Fprintf(&b, `<path class="dead" d="M%s %sH%s"/>`+"\n", num(x(s.From)), num(y+laneHigh/2), num(x(s.Until)))
			fmt.Fprintf(&says, "%s is dead until %s. ", r.nodes[is.place], after(s.Until))
		}
	}

	colour := func(token uint64) string { return fmt.Sprintf("t%d", token%4) }
	all := r.tenures.All
	high := float64(laneHigh-10) / 3
	if !leases {
		high = float64(laneHigh-9) / 2
	}
	for i := range all {
		t := &all[i]
		if believes := t.Within(shown); believes.Length() <= 0 {
			continue
		}
		y, k := float64(lanesTop+t.Place*laneHigh)+4, colour(t.Token)
		rect("el "+k, t.Span, y+.5, high-1)
		next := shown.Until // when a later term begins
		for j := range all {
			mine, c := leading(t, leases), leading(&all[j], leases)
			if all[j].Place != t.Place && len(c) > 0 && len(mine) > 0 && c[0].From > mine[0].From {
				next = min(next, c[0].From)
			}
		}
		if leases {
			for _, s := range t.Proven {
				rect("box pr "+k, s, y+high+1, high)
			}
		}
		last := y + high + 1
		if leases {
			last += high + 1
		}
		for _, s := range leading(t, leases) {
			rect("box "+k, s.Within(sim.Span{Until: next}), last, high)
		}
		text("n", max(x(t.From), lanesLeft)+6, y+laneHigh/2, fmt.Sprintf("token %d", t.Token))
		s := t.Within(shown)
		fmt.Fprintf(&says, "%s believes from %s to %s that it leads, with token %d. ", t.Who, after(s.From), after(s.Until), t.Token)
	}
	for i := range all {
		for j := range i {
			for _, a := range leading(&all[i], leases) {
				for _, c := range leading(&all[j], leases) {
					if s := a.Within(c).Within(shown); all[i].Place != all[j].Place && s.Length() > 0 {
						rect("both", s, lanesTop, foot-lanesTop)
						fmt.Fprintf(&says, "Two lead at once, from %s to %s. ", after(s.From), after(s.Until))
					}
				}
			}
		}
	}
	if l.writes {
		l.resource(&b, &says, r, x, foot, shown)
	}
	return l.frame(w, b.String(), strings.TrimSpace(says.String()), bottom, leases)
}

// resource draws what became of the writes, with the token of the first of each.
func (l lanes) resource(b, says *strings.Builder, r *watched, x func(sim.Time) float64, y float64, shown sim.Span) {
	fmt.Fprintf(b, `<text class="id" x="12" y="%s">writes</text>`+"\n", num(y+17))
	last, named := -10., uint64(0)
	for _, w := range r.writes {
		if !shown.Has(w.at) {
			continue
		}
		at := x(w.at)
		label := w.token != named
		switch w.says {
		case sim.WriteAccepted:
			if at-last >= 1.5 {
				fmt.Fprintf(b, `<rect class="box t%d" x="%s" y="%s" width="1.5" height="15"/>`+"\n", w.token%4, num(at-.75), num(y+6))
				last = at
			}
		case sim.WriteStaleAccepted:
			fmt.Fprintf(b, `<path class="bad" d="M%s %sh12l-6 -12z"/>`+"\n", num(at-6), num(y+20))
		default:
			fmt.Fprintf(b, `<path class="no" d="M%s %sl9 9m0 -9l-9 9"/>`+"\n", num(at-4.5), num(y+9))
			label = true
		}
		if label {
			named = w.token
			fmt.Fprintf(b, `<text class="s" x="%s" y="%s">%d</text>`+"\n", num(at-3), num(y+33), w.token)
			fmt.Fprintf(says, "A write with token %d is %s. ", w.token, w.says)
		}
	}
}

// frame writes the drawing with its title, its words and its key.
func (l lanes) frame(w io.Writer, drawn, says string, bottom float64, leases bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="lanes" viewBox="0 0 %d %s" width="%[1]d" height="%[2]s" style="max-width:100%%;height:auto" role="img" aria-labelledby="%[3]s-t %[3]s-d">`+"\n",
		lanesWide, num(bottom+24), l.name)
	fmt.Fprintf(&b, "<title id=\"%s-t\">%s</title>\n<desc id=\"%[1]s-d\">%[3]s</desc>\n<style>\n%[4]s</style>\n", l.name, html.EscapeString(l.title), html.EscapeString(says), lanesStyle)
	b.WriteString(`<defs><pattern id="ice" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="ice-line" d="M0 0V6"/></pattern>` +
		`<pattern id="both" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="both-line" d="M0 0V7"/></pattern></defs>` + "\n")
	fmt.Fprintf(&b, `<text class="h" x="12" y="24">%s</text>`+"\n", html.EscapeString(l.title))
	at := 12.
	key := func(sign string, words string) {
		fmt.Fprintf(&b, sign, num(at))
		fmt.Fprintf(&b, `<text class="s" x="%s" y="43">%s</text>`+"\n", num(at+24), words)
		at += 38 + 6*float64(len(words))
	}
	key(`<rect class="el k" x="%s" y="36.5" width="18" height="7"/>`+"\n", "believes that it leads")
	if leases {
		key(`<rect class="box k pr" x="%s" y="36" width="18" height="8"/>`+"\n", "its lease is valid by its own clock")
	}
	key(`<rect class="box k" x="%s" y="36" width="18" height="8"/>`+"\n", "truly leads")
	if strings.Contains(drawn, `class="both"`) {
		key(`<rect class="both" x="%s" y="34" width="18" height="12"/>`+"\n", "two at once")
	}
	if strings.Contains(drawn, `class="ice"`) {
		key(`<rect class="ice" x="%s" y="34" width="18" height="12"/>`+"\n", "frozen")
	}
	if strings.Contains(drawn, `class="no"`) {
		key(`<path class="no" d="M%s 36m4 0l8 8m0 -8l-8 8"/>`+"\n", "refused")
	}
	b.WriteString(drawn)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// num is a coordinate.
func num(f float64) string { return strconv.FormatFloat(float64(int64(f*10+.5))/10, 'f', -1, 64) }

// tickOf is a round time of which some fit into d.
func tickOf(d time.Duration) time.Duration {
	for _, t := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if d/t <= 8 {
			return t
		}
	}
	return time.Minute
}
