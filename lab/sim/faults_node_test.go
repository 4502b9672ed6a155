package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// boots are the times at which a participant's incarnations begin.
func (d *diary) boots(node protocol.NodeID) (all []Time) {
	for _, l := range d.steps(node, protocol.Boot) {
		all = append(all, l.at)
	}
	return all
}

// incarnation is the incarnation in a line's durable state.
func incarnationOf(t *testing.T, data []byte) uint64 {
	t.Helper()
	if len(data) == 0 {
		return 0
	}
	k, err := pulses().Incarnation(data)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func wantTimes(t *testing.T, what string, got []Time, want ...float64) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range got {
		ok = ok && got[i] == at(want[i])
	}
	if !ok {
		t.Errorf("%s at %v, want %v ms", what, got, want)
	}
}

// A dead participant is silent while it is down, and returns with its disk. The others notice at
// once only those that are killed.
func TestDeaths(t *testing.T) {
	for _, c := range []struct {
		kind   OpKind
		span   time.Duration
		back   []float64
		closed bool
	}{
		{OpKill, 10 * time.Millisecond, []float64{0, 30.5}, true},
		{OpKill, 0, []float64{0}, true},
		{OpPowerLoss, 10 * time.Millisecond, []float64{0, 30.5}, false},
		{OpLoseWrites, 10 * time.Millisecond, []float64{0, 30.5}, false},
		{OpReboot, 10 * time.Millisecond, []float64{0, 30.5}, false},
		{OpWitness, 10 * time.Millisecond, []float64{0, 30.5}, true},
		{OpWipe, 10 * time.Millisecond, []float64{0, 30.5}, true},
		{OpRestore, 10 * time.Millisecond, []float64{0, 30.5}, false},
	} {
		t.Run(fmt.Sprint(c.kind, c.span), func(t *testing.T) {
			d := live(t, still(3, Op{At: at(20.5), Kind: c.kind, Node: "n2", For: c.span, By: 5 * time.Millisecond}))
			wantTimes(t, "n2 starts", d.boots("n2"), c.back...)
			d.hears(at(20.7), at(30.5), func(a, b int) bool { return a != 1 && b != 1 })
			if len(c.back) > 1 {
				d.hears(at(32.5), at(60), everybody)
			}
			for _, id := range []protocol.NodeID{"n1", "n3"} {
				got := d.steps(id, protocol.PeerClosed)
				if c.closed != (len(got) == 1) || c.closed && (got[0].from != "n2" || got[0].at != at(20.6) || got[0].closed != 1) {
					t.Errorf("%s is told %v of a closed connection", id, got)
				}
			}
			if len(c.back) < 2 {
				return
			}
			want := uint64(1)
			if c.kind == OpWipe {
				want = 0
			}
			if got := incarnationOf(t, d.steps("n2", protocol.Boot)[1].durable); got != want {
				t.Errorf("its disk says incarnation %d, want %d", got, want)
			}
		})
	}
}

// An operation on a participant that is down does nothing, and one that starts again does not start
// twice.
func TestDownIsDown(t *testing.T) {
	d := live(t, still(2,
		Op{At: at(20), Kind: OpKill, Node: "n2", For: 30 * time.Millisecond},
		Op{At: at(25), Kind: OpKill, Node: "n2", For: 5 * time.Millisecond},
		Op{At: at(26), Kind: OpPause, Node: "n2", For: 50 * time.Millisecond},
		Op{At: at(27), Kind: OpReboot, Node: "n2", For: time.Millisecond},
		Op{At: at(28), Kind: OpWithdraw, Node: "n2", For: 40 * time.Millisecond},
		Op{At: at(29), Kind: OpSicken, Node: "n2", For: 40 * time.Millisecond},
		Op{At: at(30), Kind: OpSuspend, Node: "n2", For: 40 * time.Millisecond},
		Op{At: at(60), Kind: OpKill, Node: "n2", For: 20 * time.Millisecond},
	))
	wantTimes(t, "n2 starts", d.boots("n2"), 0, 50, 80)
	for _, l := range d.steps("n2", protocol.Do) {
		if l.verb != protocol.Campaign {
			t.Errorf("%v: %v", l, l.verb)
		}
	}
}

