package play

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
)

// recorded is the trace of a world, as electlab sim run --trace writes it.
func recorded(t testing.TB, w *World) string {
	t.Helper()
	r, err := begin(w)
	if err != nil {
		t.Fatal(err)
	}
	world, err := sim.New(r.protocol, r.schedule)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	rec, err := sim.NewRecorder(&b, world, "test")
	if err != nil {
		t.Fatal(err)
	}
	world.Trace(rec)
	world.Run()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// flights are records of participants, each a process of elect run: the leader of three peers, which was killed, and a
// candidate over Redis, whose record begins with the state of its machine.
func flights(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/flight-*.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no flight records: %v", err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(text)
	}
	return all
}

// same compares lists of the run and the trace.
func same[T any](t *testing.T, what string, run, trace []T, equal func(a, b *T) bool) {
	t.Helper()
	if len(run) == 0 {
		t.Errorf("the run has no %s", what)
	}
	for i := range min(len(run), len(trace)) {
		if !equal(&run[i], &trace[i]) {
			t.Errorf("%s: number %d of the run is\n%+v, of the trace\n%+v", what, i, run[i], trace[i])
			return
		}
	}
	if len(run) != len(trace) {
		t.Errorf("the run has %d %s, the trace %d", len(run), what, len(trace))
	}
}

func equal[T comparable](a, b *T) bool { return *a == *b }

// A trace of a run is what the run was, but for what no trace has.
func TestTraceOfARun(t *testing.T) {
	for _, w := range []*World{
		{Protocol: "quorum", Scenario: "crash"},
		// The clock of its leader is slow, and shows the end of a proof during the pause.
		{Protocol: "quorum", Profile: "swarm", Seed: 11, Seconds: 30, Hands: []sim.Op{{Kind: sim.OpPause, Node: sim.Leader, At: 12e9, For: 3e9}}},
		{Protocol: "raft", Profile: "swarm", Seed: 3, Seconds: 15},
		{Protocol: "bully", Scenario: "minority-leader"},
		{Protocol: "lease", Scenario: "gc-pause"},
		{Protocol: "queue", Profile: "swarm", Seed: 5, Seconds: 30},
	} {
		t.Run(w.Protocol+" "+w.Scenario+w.Profile, func(t *testing.T) {
			run, tape := New(), New()
			is := whole(t, run, w)
			got := call[*Overview](t, tape, "trace", traceParams{Text: recorded(t, w)})
			if !got.Over || got.Hash != is.Hash || got.At != is.At || !got.Trace.Whole || got.Trace.Note != "" {
				t.Errorf("the trace ends at %s with the hash %s, %+v; want %s, %s", got.At, got.Hash, got.Trace, is.At, is.Hash)
			}
			if fmt.Sprint(got.Nodes) != fmt.Sprint(is.Nodes) || got.Leases != is.Leases || got.Store != is.Store {
				t.Errorf("the trace is of %+v, the run of %+v", got, is)
			}
			same(t, "lives", is.Lives, got.Lives, equal)
			same(t, "roles", is.Roles, got.Roles, equal)
			// Clocks are followed by their recent rate.
			near := func(a, b []sim.Span) bool {
				return slices.EqualFunc(a, b, func(a, b sim.Span) bool {
					return a.From == b.From && time.Duration(a.Until-b.Until).Abs() <= time.Millisecond
				})
			}
			same(t, "lanes", is.Lanes, got.Lanes, func(a, b *Lane) bool {
				return a.Node == b.Node && a.Place == b.Place && a.Token == b.Token && a.Believes == b.Believes && near(a.Proven, b.Proven) && near(a.True, b.True)
			})
			turns := func(o *Overview) (all []Turn) {
				for _, turn := range o.Turns {
					if turn.Event = 0; turn.Kind != "write" {
						all = append(all, turn)
					}
				}
				return all
			}
			same(t, "turns", turns(is), turns(got), equal)
			if len(is.Marks) > 0 {
				same(t, "marks", is.Marks, got.Marks, func(a, b *Mark) bool {
					c := *a
					c.Hand = -1 // the trace does not say whose they are
					return c == *b
				})
			}
			same(t, "invariants", is.Invariants, got.Invariants, func(a, b *Invariant) bool { return (a.Failed == nil) == (b.Failed == nil) })
			letters := func(p *Player) (all []Letter) {
				all = call[struct{ Letters []Letter }](t, p, "letters", lettersParams{To: is.At + 1, Routine: true, Most: 1 << 20}).Letters
				for i := range all {
					all[i].Sender, all[i].Receiver, all[i].Number = 0, min(all[i].Receiver, 1), 0
				}
				return all
			}
			same(t, "letters", letters(run), letters(tape), equal)
			if !is.Store {
				leave := func(p *Player) (all []string) {
					for _, l := range call[struct{ Lines []Line }](t, p, "log", logParams{From: 1, Count: 500, Kinds: []string{"send"}}).Lines {
						all = append(all, l.Says)
					}
					return all
				}
				same(t, "words of messages that leave", leave(run), leave(tape), equal)
			}

			// The same moments look the same, and are found in both.
			for at := sim.Time(0); at < is.At; at += is.At / 7 {
				a := call[*State](t, run, "state", moment{Time: &at})
				b := call[*State](t, tape, "state", moment{Time: &at})
				same(t, fmt.Sprintf("nodes at %s", at), a.Nodes, b.Nodes, func(a, b *Node) bool {
					return a.ID == b.ID && a.Up == b.Up && a.Frozen == b.Frozen && a.Role == b.Role && a.Term == b.Term && a.Token == b.Token &&
						a.Proven == b.Proven
				})
			}
			left := func(p *Player, o *Overview) (all []time.Duration) {
				for _, turn := range o.Turns {
					if turn.Kind == "leads" {
						nodes := call[*State](t, p, "state", moment{Event: &turn.Event}).Nodes
						all = append(all, nodes[slices.Index(o.Nodes, turn.Node)].Left)
					}
				}
				return all
			}
			if is.Leases {
				same(t, "terms with a lease", left(run, is), left(tape, got), func(a, b *time.Duration) bool { return *a > 0 && (*a-*b).Abs() < time.Millisecond })
			}
			if !slices.ContainsFunc(got.Turns, func(turn Turn) bool { return turn.Kind == "elected" && turn.Event > 0 }) {
				t.Error("the trace has no event with an election")
			}
			told(t, tape, got)
		})
	}
}

