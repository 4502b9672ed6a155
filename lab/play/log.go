package play

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/story"
)

// Line is a line of the log.
type Line struct {
	Number int             `json:"number"` // from 1
	Event  uint64          `json:"event"`
	At     sim.Time        `json:"at"`
	Node   protocol.NodeID `json:"node,omitempty"`
	Other  protocol.NodeID `json:"other,omitempty"`
	Kind   string          `json:"kind"`
	Turn   bool            `json:"turn,omitempty"`
	Cause  int             `json:"cause,omitempty"` // the number of the line that caused it; 0 is the world
	Letter int             `json:"letter"`          // the number of its letter; -1 is none
	Says   string          `json:"says"`
	// With Whole: the input of the machine, its effects, and its view before and after.
	Input   *protocol.Input   `json:"input,omitempty"`
	Effects *protocol.Effects `json:"effects,omitempty"`
	Was     *protocol.View    `json:"was,omitempty"`
	View    *protocol.View    `json:"view,omitempty"`
}

type logParams struct {
	// From is the number of the line to begin with, from 1; with Event set, it is that of the last
	// line of the event, or of the last event before it that has one.
	From  int     `json:"from"`
	Event *uint64 `json:"event"`
	// Index, if set, is the place of the line to begin with among those that are chosen, from 0.
	Index *int `json:"index"`
	// Back lists that line and those before it, instead of those after it.
	Back  bool `json:"back"`
	Count int  `json:"count"` // of lines; 0 is 100, 500 at most
	// Kinds, Node and Turns choose lines; empty is all. Those of a node are what it did, and what happened to it: of a
	// letter it has the end that is its own.
	Kinds []string        `json:"kinds"`
	Node  protocol.NodeID `json:"node"`
	Turns bool            `json:"turns"`
	Whole bool            `json:"whole"`
	// Numbers chooses the lines by number. Then only Whole counts of the fields above.
	Numbers []int `json:"numbers"`
}

// log lists lines, in the order of their numbers; and says how many there are in all, how many of them are chosen, and
// the place of the first that is listed among these.
func (p *Player) log(a *logParams) (any, error) {
	r := p.run
	if r == nil {
		return nil, errNone
	}
	count := min(cmp.Or(a.Count, 100), 500)
	if a.Count < 0 {
		return nil, fmt.Errorf("count %d; want 1 to 500", a.Count)
	}
	var chosen []int
	first, fit := 0, r.fitting(a)
	if a.Numbers != nil {
		for _, n := range a.Numbers {
			if n < 1 || n > len(r.lines) {
				return nil, fmt.Errorf("line %d; want 1 to %d", n, len(r.lines))
			}
			chosen = append(chosen, n-1)
		}
		chosen = chosen[:min(len(chosen), 500)]
	} else {
		i := a.From - 1
		if a.Event != nil {
			i, _ = slices.BinarySearchFunc(r.lines, *a.Event, func(l line, e uint64) int {
				if l.event <= e {
					return -1
				}
				return 1
			})
			i--
		}
		k, ok := slices.BinarySearch(fit, int32(i))
		if a.Back && !ok {
			k--
		}
		if a.Index != nil {
			if k = *a.Index; k < 0 {
				return nil, fmt.Errorf("index %d; want 0 or more", k)
			}
		}
		from, to := k, k+count
		if a.Back {
			from, to = k+1-count, k+1
		}
		to = max(min(to, len(fit)), 0)
		first = min(max(from, 0), to)
		for _, n := range fit[first:to] {
			chosen = append(chosen, int(n))
		}
	}
	slices.Sort(chosen)
	chosen = slices.Compact(chosen)
	lines, err := r.tell(chosen, a.Whole)
	if err != nil {
		return nil, err
	}
	return map[string]any{"lines": lines, "all": len(r.lines), "fit": len(fit), "first": first}, nil
}

// fitting returns the places of the lines that a chooses. The reader of a log asks for the same ones again and again, and
// the run has only grown since.
func (r *run) fitting(a *logParams) []int32 {
	if of := fmt.Sprint(a.Kinds, a.Node, a.Turns); of != r.fitOf {
		r.fitOf, r.fit, r.fitTo = of, nil, 0
	}
	for ; r.fitTo < len(r.lines); r.fitTo++ {
		if r.wanted(&r.lines[r.fitTo], a) {
			r.fit = append(r.fit, int32(r.fitTo))
		}
	}
	return r.fit
}

func (r *run) wanted(l *line, a *logParams) bool {
	return (len(a.Kinds) == 0 || slices.Contains(a.Kinds, lineKinds[l.kind])) &&
		(a.Node == "" || r.id(int(l.node)) == a.Node) && (!a.Turns || l.turn)
}

// tell repeats the events of the chosen lines, and describes them.
func (r *run) tell(chosen []int, whole bool) ([]Line, error) {
	lines := []Line{}
	for len(chosen) > 0 {
		event := r.lines[chosen[0]].event
		n := 1
		for n < len(chosen) && r.lines[chosen[n]].event == event {
			n++
		}
		of, err := r.repeat(event, chosen[:n], whole)
		if err != nil {
			return nil, err
		}
		lines = append(lines, of...)
		chosen = chosen[n:]
	}
	return lines, nil
}

