package story

import (
	"bufio"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// teller writes the story while it follows the events.
type teller struct {
	w      *bufio.Writer
	header *trace.Header
	colour bool
	lanes  []*lane
	width  int
	sent   map[uint64]int64 // when a step was that sent something
	asked  map[asked]protocol.Op
	untold int  // events since then
	any    bool // something was told
	// What ended the story.
	violations []*trace.Event
	holders    []string // the elected at the first violation
	hash       string
	terms      int // how often a node became active
	wins       int // how often a node was elected
	// both is for how long two were elected at one time, alive and not frozen, up to the time seen.
	both, seen int64
}

// asked is an operation that a life asked a store for.
type asked struct {
	node   protocol.NodeID
	life   uint64
	number uint64
}

func newTeller(w *bufio.Writer, h *trace.Header, colour bool) *teller {
	t := &teller{
		w: w, header: h, colour: colour, width: 6,
		sent: make(map[uint64]int64), asked: make(map[asked]protocol.Op),
	}
	for _, n := range h.Nodes {
		t.lanes = append(t.lanes, &lane{id: n.ID, up: make(map[uint64]bool)})
		t.width = max(t.width, len(n.ID)+1)
	}
	return t
}

// The colours.
const (
	plain  = ""
	bold   = "1"
	red    = "1;31"
	green  = "32"
	yellow = "33"
	faint  = "2"
)

func (t *teller) paint(colour, text string) string {
	if !t.colour || colour == plain || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (t *teller) line(colour, format string, args ...any) {
	fmt.Fprintln(t.w, t.paint(colour, strings.TrimRight(fmt.Sprintf(format, args...), " ")))
}

func (t *teller) open() {
	text := fmt.Sprintf("%s, %d nodes", t.header.Protocol, len(t.header.Nodes))
	if t.header.Source == trace.Sim {
		text += fmt.Sprintf(", seed %d", t.header.Seed)
	}
	t.line(bold, "%s", text)
	t.line(faint, "%s", legend)
	var ids strings.Builder
	for _, l := range t.lanes {
		fmt.Fprintf(&ids, "%-*s", t.width, l.id)
	}
	t.line(bold, "%12s  %s", "time", ids.String())
}

// event follows an event, and writes it.
func (t *teller) event(e *trace.Event, told bool) {
	at := e.Time(t.header)
	t.overlap(at)
	if t.header.Source != trace.Recorder {
		t.lapses(at, told)
	}
	var l *lane
	for _, it := range t.lanes {
		if it.id == e.Node {
			l = it
		}
	}
	var was protocol.View
	if l != nil {
		was = l.view
		t.follow(l, e, at)
	}
	if e.Kind == trace.Violation {
		t.violated(e, at)
	}
	if e.Kind == trace.End {
		t.hash = e.Hash
	}
	if told {
		t.told(e, l, &was, at)
	} else if e.Kind != trace.End {
		t.untold++
	}
	if e.Kind == trace.Step && e.Input.Kind == protocol.Replied && e.Input.Answer.Status != protocol.StatusEvent {
		delete(t.asked, asked{e.Node, e.Life, e.Input.Answer.Number})
	}
}

func (t *teller) told(e *trace.Event, l *lane, was *protocol.View, at int64) {
	t.gap()
	colour := plain
	switch e.Kind {
	case trace.Violation:
		colour = red
	case trace.Fault, trace.Heal, trace.Down, trace.Freeze, trace.Thaw, trace.Lost:
		colour = yellow
	case trace.Step:
		if e.View.Active != was.Active || e.View.Elected != was.Elected {
			colour = green
		}
	}
	t.row(at, l, colour, t.words(l, was, e, at))
}

// follow brings the lane up to date.
func (t *teller) follow(l *lane, e *trace.Event, at int64) {
	if r := e.Reading(); r != (protocol.Reading{}) {
		l.Sampled(at, r)
	}
	switch e.Kind {
	case trace.Down:
		delete(l.up, e.Life)
		l.frozen = false
		if len(l.up) == 0 {
			l.view = protocol.View{}
		}
	case trace.Freeze, trace.Thaw:
		l.frozen = e.Kind == trace.Freeze
	case trace.State:
		l.up[e.Life], l.view = true, *e.View
	case trace.Step:
		if e.Panic != "" {
			return
		}
		if e.Input.Kind == protocol.Boot {
			l.up[e.Life] = true
		}
		if e.View.Active && (!l.view.Active || l.view.Token != e.View.Token) {
			l.activeSince, l.lapsed = at, false
			t.terms++
		}
		if e.View.Elected && (!l.view.Elected || l.view.Token != e.View.Token) {
			t.wins++
		}
		if e.View.LeaseEnd > l.view.LeaseEnd {
			l.lapsed = false
		}
		l.view = *e.View
		if fx := e.Effects; fx != nil {
			if len(fx.Sends) > 0 {
				t.sent[e.N] = at
			}
			for i := range fx.Asks {
				t.asked[asked{e.Node, e.Life, fx.Asks[i].Number}] = fx.Asks[i].Op
			}
		}
	}
}

// overlap counts the time until at in which two were elected. A recorder knows one
// node only.
func (t *teller) overlap(at int64) {
	n := 0
	for _, l := range t.lanes {
		if len(l.up) > 0 && !l.frozen && l.view.Elected {
			n++
		}
	}
	if n > 1 && at > t.seen {
		t.both += at - t.seen
	}
	t.seen = max(t.seen, at)
}

// lapses writes the ends of leases before at that their holders have not seen since.
func (t *teller) lapses(at int64, told bool) {
	for _, l := range t.lanes {
		end, ends := l.until()
		if !ends || l.lapsed || len(l.up) == 0 || at < end {
			continue
		}
		l.lapsed = true
		if told || t.any {
			t.gap()
			t.row(end, l, green, fmt.Sprintf("%s: its lease has ended (token %d)", l.id, l.view.Token))
		}
	}
}

// gap writes how many events were left out, if they are many.
func (t *teller) gap() {
	if t.untold >= few {
		t.line(faint, "%12s  … %d events", "", t.untold)
	}
	t.untold, t.any = 0, true
}

func (t *teller) row(at int64, l *lane, colour, text string) {
	var cells strings.Builder
	for _, it := range t.lanes {
		cell, paint := it.line(at), plain
		if it == l {
			cell = it.mark(at)
		}
		switch {
		case it.proven(at):
			paint = green
		case it == l:
			paint = bold
		}
		cells.WriteString(t.paint(paint, cell))
		cells.WriteString(strings.Repeat(" ", max(t.width-utf8.RuneCountInString(cell), 1)))
	}
	fmt.Fprintf(t.w, "%12s  %s %s\n", seconds(at), cells.String(), t.paint(colour, text))
}

// violated records the claims at the time of the violation.
func (t *teller) violated(e *trace.Event, at int64) {
	t.violations = append(t.violations, e)
	if len(t.violations) > 1 {
		return
	}
	for _, l := range t.lanes {
		if len(l.up) == 0 || !l.view.Elected {
			continue
		}
		text := fmt.Sprintf("%s is elected with token %d", l.id, l.view.Token)
		if t.terms > 0 {
			text += ", and not active"
		}
		if l.view.Active {
			text = fmt.Sprintf("%s became active at %s with token %d", l.id, seconds(l.activeSince), l.view.Token)
			if end, ends := l.until(); ends && at < end {
				text += ", and is proven until " + seconds(end)
			} else if ends {
				text += ", and was proven until " + seconds(end)
			}
		}
		t.holders = append(t.holders, text)
	}
}

// close writes the result.
func (t *teller) close(whole bool) {
	t.gap()
	fmt.Fprintln(t.w)
	for i, v := range t.violations {
		if i == 0 {
			t.line(red, "Violated at %s: %s", seconds(v.Time(t.header)), v.Invariant)
			t.line(plain, "  %s", of(v))
			for _, text := range t.holders {
				t.line(plain, "  %s", text)
			}
		} else {
			t.line(red, "Then at %s: %s: %s", seconds(v.Time(t.header)), v.Invariant, of(v))
		}
	}
	switch {
	case len(t.violations) > 0 && t.terms == 0 && t.wins > 0:
		t.line(bold, "%s", t.sum())
	case len(t.violations) == 0:
		switch {
		case !whole:
			t.line(yellow, "The trace is defective from here on.")
		case t.hash != "":
			t.line(bold, "Nothing was violated. %s", t.sum())
		default:
			t.line(bold, "The trace has no end; nothing was violated so far. %s", t.sum())
		}
	}
}

// sum says how many terms there were, and without leases for how long two were elected.
func (t *teller) sum() string {
	if t.terms > 0 || t.wins == 0 {
		return fmt.Sprintf("Terms that became active: %d.", t.terms)
	}
	text := fmt.Sprintf("Terms that were elected: %d; none proved a lease.", t.wins)
	if t.both > 0 {
		text += fmt.Sprintf(" Two were elected at one time for %s.", seconds(t.both))
	}
	return text
}