// told checks that each line of a trace has its words.
func told(t *testing.T, p *Player, o *Overview) {
	t.Helper()
	seen := uint64(0)
	for from := 1; from <= min(o.Lines, 3000); {
		l := call[struct{ Lines []Line }](t, p, "log", logParams{From: from, Count: 500, Whole: true}).Lines
		for i, line := range l {
			if line.Number != from+i || line.Says == "" || line.Cause >= line.Number || line.Event < seen {
				t.Fatalf("line %d is %+v", from+i, line)
			}
			if line.Kind == "receive" && (line.Other == "" || line.Input == nil || !strings.Contains(line.Says, "→ "+string(line.Node))) {
				t.Fatalf("line %d is a receipt, and says %+v", line.Number, line)
			}
			seen = line.Event
		}
		from += len(l)
	}
	call[map[string][]int](t, p, "cause", causeParams{Line: o.Lines})
}

// The record of a participant opens, with what is known.
func TestFlights(t *testing.T) {
	for name, text := range flights(t) {
		t.Run(name, func(t *testing.T) {
			p := New()
			o := call[*Overview](t, p, "trace", traceParams{Text: text})
			if len(o.Nodes) != 1 || len(o.Lives) == 0 || len(o.Roles) == 0 || o.Trace.Source != trace.Recorder || len(o.Writes)+len(o.Both)+len(o.Invariants) > 0 {
				t.Errorf("%+v", o)
			}
			var unknown []string
			for _, u := range o.Trace.Unknown {
				unknown = append(unknown, u.What)
			}
			if want := "writes links timers nodes letters terms faults clocks"; strings.Join(unknown, " ") != want {
				t.Errorf("it says that %v are unknown; want %s", unknown, want)
			}
			for _, l := range o.Lanes {
				if len(l.Proven) == 0 || l.True != nil {
					t.Errorf("the lane is %+v; want a proof, and not what is true of it", l)
				}
			}
			if len(o.Lanes) == 0 {
				t.Error("its node never led")
			}
			told(t, p, o)
			first := call[*State](t, p, "state", map[string]any{"event": 0})
			if n := first.Nodes[0]; !n.Unknown || n.Up {
				t.Errorf("before its first event it is %+v; want unknown", n)
			}
			last := call[*State](t, p, "state", map[string]any{"event": o.Events})
			if n := last.Nodes[0]; n.Unknown || !n.Up || n.View == nil {
				t.Errorf("at its end it is %+v", n)
			}
			if _, err := p.Call("schedule", nil); err == nil || !strings.Contains(err.Error(), "this trace has no schedule; want") {
				t.Errorf("its schedule: %v", err)
			}
		})
	}
}

