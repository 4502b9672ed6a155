package play

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
	"github.com/electd/elect/lab/sim/scenario"
)

// call calls, and fails the test on an error.
func call[R any](t testing.TB, p *Player, method string, params any) (r R) {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := p.Call(method, text)
	if err != nil {
		t.Fatalf("%s %s: %v", method, text, err)
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return r
}

// whole opens a world, and grows it to its end.
func whole(t testing.TB, p *Player, w *World) *Overview {
	t.Helper()
	o := call[*Overview](t, p, "open", w)
	for !o.Over {
		o = call[*Overview](t, p, "grow", growParams{})
	}
	return o
}

// hashOf is the hash of a schedule's run, without a Player.
func hashOf(t *testing.T, name string, s *sim.Schedule) string {
	t.Helper()
	p, _ := protocols.ByName(name)
	w, err := sim.New(p, s)
	if err != nil {
		t.Fatal(err)
	}
	w.Run()
	return fmt.Sprintf("%016x", w.Hash())
}

// The page shows what the simulator says.
func TestSameRun(t *testing.T) {
	for _, p := range protocols.All() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			w := &World{Protocol: p.Name, Profile: "swarm", Seed: 7, Nodes: 5, Seconds: 20}
			_, s, err := w.schedule()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := whole(t, New(), w).Hash, hashOf(t, p.Name, s); got != want {
				t.Errorf("the run of the player has the hash %s, that of the schedule %s", got, want)
			}
		})
	}
}

// What a hand does is what the same operation in the schedule does, and the past does not change.
func TestHands(t *testing.T) {
	p := New()
	before := whole(t, p, &World{Protocol: "quorum", Seconds: 20})
	const event = 2000
	was := call[*State](t, p, "state", map[string]any{"event": event})
	for _, op := range []sim.Op{
		{Kind: sim.OpKill, Node: sim.Leader, For: 2e9}, {Kind: sim.OpPause, Node: "n2", For: 1e9},
		{Kind: sim.OpIsolate, Node: "n3", For: 3e9}, {Kind: sim.OpStep, Node: "n1", By: 5e9},
	} {
		o := call[*Overview](t, p, "do", doParams{Event: event, Op: op})
		for !o.Over {
			o = call[*Overview](t, p, "grow", growParams{})
		}
		if o.Hash == before.Hash {
			t.Errorf("%s changed nothing", &op)
		}
		if got := hashOf(t, "quorum", p.run.schedule); got != o.Hash {
			t.Errorf("%s by hand has the hash %s, in the schedule %s", &op, o.Hash, got)
		}
		is, _ := json.Marshal(call[*State](t, p, "state", map[string]any{"event": event}).Nodes)
		if want, _ := json.Marshal(was.Nodes); string(is) != string(want) {
			t.Errorf("%s changed what had happened before:\n%s\nwas\n%s", &op, is, want)
		}
		if n := len(o.Marks); n == 0 || o.Marks[n-1].Hand < 0 {
			t.Errorf("%s is not among the marks as a hand: %+v", &op, o.Marks)
		}
	}
	o := call[*Overview](t, p, "do", doParams{Event: event, Op: sim.Op{Kind: sim.OpKill, Node: "n1"}})
	for len(o.World.Hands) > 0 {
		o = call[*Overview](t, p, "drop", dropParams{Hand: 0, Event: event})
	}
	for !o.Over {
		o = call[*Overview](t, p, "grow", growParams{})
	}
	if o.Hash != before.Hash {
		t.Errorf("after all hands were taken back the hash is %s; want %s", o.Hash, before.Hash)
	}
}

// Any event is reached from any other, and the same.
func TestSteps(t *testing.T) {
	p := New()
	o := whole(t, p, &World{Protocol: "raft", Profile: "swarm", Seed: 3, Seconds: 10})
	seen := map[uint64]string{}
	look := func(event uint64) string {
		text, _ := json.Marshal(call[*State](t, p, "state", map[string]any{"event": event}))
		return string(text)
	}
	for e := uint64(0); e <= o.Events; e += 97 {
		seen[e] = look(e)
	}
	for e := o.Events / 97 * 97; ; e -= 97 {
		if look(e) != seen[e] {
			t.Fatalf("event %d looks different backwards", e)
		}
		if e == 0 {
			break
		}
	}
}

