package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// Trail is the path from a world's beginning to a violation. Files of counterexamples hold one;
// Replay repeats it.
type Trail struct {
	World     World      `json:"world"`
	Beginning int        `json:"beginning,omitzero"` // which of the first states
	Steps     []Step     `json:"steps"`
	Violation *Violation `json:"violation"`
}

// Step is one step of a trail.
type Step struct {
	// Way is the index of the chosen way, in the order of the exploration; with Tick, among the
	// ways of true time.
	Way  int  `json:"way"`
	Tick bool `json:"tick,omitzero"`
	// Node, What and Came are the node, the input, and its effects.
	Node protocol.NodeID `json:"node,omitzero"`
	What string          `json:"what"`
	Came []string        `json:"came,omitempty"`
	// Views are the visible states of the nodes whose state has changed.
	Views []string `json:"views,omitempty"`
}

// trail reconstructs the path from the violation.
func (x *explorer) trail() (*Trail, error) {
	t := &Trail{World: *x.e.w, Violation: x.bad.wrong}
	add := func(way uint16) { t.Steps = append(t.Steps, Step{Way: int(way &^ byTick), Tick: way&byTick != 0}) }
	add(x.bad.ordinal)
	at := x.bad.parent
	for {
		const part = 1 << 16
		parent, way := x.parents[at/part][at%part], x.ways[at/part][at%part]
		if parent == root {
			t.Beginning = int(way)
			break
		}
		add(way)
		at = parent
	}
	slices.Reverse(t.Steps)
	return t, t.play(x.e)
}

// Replay repeats a trail, describes it again, and returns the violation at its end; nil if there is
// none any more.
func (t *Trail) Replay() (*Violation, error) {
	if err := t.World.Validate(); err != nil {
		return nil, err
	}
	e, err := newEngine(&t.World)
	if err != nil {
		return nil, err
	}
	return t.Violation, t.play(e)
}

// play repeats the trail and fills in its descriptions. Violation becomes the one at its end.
func (t *Trail) play(e *engine) error {
	all, wrong := e.first()
	if wrong != nil {
		t.Violation = wrong
		return nil
	}
	if t.Beginning < 0 || t.Beginning >= len(all) {
		return fmt.Errorf("the trail begins with beginning %d of %d: it is not of this build", t.Beginning, len(all))
	}
	s := all[t.Beginning]
	x := &expander{e: e, tell: true}
	t.Violation = nil
	for i := range t.Steps {
		step := &t.Steps[i]
		if step.Tick {
			x.tick(&s)
		} else {
			x.expand(&s)
		}
		if step.Way < 0 || step.Way >= len(x.succ) {
			return fmt.Errorf("step %d of the trail goes way %d of %d: it is not of this build", i+1, step.Way, len(x.succ))
		}
		next := x.succ[step.Way]
		step.tell(e, &s, &next.state, &x.how[step.Way])
		s = next.state
		if t.Violation = next.wrong; next.wrong != nil {
			t.Steps = t.Steps[:i+1]
			return nil
		}
	}
	return nil
}

// tell describes what happened between two states.
func (p *Step) tell(e *engine, from, to *state, how *change) {
	p.Came, p.Views, p.Node = nil, nil, ""
	came := func(format string, args ...any) { p.Came = append(p.Came, fmt.Sprintf(format, args...)) }
	if how.kind != ticked {
		p.Node = id(how.node)
	}
	switch how.kind {
	case arrived, copied:
		l := e.messages.at(how.message)
		p.What = fmt.Sprintf("receives from %s: %s", id(l.from), describe(&l.msg))
		if how.kind == copied {
			p.What += " (and it may come again)"
		}
	case ticked:
		p.What = "a tick passes"
		if rates := e.w.rates(); len(rates) > 1 {
			var by []string
			for i := range e.w.Nodes {
				by = append(by, fmt.Sprintf("%s's clock %d %%", id(i), rates[how.inputs[i]-passes]))
			}
			p.What += ": " + strings.Join(by, ", ")
		}
	default:
		p.What = e.happens(how.input&^atOnce, e.nodes.at(from.node[how.node]))
	}
	if how.out != nil {
		for _, o := range how.out.orders {
			text := strings.ToUpper(o.Kind.String()) + fmt.Sprintf(" token %d", o.Token)
			if o.Reason != "" {
				text += " (" + string(o.Reason) + ")"
			}
			came("%s", text)
		}
		before, after := e.nodes.at(from.node[how.node]), e.nodes.at(to.node[how.node])
		if d, was := e.durable(after.disk), e.durable(before.disk); after.disk != before.disk {
			text := fmt.Sprintf("on disk: term %d", d.Term)
			if d.VotedFor.ID != "" && (d.Term != was.Term || d.VotedFor != was.VotedFor) {
				text += ", vote for " + string(d.VotedFor.ID)
			}
			if after.durable.Version != before.durable.Version {
				text += ", " + members(after.durable)
			}
			came("%s", text)
		}
		if n := len(after.saves); n > len(before.saves) || n > 0 && after.up && !before.up {
			came("begins a save")
		}
		for _, l := range how.out.sends {
			l := e.messages.at(l)
			came("sends to %s: %s", id(l.to), describe(&l.msg))
		}
	}
	lost := make(map[uint32]int)
	for _, l := range from.messages {
		lost[l]++
	}
	if how.out != nil {
		for _, l := range how.out.sends {
			lost[l]++
		}
	}
	if how.kind == arrived {
		lost[how.message]--
	}
	for _, l := range to.messages {
		lost[l]--
	}
	for _, l := range slices.Sorted(mapsKeys(lost)) {
		for n := lost[l]; l != 0 && n > 0; n-- {
			m := e.messages.at(l)
			came("lost: %s to %s: %s", id(m.from), id(m.to), describe(&m.msg))
		}
	}
	for i := range e.w.Nodes {
		a, b := look(e.nodes.at(from.node[i])), look(e.nodes.at(to.node[i]))
		if a != b {
			p.Views = append(p.Views, fmt.Sprintf("%s: %s", id(i), b))
		}
	}
}