// repeat repeats one event, to which all chosen lines belong.
func (r *run) repeat(event uint64, chosen []int, whole bool) ([]Line, error) {
	first := chosen[0]
	for first > 0 && r.lines[first-1].event == event {
		first--
	}
	lines := make([]Line, 0, len(chosen))
	views := map[int]protocol.View{}
	t := &teller{run: r, first: first, views: views}
	t.tell = func(i int, l Line, rec *sim.Record, was *protocol.View) {
		if !slices.Contains(chosen, i) {
			return
		}
		if whole && rec.Kind == sim.RecordStep {
			in := *rec.Input
			v, w := *rec.View, *was
			l.Input, l.Effects, l.View, l.Was = &in, copied(rec.Effects), &v, &w
		}
		lines = append(lines, l)
	}
	if r.tape != nil {
		err := r.tape.replay(r, event, t)
		return lines, err
	}
	err := r.history.Replay(event, func(w *sim.World) sim.Tracer {
		for _, n := range w.AppendProcesses(nil) {
			if views[n.Place] = n.View; !n.Up {
				views[n.Place] = protocol.View{Role: protocol.Down}
			}
		}
		t.events, t.err = sim.NewTraceEvents(w)
		return t
	})
	return lines, cmp.Or(err, t.err)
}

func copied(fx *protocol.Effects) *protocol.Effects {
	if fx == nil {
		return nil
	}
	return &protocol.Effects{Orders: slices.Clone(fx.Orders), Saves: slices.Clone(fx.Saves), Sends: slices.Clone(fx.Sends), Asks: slices.Clone(fx.Asks)}
}

// teller describes the records of one event.
type teller struct {
	run    *run
	first  int // the line of its first record
	events *sim.TraceEvents
	views  map[int]protocol.View // by place, before the event
	tell   func(i int, l Line, rec *sim.Record, was *protocol.View)
	err    error
}

// Event implements [sim.Tracer].
func (t *teller) Event(w *sim.World, rec *sim.Record) {
	i := t.first + int(rec.Number) - 1
	if t.err != nil || i >= len(t.run.lines) {
		return
	}
	var e trace.Event
	var ok bool
	if ok, t.err = t.events.Event(w, rec, &e); !ok {
		t.says(i, rec, nil)
	} else {
		t.says(i, rec, &e)
	}
}

// says puts the record of a line into words; e is its event, if it is one of a trace.
func (t *teller) says(i int, rec *sim.Record, e *trace.Event) {
	l := &t.run.lines[i]
	line := Line{
		Number: i + 1, Event: l.event, At: l.at, Node: rec.Node, Other: t.run.id(int(l.other)), Kind: lineKinds[l.kind], Turn: l.turn,
		Cause: int(l.cause), Letter: int(l.letter),
	}
	if line.Other == "" && rec.Input != nil {
		line.Other = rec.Input.From // the node of another trace
	}
	was := t.views[rec.Index]
	switch {
	case e != nil:
		m := story.Moment{Was: was, Sent: -1}
		if l.letter >= 0 {
			m.Sent, m.Asked = int64(t.run.all[l.letter].sent), t.run.ops[t.run.all[l.letter].kind]
		}
		line.Says = story.Words(e, m)
	case rec.Kind == sim.RecordMake:
		line.Says = fmt.Sprintf("%s starts", rec.Node)
	case rec.Kind == sim.RecordSend:
		line.Says = fmt.Sprintf("%s → %s %s leaves", rec.Node, rec.Peer, story.Message(rec.Message))
	case rec.Kind == sim.RecordDurable:
		line.Says = fmt.Sprintf("%s: a save is on the disk", rec.Node)
	case rec.Kind == sim.RecordWrite:
		line.Says = fmt.Sprintf("the write of %s with token %d is %s", rec.Node, rec.Count, rec.Says)
	case rec.Kind == sim.RecordEnd:
		line.Says = "the end of the run"
	}
	if rec.Kind == sim.RecordStep {
		t.views[rec.Index] = *rec.View
	}
	t.tell(i, line, rec, &was)
}

type causeParams struct {
	Line int `json:"line"`
	Most int `json:"most"` // in each direction; 0 is 200
}

// cause returns the causal cone of a line: the numbers of the lines that led to it, and of those to
// which it led.
func (p *Player) cause(a *causeParams) (any, error) {
	r := p.run
	if r == nil {
		return nil, errNone
	}
	if a.Line < 1 || a.Line > len(r.lines) {
		return nil, fmt.Errorf("line %d; want 1 to %d", a.Line, len(r.lines))
	}
	most := cmp.Or(a.Most, 200)
	past, future := []int{}, []int{}
	for n := a.Line; len(past) < most; past = append(past, n) {
		l := &r.lines[n-1]
		if n = int(l.cause); l.letter >= 0 && l.kind != lineSend && r.all[l.letter].left > 0 {
			n = int(r.all[l.letter].left) // what arrived has left, and that came of the step
		}
		if n == 0 {
			break
		}
	}
	slices.Reverse(past)
	of, letter := map[int]bool{a.Line: true}, int32(-1)
	if l := &r.lines[a.Line-1]; l.kind == lineSend {
		letter = l.letter
	}
	for i := a.Line; i < len(r.lines) && len(future) < most; i++ {
		if l := &r.lines[i]; of[int(l.cause)] || letter >= 0 && l.letter == letter {
			of[i+1] = true
			future = append(future, i+1)
		}
	}
	return map[string][]int{"past": past, "future": future}, nil
}