// Each line of the log is told from a repetition, and is the one that was recorded.
func TestLog(t *testing.T) {
	type page struct {
		Lines []Line `json:"lines"`
		All   int    `json:"all"`
	}
	for _, w := range []*World{
		{Protocol: "quorum", Scenario: "crash"}, {Protocol: "queue", Profile: "swarm", Seed: 5, Seconds: 30},
		{Protocol: "bully", Profile: "swarm", Seed: 5, Seconds: 10},
	} {
		p := New()
		o := whole(t, p, w)
		from := 1
		for from <= o.Lines && from < 5000 {
			l := call[page](t, p, "log", logParams{From: from, Count: 500})
			for i, line := range l.Lines {
				if line.Number != from+i || line.Says == "" {
					t.Fatalf("%s: line %d is %+v", w.Protocol, from+i, line)
				}
				if line.Kind == "receive" && !strings.Contains(line.Says, "→ "+string(line.Node)) {
					t.Fatalf("%s: line %d is a receipt of %s, and says %q", w.Protocol, line.Number, line.Node, line.Says)
				}
				if line.Cause >= line.Number {
					t.Fatalf("%s: line %d has the cause %d", w.Protocol, line.Number, line.Cause)
				}
			}
			from += len(l.Lines)
		}
		turns := call[page](t, p, "log", logParams{From: 1, Count: 500, Turns: true, Whole: true})
		if len(turns.Lines) == 0 {
			t.Errorf("%s: no turns", w.Protocol)
		}
	}
}