func mapsKeys(m map[uint32]int) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// happens describes an input.
func (e *engine) happens(in input, n *node) string {
	switch {
	case in >= crashes && in < passes:
		text := "crashes"
		switch done := int(in - crashes); {
		case len(n.saves) == 0:
		case done == 0:
			text += "; what was being saved is lost"
		case done == len(n.saves):
			text += "; what was being saved is durable"
		default:
			text += fmt.Sprintf("; of %d saves in flight the first %d are durable", len(n.saves), done)
		}
		return text
	case in >= changes:
		return fmt.Sprintf("is told to make the voters %v", e.w.Memberships[in-changes])
	case in >= moves:
		return fmt.Sprintf("is told to transfer to %s", id(int(in-moves)))
	}
	switch in {
	case pauses:
		return "is paused"
	case resumes:
		return "is resumed"
	case fires:
		return "a timer fires"
	case saveDone:
		return "a save is done"
	case allDone:
		return fmt.Sprintf("all %d saves are done", len(n.saves))
	case saveFails:
		return "a save fails"
	case starts:
		return "starts"
	case hinted:
		return fmt.Sprintf("is told that %s has closed its last connection", n.view.Leader.ID)
	case returns:
		return fmt.Sprintf("the work of token %d has returned", n.unjoined)
	case resigns:
		return "is told to resign"
	case idles:
		return "its clock goes on until all is over that it waits for"
	case buried:
		return "its keeper says that all its work is dead"
	}
	return fmt.Sprintf("input %d", in)
}

// look describes the visible state of a node, in a line.
func look(n *node) string {
	if !n.up {
		text := "down"
		if n.orphan != protocol.Always {
			text += fmt.Sprintf(", the work of its last life may run for %v", n.orphan)
		}
		return text
	}
	v := &n.view
	text := fmt.Sprintf("%s, term %d", v.Role, v.Term)
	if v.Elected {
		text += fmt.Sprintf(", token %d", v.Token)
		if v.Leader.Term != v.Token {
			text += fmt.Sprintf(" (leads term %d)", v.Leader.Term)
		}
		switch {
		case v.Proven(protocol.Reading{}):
			text += fmt.Sprintf(", active, its lease lasts %v", v.LeaseEnd)
		case v.Active:
			text += ", active, its lease is over"
		case v.NotBefore == protocol.Never:
			text += ", not active yet"
		case v.NotBefore > 0:
			text += fmt.Sprintf(", not active before %v", v.NotBefore)
		}
	} else if v.Leader.ID != "" {
		text += fmt.Sprintf(", follows %s (term %d)", v.Leader.ID, v.Leader.Term)
	}
	if n.paused {
		text += ", paused"
	}
	if n.ms.Version > 1 {
		text += ", " + members(n.ms)
	}
	if n.unjoined != 0 {
		text += fmt.Sprintf(", the work of token %d has not returned", n.unjoined)
	}
	if len(n.saves) > 0 {
		text += fmt.Sprintf(", %d saving", len(n.saves))
	}
	return text
}