// A trace is read up to its defect, and nothing can be done to it.
func TestTraceRefusals(t *testing.T) {
	text := recorded(t, &World{Protocol: "quorum", Seconds: 1})
	lines := strings.SplitAfter(text, "\n")
	torn := strings.SplitAfter(flights(t)["flight-peer.ndjson"], "\n")
	for name, c := range map[string]struct{ text, want, note string }{
		"nothing":   {text: "", want: "line 1: there is nothing; want the header of a trace"},
		"no trace":  {text: "hello", want: "line 1: it is no JSON"},
		"protocol":  {text: strings.Replace(text, `"protocol":"quorum"`, `"protocol":"paxos"`, 1), want: `line 1: field protocol: "paxos"; want quorum, lease`},
		"history":   {text: `{"at":1,"kind":"run","node":-1}` + "\n", want: "this is the history of a run of make chaos, which has no steps of machines; want a flight record"},
		"no event":  {text: lines[0], want: "line 2: there is no event; want one at least"},
		"at once":   {text: lines[0] + "{}\n", want: "line 2: field n: it is missing or 0"},
		"later":     {text: strings.Join(lines[:5], "") + "{}\n" + lines[5], note: "line 6: field n: it is missing or 0"},
		"cut short": {text: strings.Join(lines[:5], "") + lines[5][:40], note: "line 6: it is no JSON"},
		"torn":      {text: strings.Join(torn[:5], "") + torn[5][:40], note: "its last line is cut short, and left out"},
		"too far":   {text: strings.Join(torn[:2], "") + `{"n":999999,"kind":"note","now":{"boot":9223372036854775807,"mono":0}}`, note: "line 3: its time is too far"},
	} {
		t.Run(name, func(t *testing.T) {
			params, _ := json.Marshal(traceParams{Text: c.text})
			p := New()
			answer, err := p.Call("trace", params)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v; want %s", err, c.want)
				}
				return
			}
			var o Overview
			if err != nil || json.Unmarshal(answer, &o) != nil {
				t.Fatalf("%v, %s", err, answer)
			}
			if good := uint64(strings.Count(c.text, "\n") - 1); !strings.Contains(o.Trace.Note, c.note) || o.Trace.Whole || o.Events != min(good, 4) {
				t.Errorf("%d events, %+v; want the note %s", o.Events, o.Trace, c.note)
			}
			told(t, p, &o)
		})
	}
	if _, err := play(strings.Repeat(" ", MaxTrace+1), 10); err == nil || err.Error() != "a trace of 134217729 bytes; want 134217728 at most" {
		t.Errorf("a long one: %v", err)
	}
	r, err := play(text, 10)
	if o := r.overview(); err != nil || o.Events != 10 || !o.Cut || o.Trace.Note != "it has more than 10 events; the others are left out" {
		t.Errorf("of 10 events at most it has %d, %+v, %v", o.Events, o.Trace, err)
	}
	p := New()
	call[*Overview](t, p, "trace", traceParams{Text: text})
	for _, c := range [][2]string{{"grow", ""}, {"do", `{"event": 1, "op": {"kind": "kill", "node": "n1"}}`}, {"drop", `{"hand": 0}`}} {
		if _, err := p.Call(c[0], []byte(c[1])); err != errTrace {
			t.Errorf("%s: %v; want %v", c[0], err, errTrace)
		}
	}
	if _, err := p.Call("state", []byte(`{"event": 99999999}`)); err == nil || !strings.Contains(err.Error(), "event 99999999; want 0 to") {
		t.Errorf("an event that is not there: %v", err)
	}
	// Its schedule is a world.
	s := call[map[string]string](t, p, "schedule", nil)["schedule"]
	call[*Overview](t, p, "open", map[string]any{"protocol": "quorum", "schedule": json.RawMessage(s)})
}

// Whatever a trace is, each call has an answer.
func FuzzTrace(f *testing.F) {
	add := func(text string) {
		lines := strings.SplitAfter(text, "\n")
		f.Add(strings.Join(lines[:min(len(lines), 8)], ""))
	}
	for _, text := range flights(f) {
		add(text)
	}
	add(recorded(f, &World{Protocol: "queue", Seconds: 1, Nodes: 2}))
	const head = `{"format":1,"protocol":"lease","source":"chaos","nodes":[{"id":"a"}]}` + "\n"
	const step = `{"n":%d,"node":"a","life":%d,"kind":"step","input":{"kind":"boot","now":{"boot":5,"mono":5}},"effects":{"sends":[{"to":"a","after":1,"message":{"type":"x"}}]},"view":{"role":"leader","elected":true,"active":true,"token":3,"lease_end":90}}` + "\n"
	f.Add(head + fmt.Sprintf(step, 1, 1) + fmt.Sprintf(step, 2, 2) + fmt.Sprintf(step, 3, 1) + `{"n":4,"node":"a","life":7,"kind":"down"}`)
	f.Add(head + `{"n":1,"kind":"fault","says":"kill a"}` + "\n" + `{"n":2,"node":"a","kind":"lost","send":{"to":"b","message":{"type":"x"}}}` + "\n" + `{"n":3,"node":"a","kind":"thaw"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := play(text, 1000)
		if err != nil {
			return
		}
		p := New()
		p.run = r
		o := r.overview()
		for event := range o.Events + 1 {
			if s, err := p.state(&moment{Event: &event}); err != nil || len(s.(*State).Nodes) != len(o.Nodes) {
				t.Fatalf("event %d: %v", event, err)
			}
		}
		for from := 1; from <= o.Lines; from += 500 {
			if _, err := p.log(&logParams{From: from, Count: 500, Whole: true}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.letters(&lettersParams{To: o.At + 1, Routine: true}); err != nil {
			t.Fatal(err)
		}
		for _, l := range o.Lanes {
			if l.Believes.Length() < 0 || l.Believes.Until > o.At {
				t.Fatalf("the lane %+v is not within 0 and %s", l, o.At)
			}
		}
	})
}