// A freeze beyond the lease shows in the lanes: the old leader believes, and cannot prove.
func TestLanes(t *testing.T) {
	o := whole(t, New(), &World{Protocol: "lease", Scenario: "gc-pause"})
	if len(o.Lanes) < 2 {
		t.Fatalf("%d tenures; want two at least", len(o.Lanes))
	}
	a, b := o.Lanes[len(o.Lanes)-2], o.Lanes[len(o.Lanes)-1]
	if a.Believes.Until <= b.Believes.From {
		t.Errorf("the first believes until %s, the second from %s: there is no zombie", a.Believes.Until, b.Believes.From)
	}
	if len(a.Proven) == 0 || a.Proven[len(a.Proven)-1].Until > b.Proven[0].From {
		t.Errorf("the proofs overlap: %v, %v", a.Proven, b.Proven)
	}
	refused := 0
	for _, w := range o.Writes {
		if w.Stale && !w.OK {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no write with an old token was refused")
	}
	split := whole(t, New(), &World{Protocol: "bully", Scenario: "minority-leader"})
	if len(split.Both) == 0 {
		t.Error("two bullies on two sides of a cut; want both at once in the lanes")
	}
}

// An operation that is over at once has no length; others have theirs.
func TestMarks(t *testing.T) {
	for _, w := range []*World{
		{Protocol: "quorum", Seconds: 20, Hands: []sim.Op{
			{Kind: sim.OpStep, Node: "n2", At: 0, By: 1e9},
			{Kind: sim.OpKill, Node: "n3", At: 1e9, For: 2e9}, {Kind: sim.OpResign, Node: sim.Leader, At: 5e9}, {Kind: sim.OpTransfer, Node: sim.Leader, At: 7e9},
			{Kind: sim.OpConfirm, Node: sim.Leader, At: 8e9}, {Kind: sim.OpReset, Node: "n1", Peer: "n2", At: 9e9},
			{Kind: sim.OpReplay, Node: "n1", Peer: "n2", Count: 3, At: 9e9}, {Kind: sim.OpDrop, Node: "n1", Peer: "n2", Count: 3, At: 9e9},
			{Kind: sim.OpFlip, Node: "n1", At: 10e9}, {Kind: sim.OpRate, Node: "n1", Value: 100, At: 11e9},
		}},
		{Protocol: "lease", Seconds: 20, Hands: []sim.Op{{Kind: sim.OpStoreElect, At: 5e9}, {Kind: sim.OpStoreDown, At: 6e9, For: 2e9}}},
	} {
		o := whole(t, New(), w)
		if len(o.Marks) != len(w.Hands) {
			t.Errorf("%d marks; want one for each of %d operations: %+v", len(o.Marks), len(w.Hands), o.Marks)
			continue
		}
		for i, m := range o.Marks {
			want := max(m.From, 1)
			switch op := &o.Ops[m.Op]; {
			case op.For > 0:
				want = m.From + sim.Time(op.For)
			case op.Kind == sim.OpRate:
				want = o.At
			}
			if m.Until != want {
				t.Errorf("mark %d: %+v; want it until %s", i, m, want)
			}
		}
	}
}

// What a clock showed at the beginning is no error of it.
func TestClocks(t *testing.T) {
	w := &World{Protocol: "quorum", Profile: "swarm", Seed: 11, Seconds: 10}
	r, err := begin(w)
	if err != nil {
		t.Fatal(err)
	}
	if zero := r.schedule.Clocks[0].Zero; zero < time.Minute {
		t.Fatalf("the clock of n1 begins at %s; want a world in which it is far from 0", zero)
	}
	run, tape := New(), New()
	call[*Overview](t, run, "open", w)
	call[*Overview](t, run, "do", doParams{Event: 0, Op: sim.Op{Kind: sim.OpStep, Node: "n2", By: 5e9}})
	call[*Overview](t, run, "grow", growParams{Events: 100})
	w.Hands = []sim.Op{{Kind: sim.OpStep, Node: "n2", At: 1, By: 5e9}}
	call[*Overview](t, tape, "trace", traceParams{Text: recorded(t, w)})
	for name, p := range map[string]*Player{"run": run, "trace": tape} {
		for _, n := range call[*State](t, p, "state", map[string]any{"event": 100}).Nodes {
			want := time.Duration(0)
			if n.ID == "n2" {
				want = 5 * time.Second
			}
			if n.Up && (n.Clock-want).Abs() > 100*time.Millisecond {
				t.Errorf("in the %s the clock of %s is %s ahead; want about %s", name, n.ID, n.Clock, want)
			}
		}
	}
}

// An invariant that fails is known while the run grows.
func TestFailsBeforeTheEnd(t *testing.T) {
	p := New()
	o := call[*Overview](t, p, "open", &World{Protocol: "bully", Scenario: "minority-leader"})
	failed := func() (all []sim.Invariant) {
		for _, i := range o.Invariants {
			if i.Failed != nil {
				all = append(all, i.Name)
			}
		}
		return all
	}
	for !o.Over && len(failed()) == 0 {
		if o.Result != nil || o.Hash != "" {
			t.Fatalf("it grows, and has the result %+v and the hash %q", o.Result, o.Hash)
		}
		o = call[*Overview](t, p, "grow", growParams{Events: 50})
	}
	if o.Over || len(failed()) == 0 {
		t.Errorf("%v failed, over: %t; want a failure before the end", failed(), o.Over)
	}
}

// Every scenario of every protocol can be opened and looked at.
func TestScenarios(t *testing.T) {
	for _, s := range scenario.All() {
		for _, name := range s.Protocols() {
			o := call[*Overview](t, New(), "open", &World{Protocol: name, Scenario: s.Name})
			if len(o.Nodes) == 0 || o.Until == 0 {
				t.Errorf("%s %s: %+v", s.Name, name, o)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	open := New()
	call[*Overview](t, open, "open", &World{Protocol: "quorum", Seconds: 1})
	for name, c := range map[string]struct {
		p              *Player
		method, params string
		want           string
	}{
		"method":         {New(), "fly", "", `method "fly"; want catalogue`},
		"field":          {New(), "open", `{"protokol": "raft"}`, `unknown field "protokol"`},
		"two values":     {New(), "open", `{} {}`, "more than one value"},
		"no world":       {New(), "state", `{"event": 1}`, "call open first"},
		"protocol":       {New(), "open", `{"protocol": "paxos"}`, `protocol "paxos"; want quorum`},
		"scenario":       {New(), "open", `{"protocol": "raft", "scenario": "x"}`, `scenario "x"; want`},
		"does not apply": {New(), "open", `{"protocol": "raft", "scenario": "gc-pause"}`, "does not apply"},
		"both":           {New(), "open", `{"protocol": "raft", "scenario": "crash", "profile": "swarm"}`, "more than one of"},
		"nodes":          {New(), "open", `{"protocol": "raft", "nodes": 99}`, "nodes 99; want"},
		"seconds":        {New(), "open", `{"protocol": "raft", "seconds": -1}`, "seconds -1; want"},
		"profile":        {New(), "open", `{"protocol": "raft", "profile": "x"}`, "profile"},
		"schedule":       {New(), "open", `{"protocol": "raft", "schedule": {"format": 2, "protocol": "quorum"}}`, "format: 2; want 1"},
		"event":          {open, "state", `{"event": 99999999}`, "event 99999999; want 0 to"},
		"no moment":      {open, "state", `{}`, "want event or time"},
		"op":             {open, "do", `{"event": 0, "op": {"kind": "sing"}}`, "sing"},
		"node":           {open, "do", `{"event": 0, "op": {"kind": "kill", "node": "n99"}}`, "n99"},
		"hand":           {open, "drop", `{"hand": 1}`, "hand 1; want"},
		"line":           {open, "cause", `{"line": 0}`, "line 0; want 1 to"},
		"count":          {open, "log", `{"count": -1}`, "count -1; want"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.p.Call(c.method, []byte(c.params))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v; want %q in it", c.method, c.params, err, c.want)
			}
		})
	}
	if o := call[*Overview](t, open, "grow", growParams{Events: 1}); o.Protocol != "quorum" {
		t.Error("an error lost the world")
	}
}

func BenchmarkGrow(b *testing.B) {
	var events uint64
	for b.Loop() {
		events += whole(b, New(), &World{Protocol: "quorum", Profile: "swarm", Seconds: 60}).Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// A schedule of somebody else is refused before anything reads it, and so is a comparison that would not end.
func TestRefusedComparisons(t *testing.T) {
	_, s, err := (&World{Protocol: "raft", Profile: "swarm", Seed: 7}).schedule()
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*sim.Schedule)) *sim.Schedule {
		c := *s
		change(&c)
		return &c
	}
	negative := changed(func(s *sim.Schedule) { s.Nodes = -1 })
	for _, c := range []struct {
		method string
		params any
		says   string
	}{
		{"open", &World{Protocol: "quorum", Schedule: negative}, "nodes: -1; want 1 to"},
		{"open", &World{Protocol: "raft", Schedule: negative}, "nodes: -1; want 1 to"},
		{"open", &World{Protocol: "quorum", Schedule: changed(func(s *sim.Schedule) { s.Protocol = "nobody" })}, `protocol: "nobody"; want some of`},
		{"compare", compareParams{Protocols: []string{"quorum"}, Schedule: negative}, "nodes: -1; want 1 to"},
		{"compare", compareParams{Protocols: []string{"quorum"}, Nodes: -1}, "-1 nodes"},
		{"compare", compareParams{Protocols: []string{"quorum", "raft"}, Seeds: 5001}, "want 5000 at most: 10000 runs"},
		{"compare", compareParams{Seeds: 1 << 60}, "want 1250 at most: 10000 runs"},
		{"compare", compareParams{Seeds: 1, Seconds: 1e12}, "want 0 to 86400"},
		{"compare", compareParams{Protocols: make([]string, MaxRuns+1)}, "protocol"},
	} {
		text, err := json.Marshal(c.params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New().Call(c.method, text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %.100s: %v; want an error with %q", c.method, text, err, c.says)
		}
	}
}

// Of 15 participants nine vote, and a store's are all candidates; where neither is so, fewer are allowed.
func TestFifteen(t *testing.T) {
	for _, w := range []*World{
		{Protocol: "quorum", Nodes: MaxNodes, Seconds: 5}, {Protocol: "quorum", Nodes: MaxNodes, Profile: "swarm", Seconds: 5},
		{Protocol: "lease", Nodes: MaxNodes, Seconds: 30},
	} {
		o := whole(t, New(), w)
		if len(o.Nodes) < MaxNodes || len(o.Lanes) == 0 {
			t.Errorf("%s %q: %d participants with %d tenures; want %d, and one tenure at least", w.Protocol, w.Profile, len(o.Nodes), len(o.Lanes), MaxNodes)
		}
	}
	if _, err := New().Call("open", []byte(`{"protocol": "raft", "nodes": 15}`)); err == nil || !strings.Contains(err.Error(), "want 1 to 9") {
		t.Errorf("15 nodes of raft: %v; want them refused", err)
	}
}

// BenchmarkStepBack steps back through a run of 100,000 events, as the page does.
func BenchmarkStepBack(b *testing.B) {
	p := New()
	event := whole(b, p, &World{Protocol: "quorum", Seconds: 720}).Events
	if event < 100_000 {
		b.Fatalf("the run has %d events; want 100,000 at least", event)
	}
	var longest time.Duration
	for b.Loop() {
		began := time.Now()
		if event--; event == 0 {
			b.Fatal("there are no events left")
		}
		if _, err := p.Call("state", fmt.Appendf(nil, `{"event": %d}`, event)); err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(began))
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
}