// describe describes a message, in a line.
func describe(m *protocol.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", m.Type)
	part := func(format string, args ...any) { fmt.Fprintf(&b, ", "+format, args...) }
	if m.Type == quorum.WitnessRelease {
		part("incarnation %d", m.Echo)
		return b.String()
	}
	part("term %d", m.Term)
	if m.Incarnation > 1 {
		part("incarnation %d", m.Incarnation)
	}
	switch m.Type {
	case quorum.PreVote, quorum.Vote:
		part("round %d", m.Round)
		if m.Reason != "" {
			part("%s", m.Reason)
		}
	case quorum.PreVoteReply, quorum.VoteReply:
		part("round %d", m.Round)
		if m.Granted {
			part("granted")
		} else {
			part("refused: %s", m.Reason)
		}
		if m.Type == quorum.VoteReply && m.Granted {
			part("was in term %d", m.PrevTerm)
		}
	case quorum.Heartbeat:
		part("number %d", m.Seq)
		if m.Promise == 0 {
			part("asks for no promise")
		}
	case quorum.HeartbeatAck:
		part("number %d", m.Seq)
		if !m.Granted {
			part("refused: %s", m.Reason)
		}
	case quorum.Release:
		part("number %d", m.Seq)
	}
	if m.Promise > 0 {
		part("promise %v", m.Promise)
	}
	if m.Residual > 0 {
		part("residual %v", m.Residual)
	}
	return b.String()
}

// Write writes the trail as a transcript.
func (t *Trail) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", t.World.String())
	tick, number := 0, 0
	width := 2
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Tick {
			tick++
			fmt.Fprintf(&b, "--- tick %d: %s\n", tick, strings.TrimPrefix(s.What, "a tick passes: "))
		} else {
			number++
			fmt.Fprintf(&b, "%3d %-*s %s\n", number, width, s.Node, s.What)
		}
		for _, c := range s.Came {
			fmt.Fprintf(&b, "      %*s  %s\n", width, "", c)
		}
		for _, v := range s.Views {
			fmt.Fprintf(&b, "      %*s= %s\n", width, "", v)
		}
	}
	if t.Violation != nil {
		fmt.Fprintf(&b, "\nVIOLATION: %v\n", t.Violation)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String describes the bounds in a few lines.
func (w *World) String() string {
	var b strings.Builder
	many := func(n int, one, more string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, more)
	}
	fmt.Fprintf(&b, "%s: %s", w.Mode, many(w.Nodes, "node", "nodes"))
	if v := w.voters(); v < w.Nodes {
		fmt.Fprintf(&b, " (%s)", many(v, "voter", "voters"))
	}
	if c := w.candidates(); c < w.Nodes {
		fmt.Fprintf(&b, " (%s)", many(c, "candidate", "candidates"))
	}
	fmt.Fprintf(&b, ", terms up to %d, %s in flight, all of which may be lost", w.Terms, many(w.Messages, "message", "messages"))
	for _, x := range []struct {
		n         int
		one, more string
	}{
		{w.Fires, "timer fires", "timers fire"}, {w.Saves, "slow save", "slow saves"}, {w.Waits, "long wait", "long waits"}, {w.Crashes, "crash", "crashes"},
		{w.Duplicates, "duplicate", "duplicates"}, {w.Hints, "hint", "hints"}, {w.Witnesses, "word of a keeper", "words of keepers"},
		{w.Failures, "failed save", "failed saves"}, {w.Resigns, "resignation", "resignations"},
		{w.Transfers, "transfer", "transfers"}, {w.Pauses, "pause", "pauses"}, {w.Changes, "change of the membership", "changes of the membership"},
		{w.Ticks, "tick", "ticks"},
	} {
		if x.n > 0 {
			fmt.Fprintf(&b, ", %s", many(x.n, x.one, x.more))
		}
	}
	if len(w.Rates) > 0 {
		fmt.Fprintf(&b, ", clocks at %v %%", w.Rates)
		if w.Swing {
			b.WriteString(", changing")
		}
	}
	if w.Outlives {
		b.WriteString(", works outlive their process")
	}
	switch w.Begin {
	case Cold:
		b.WriteString("; no node has started")
	case Led:
		b.WriteString("; n1 leads")
	case Apart:
		b.WriteString("; n1 leads, and n2 has not heard of it for long")
	}
	for _, ids := range w.Memberships {
		fmt.Fprintf(&b, "; may become %v", ids)
	}
	if w.Promise > 0 {
		fmt.Fprintf(&b, "; promises of %d heartbeats", w.Promise)
	}
	for i := range w.Nodes {
		if p := w.Promises[id(i)]; p > 0 {
			fmt.Fprintf(&b, "; %s: %d heartbeats", id(i), p)
		}
		if p := w.Priorities[id(i)]; p != 0 {
			fmt.Fprintf(&b, "; %s: priority %d", id(i), p)
		}
	}
	if w.Mutant != "" {
		fmt.Fprintf(&b, "; without a rule: %s", w.Mutant)
	}
	return b.String()
}