// The close of a connection is not noticed across a cut.
func TestCutIsNotClosed(t *testing.T) {
	d := live(t, still(3, between(Op{Kind: OpHalfOpen, Node: "n2", Peer: "n1"}), Op{At: at(25), Kind: OpKill, Node: "n2"}))
	if n := len(d.steps("n1", protocol.PeerClosed)); n != 0 {
		t.Error("n1 is told across a cut link")
	}
	if n := len(d.steps("n3", protocol.PeerClosed)); n != 1 {
		t.Error("n3 is not told")
	}
	// Without a connection, nothing is closed.
	d = live(t, still(2, Op{Kind: OpIsolate, Node: "n2", For: at2d(19.5)}, Op{At: at(19.7), Kind: OpKill, Node: "n2"}))
	if got := d.steps("n1", protocol.PeerClosed); len(got) != 0 {
		t.Errorf("n1 is told %v", got)
	}
}

// The close of a connection comes after its last messages, and never for an unknown incarnation.
func TestClosedComesLast(t *testing.T) {
	s := still(2, Op{At: at(20.05), Kind: OpKill, Node: "n2", For: at2d(0.1)}, Op{At: at(20.2), Kind: OpKill, Node: "n2"})
	s.Links.Delay = 5 * time.Millisecond
	d := live(t, s)
	closed := d.steps("n1", protocol.PeerClosed)
	if len(closed) != 1 {
		t.Fatalf("n1 is told %v", closed)
	}
	heard := d.heard("n2", "n1", 0, never)
	if last := heard[len(heard)-1]; last.record > closed[0].record || closed[0].at != at(25.05) {
		t.Errorf("%v comes after %v", last, closed[0])
	}
}

func at2d(millis float64) time.Duration { return time.Duration(at(millis)) }

func TestCrashLoopAndRoll(t *testing.T) {
	d := live(t, still(3, Op{At: at(20), Kind: OpCrashLoop, Node: "n2", Every: 10 * time.Millisecond, For: 35 * time.Millisecond}))
	wantTimes(t, "n2 starts", d.boots("n2"), 0, 25, 35, 45, 55)
	d = live(t, still(3, Op{At: at(20), Kind: OpRoll, Every: 10 * time.Millisecond}))
	for i, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		wantTimes(t, string(id)+" starts", d.boots(id), 0, 25+10*float64(i))
	}
}

// A witness's word comes under the name of the dead participant, to all others, and with the dead
// incarnation.
func TestWitness(t *testing.T) {
	d := live(t, still(3, Op{At: at(20.5), Kind: OpWitness, Node: "n2"}))
	for _, id := range []protocol.NodeID{"n1", "n3"} {
		got := d.all(func(l *line) bool { return l.kind == RecordStep && l.node == id && l.message.Type == "death" })
		if len(got) != 1 || got[0].from != "n2" || got[0].message.Echo != 1 || got[0].message.Dir != d.w.nodes[1].self.Dir || got[0].at != at(20.6) {
			t.Errorf("%s hears %v", id, got)
		}
	}
	// Before its incarnation is durable, no other knows it.
	d = live(t, still(3, Op{At: at(0.1), Kind: OpWitness, Node: "n2"}))
	if got := d.all(func(l *line) bool { return l.message.Type == "death" }); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// While a process is stopped its clocks run, and messages wait; when it resumes it receives all of
// them before it looks at its timer.
func TestPause(t *testing.T) {
	d := live(t, still(2, Op{At: at(20.5), Kind: OpPause, Node: "n2", For: 10 * time.Millisecond}))
	during := d.all(func(l *line) bool {
		return l.kind == RecordStep && l.node == "n2" && l.at > at(20.5) && l.at < at(30.5)
	})
	if len(during) != 0 {
		t.Errorf("n2 runs: %v", during)
	}
	after := d.all(func(l *line) bool { return l.kind == RecordStep && l.node == "n2" && l.at == at(30.5) })
	if len(after) != 11 {
		t.Fatalf("%d inputs when it runs again, want 10 messages and a Fire: %v", len(after), after)
	}
	for i, l := range after {
		if i < 10 && (l.input != protocol.Receive || l.message.Seq != uint64(21+i)) || i == 10 && l.input != protocol.Fire || l.reading.Boot != protocol.Instant(at(30.5)) {
			t.Errorf("input %d is %v, with the clock at %v", i, l, l.reading.Boot)
		}
	}
	// Two overlapping pauses last as long as the longer one; a process that is killed while it is
	// stopped loses what waits.
	d = live(t, still(2,
		Op{At: at(20), Kind: OpPause, Node: "n2", For: 20 * time.Millisecond},
		Op{At: at(25), Kind: OpPause, Node: "n2", For: 5 * time.Millisecond},
		Op{At: at(60), Kind: OpPause, Node: "n2", For: 20 * time.Millisecond},
		Op{At: at(70), Kind: OpKill, Node: "n2", For: 5 * time.Millisecond}))
	if thaws := d.all(func(l *line) bool { return l.kind == RecordThaw }); len(thaws) != 1 || thaws[0].at != at(40) {
		t.Errorf("it runs again at %v, want 40ms", thaws)
	}
	if got := d.heard("n1", "n2", at(60.2), at(75.05)); len(got) != 0 {
		t.Errorf("the next life hears what the last was sent: %v", got)
	}
}

// Messages that had arrived when a process was stopped are not lost by later faults of the link;
// messages that arrive while the link is cut are.
func TestPausedBehindACut(t *testing.T) {
	d := live(t, still(2,
		Op{At: at(20.5), Kind: OpPause, Node: "n2", For: 20 * time.Millisecond},
		Op{At: at(25.5), Kind: OpIsolate, Node: "n1", For: 30 * time.Millisecond}))
	var seqs []uint64
	for _, l := range d.heard("n1", "n2", at(20.5), at(55)) {
		seqs = append(seqs, l.message.Seq)
	}
	if !slices.Equal(seqs, []uint64{21, 22, 23, 24, 25}) {
		t.Errorf("it hears %v, want 21 to 25", seqs)
	}
}

// A pause before sending holds back all effects of one step.
func TestPauseSend(t *testing.T) {
	d := live(t, still(2, Op{At: at(20.5), Kind: OpPauseSend, Node: "n1", For: 10 * time.Millisecond}))
	steps := d.all(func(l *line) bool { return l.kind == RecordStep && l.node == "n1" && l.sends > 0 && l.message.Seq == 0 })
	if steps[20].at != at(21) {
		t.Fatalf("the step that is kept back is at %s, want 21ms", steps[20].at)
	}
	for _, l := range d.heard("n1", "n2", 0, never) {
		if l.message.Seq == 21 {
			if l.at != at(31.1) {
				t.Errorf("its message arrives at %s, want 31.1ms", l.at)
			}
			return
		}
	}
	t.Error("its message never arrives")
}

// While a computer sleeps, one clock runs and the other does not.
func TestSuspend(t *testing.T) {
	d := live(t, still(2, Op{At: at(20.5), Kind: OpSuspend, Node: "n2", For: 10 * time.Millisecond}))
	got := d.all(func(l *line) bool { return l.kind == RecordStep && l.node == "n2" && l.at > at(20.5) })
	if got[0].at != at(30.5) || got[0].reading.Boot != protocol.Instant(at(30.5)) || got[0].reading.Mono != protocol.Instant(at(20.5)) {
		t.Errorf("it wakes at %s with %v", got[0].at, got[0].reading)
	}
	last := got[len(got)-1]
	if last.reading.Offset() != 10*time.Millisecond {
		t.Errorf("at the end its clocks are %v apart, want 10ms", last.reading.Offset())
	}
	// A sleep within a longer pause ends by itself.
	d = live(t, still(2,
		Op{At: at(20), Kind: OpPause, Node: "n2", For: 40 * time.Millisecond},
		Op{At: at(30), Kind: OpSuspend, Node: "n2", For: 10 * time.Millisecond}))
	got = d.all(func(l *line) bool { return l.kind == RecordStep && l.node == "n2" && l.at > at(20.5) })
	if got[0].at != at(60) || got[0].reading.Offset() != 10*time.Millisecond {
		t.Errorf("it runs at %s with clocks %v apart", got[0].at, got[0].reading.Offset())
	}
}

func TestWipe(t *testing.T) {
	d := live(t, still(2, Op{At: at(20), Kind: OpWipe, Node: "n2", For: 5 * time.Millisecond}))
	made := d.all(func(l *line) bool { return l.kind == RecordMake && l.node == "n2" })
	if len(made) != 2 || made[0].dir == made[1].dir || made[0].dir != d.w.membership.Voters[1].Dir {
		t.Errorf("its lives have directories %v", made)
	}
}

// An operation on the leader is one on the leader of that time.
func TestLeaderIsMeant(t *testing.T) {
	type view = protocol.View
	for _, c := range []struct {
		name  string
		views [3]view
		want  protocol.NodeID
	}{
		{"nobody", [3]view{{Token: 9, Leader: protocol.Leadership{ID: "n2"}}, {}, {}}, ""},
		{"one is elected", [3]view{{}, {Elected: true, Token: 3}, {}}, "n2"},
		{"two are elected", [3]view{{Elected: true, Token: 4}, {Elected: true, Token: 3}, {Elected: true, Token: 5}}, "n3"},
		{"one is active", [3]view{{Elected: true, Token: 4}, {Elected: true, Active: true, Token: 3}, {Elected: true, Token: 5}}, "n2"},
	} {
		d := begun(t, still(3, Op{At: at(20), Kind: OpKill, Node: Leader, For: 5 * time.Millisecond}, Op{At: at(20), Kind: OpHalfOpen, Node: Leader, Peer: "n1", For: 5 * time.Millisecond}))
		w := d.w
		for w.agenda[0].at < at(20) {
			w.Step()
		}
		for i, v := range c.views {
			w.nodes[i].view = v
		}
		if got := w.leader(); got != c.want {
			t.Errorf("%s: %q leads, want %q", c.name, got, c.want)
		}
		w.begin(1)
		w.begin(0)
		for _, n := range w.nodes {
			if n.up != (n.id != c.want) {
				t.Errorf("%s: %s is up: %t", c.name, n.id, n.up)
			}
			if cut := w.shape(n, w.nodes[0]).cut; cut != (n.id == c.want) {
				t.Errorf("%s: %s is cut off from n1: %t", c.name, n.id, cut)
			}
		}
		// It keeps affecting the same participant.
		for i := range w.nodes {
			w.nodes[i].view = protocol.View{}
		}
		if w.end(1); c.want != "" && w.shape(w.nodes[w.index(c.want)], w.nodes[0]).cut {
			t.Errorf("%s: the fault of its link does not end", c.name)
		}
	}
}

// A twin is a second process: both send, both receive, and it ends.
func TestTwin(t *testing.T) {
	d := live(t, still(2, Op{At: at(20.5), Kind: OpTwin, Node: "n2", For: 20 * time.Millisecond}))
	twin := d.all(func(l *line) bool { return l.kind == RecordStep && l.index == 2 })
	if len(twin) < 30 || twin[0].node != "n2" || twin[0].at != at(20.5) || twin[len(twin)-1].at > at(40.5) || incarnationOf(t, twin[0].durable) != 1 {
		t.Fatalf("%d steps of a twin, the first: %v", len(twin), twin[0])
	}
	heard := 0
	for _, l := range twin {
		if l.input == protocol.Receive && l.from == "n1" {
			heard++
		}
	}
	both := len(d.heard("n2", "n1", at(25), at(35)))
	if heard < 18 || both < 18 {
		t.Errorf("the twin hears %d messages, and n1 %d from both in 10 ms", heard, both)
	}
	if n := len(d.heard("n2", "n1", at(45), at(55))); n != 10 {
		t.Errorf("%d messages when the twin is gone", n)
	}
}

// Where processes with one id are distinguished, a copy takes the original's place once its
// incarnation is durable, 300 µs after its start: no other hears the original any more, nor does it
// hear any other, until the copy is gone.
func TestTwinIsToldApart(t *testing.T) {
	s := still(2, Op{At: at(20.5), Kind: OpTwin, Node: "n2", For: 20 * time.Millisecond})
	p := pulses()
	p.Replaces = func(next, present uint64) bool { return next > present }
	// A connection lasts while nothing is sent on it: each sends once a millisecond.
	p.Silence = func(json.RawMessage) (time.Duration, error) { return 500 * time.Microsecond, nil }
	d := recorded(t, p, s)
	of := func(incarnation uint64, since, until float64) (n int) {
		for _, l := range d.heard("n2", "n1", at(since), at(until)) {
			if l.message.Incarnation == incarnation {
				n++
			}
		}
		return n
	}
	deaf := len(d.all(func(l *line) bool {
		return l.kind == RecordStep && l.input == protocol.Receive && l.index == 1 && l.at > at(20.9) && l.at < at(40.5)
	}))
	if before, after, deaf := of(1, 10, 20.8), of(1, 20.8, 40.5), deaf; before < 9 || after > 0 || deaf > 0 {
		t.Errorf("of the original n1 hears %d messages before and %d while its copy runs, and it hears %d; want 10, 0 and 0", before, after, deaf)
	}
	if beside, back := of(2, 20.8, 40.6), of(1, 40.6, 60); beside < 18 || back < 18 {
		t.Errorf("n1 hears %d messages of the copy, and %d of the original when it is gone; want 20 each", beside, back)
	}
	if closed := d.all(func(l *line) bool { return l.closed == 1 && l.node == "n1" }); len(closed) != 1 || closed[0].at != at(20.8) {
		t.Errorf("n1 is told that the original's connection is closed: %v; want it once, at 20.8ms", closed)
	}
	if seen := d.w.Result().Seen; !seen.Has(SawTwinReplaced) || !seen.Has(SawTwinRefused) {
		t.Errorf("seen %b; want that one was replaced and refused", seen)
	}

	p.Replaces = func(uint64, uint64) bool { return true }
	if r := recorded(t, p, s).w.Result(); r.Violation == nil || r.Violation.Invariant != ToldApart || r.Violation.At > at(22) {
		t.Errorf("%v; want a violation by the one that takes both", r.Violation)
	}
}

// A fault of a computer affects both processes on it.
func TestTwinSharesTheMachine(t *testing.T) {
	twin := Op{At: at(20.5), Kind: OpTwin, Node: "n2", For: 60 * time.Millisecond}
	steps := func(d *diary, since, until Time) int {
		return len(d.all(func(l *line) bool { return l.kind == RecordStep && l.index == 2 && l.at > since && l.at < until }))
	}
	for _, kind := range []OpKind{OpPowerLoss, OpReboot, OpLoseWrites} {
		d := live(t, still(2, twin, Op{At: at(30.5), Kind: kind, Node: "n2", For: time.Millisecond}))
		if steps(d, at(20), at(30.5)) == 0 || steps(d, at(30.5), never) > 0 {
			t.Errorf("%s: the twin outlives it", kind)
		}
	}
	d := live(t, still(2, twin, Op{At: at(30.5), Kind: OpKill, Node: "n2", For: time.Millisecond}))
	if steps(d, at(30.5), never) == 0 {
		t.Error("the twin dies when the other process is killed")
	}
	d = live(t, still(2, twin, Op{At: at(30.5), Kind: OpSuspend, Node: "n2", For: 10 * time.Millisecond}))
	if steps(d, at(30.5), at(40.5)) > 0 || steps(d, at(40), never) == 0 {
		t.Error("the twin does not sleep with its machine")
	}
}

func TestClocks(t *testing.T) {
	s := still(3,
		Op{At: at(20), Kind: OpRate, Node: "n1", Value: 50_000},
		Op{At: at(20), Kind: OpStrobe, Node: "n3", By: 4 * time.Millisecond, Every: 5 * time.Millisecond, For: 22 * time.Millisecond},
		Op{At: at(40), Kind: OpStep, Node: "n1", By: 7 * time.Millisecond},
		Op{At: at(60), Kind: OpStep, Node: "n1", By: -3 * time.Millisecond},
	)
	s.Clocks = []ClockSpec{{}, {Rate: -100_000, Zero: time.Hour}}
	w, err := New(pulses(), s)
	if err != nil {
		t.Fatal(err)
	}
	check := func(i int, boot, mono time.Duration) {
		t.Helper()
		if got, want := w.reading(w.nodes[i]), (protocol.Reading{Boot: protocol.Instant(boot), Mono: protocol.Instant(mono)}); got != want {
			t.Errorf("%s: %s shows %v, want %v", w.now, w.nodes[i].id, got, want)
		}
	}
	until := func(at Time) {
		for w.agenda[0].at <= at {
			w.Step()
		}
		w.now = at
	}
	until(at(10))
	check(0, at2d(10), at2d(10))
	check(1, time.Hour+at2d(9), time.Hour+at2d(9))
	until(at(30))
	check(0, at2d(30.5), at2d(30.5))
	until(at(50))
	check(0, at2d(51.5+7), at2d(51.5))
	until(at(70))
	check(0, at2d(72.5+4), at2d(72.5))
	// The strobe jumped at 20, 25, 30, 35, 40; then back, so that it is where it was.
	for _, c := range []struct {
		at  float64
		off float64
	}{{22, 4}, {27, 0}, {32, 4}, {37, 0}, {41, 4}, {43, 0}} {
		w, err = New(pulses(), s)
		if err != nil {
			t.Fatal(err)
		}
		until(at(c.at))
		check(2, at2d(c.at+c.off), at2d(c.at))
	}
}

// A timer is a Fire at the first true time at which the clock shows it.
func TestTrueAt(t *testing.T) {
	w, err := New(pulses(), still(1))
	if err != nil {
		t.Fatal(err)
	}
	n := w.nodes[0]
	r := w.stream("test")
	for range 100_000 {
		n.clock = clock{at: Time(r.Uint64() >> 20), boot: protocol.Instant(r.Uint64() >> 16), rate: int64(r.Uint64()%1_800_000) - 900_000}
		w.now = n.clock.at + Time(r.Uint64()>>(20+r.Uint64()%30))
		i := w.reading(n).Boot + protocol.Instant(r.Uint64()>>(18+r.Uint64()%40)) - 1000
		got := w.trueAt(n, i)
		if n.clock.Read(got).Boot < i {
			t.Fatalf("%+v: %v at %d, where it shows %v", n.clock, i, got, n.clock.Read(got).Boot)
		}
		if got > w.now && n.clock.Read(got-1).Boot >= i {
			t.Fatalf("%+v: %v at %d, where it is later already", n.clock, i, got)
		}
	}
	for i, want := range map[protocol.Instant]Time{protocol.Never: never, protocol.Always: w.now} {
		if got := w.trueAt(n, i); got != want {
			t.Errorf("%v: %v, want %v", i, got, want)
		}
	}
}

func TestRebootedClock(t *testing.T) {
	s := still(2, Op{At: at(20), Kind: OpReboot, Node: "n2", For: 10 * time.Millisecond})
	s.Clocks = []ClockSpec{{}, {Zero: time.Hour}}
	d := live(t, s)
	boots := d.steps("n2", protocol.Boot)
	if r := boots[1].reading; r.Boot > protocol.Instant(at(10)) || r.Offset() != 0 {
		t.Errorf("after the restart its clocks show %v", r)
	}
}

func TestOperator(t *testing.T) {
	s := still(2,
		Op{At: at(10), Kind: OpResign, Node: "n1"},
		Op{At: at(20), Kind: OpWithdraw, Node: "n1", For: 20 * time.Millisecond},
		Op{At: at(30), Kind: OpWithdraw, Node: "n1", For: 20 * time.Millisecond},
		Op{At: at(60), Kind: OpSicken, Node: "n1", For: 10 * time.Millisecond},
		Op{At: at(80), Kind: OpConfirm, Node: "n1"},
		Op{At: at(82), Kind: OpWithdraw, Node: "n1", For: 10 * time.Millisecond},
		Op{At: at(82), Kind: OpSicken, Node: "n1", For: 10 * time.Millisecond},
		Op{At: at(84), Kind: OpKill, Node: "n1", For: time.Millisecond},
		Op{At: at(95), Kind: OpPause, Node: "n1", For: 2 * time.Millisecond},
		Op{At: at(96), Kind: OpConfirm, Node: "n1"},
	)
	s.Observers = 1
	d := live(t, s)
	want := []struct {
		at   float64
		verb protocol.Verb
	}{
		{0, protocol.Campaign}, {10, protocol.Resign}, {20, protocol.Withdraw}, {50, protocol.Campaign}, {60, protocol.Sicken}, {70, protocol.Recover},
		{80, protocol.Confirm}, {82, protocol.Withdraw}, {82, protocol.Sicken}, {85, protocol.Sicken}, {92, protocol.Campaign}, {92, protocol.Recover}, {97, protocol.Confirm},
	}
	got := d.steps("n1", protocol.Do)
	for i, l := range got {
		if i >= len(want) || l.verb != want[i].verb || l.at != at(want[i].at) {
			t.Errorf("command %d is %v at %s", i, l.verb, l.at)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d commands, want %d", len(got), len(want))
	}
	if got := d.steps("o1", protocol.Do); len(got) != 0 {
		t.Errorf("an observer is told %v", got[0].verb)
	}
}
