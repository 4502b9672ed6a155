package sim

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

func hashOf(t *testing.T, s *Schedule) (uint64, uint64) {
	t.Helper()
	w, err := New(pulses(), s)
	if err != nil {
		t.Fatal(err)
	}
	w.Run()
	r := w.Result()
	if r.Violation != nil {
		t.Fatal(r.Violation)
	}
	return r.Hash, r.Events
}

// Equal schedules give equal runs, one after the other and side by side, traced or not; other seeds
// give other runs.
func TestSameSeedSameRun(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := range long.Or[uint64](6, 1) {
		s := troubled(seed)
		want, events := hashOf(t, s)
		if other, ok := seen[want]; ok {
			t.Errorf("seeds %d and %d have one hash", other, seed)
		}
		seen[want] = seed
		if events < 10_000 {
			t.Errorf("seed %d: %d events only", seed, events)
		}
		var all [4]uint64
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { all[i], _ = hashOf(t, troubled(seed)) })
		}
		wg.Wait()
		if all != [4]uint64{want, want, want, want} {
			t.Errorf("seed %d: %x, then %x", seed, want, all)
		}
		if d := live(t, s); d.w.Hash() != want {
			t.Errorf("seed %d: %x, and %x when it is traced", seed, want, d.w.Hash())
		}
	}
}

// A fork continues as the original does, whenever it is made, and does not affect it.
func TestFork(t *testing.T) {
	for seed := range long.Or[uint64](3, 1) {
		s := troubled(seed)
		want, events := hashOf(t, s)
		w, err := New(pulses(), s)
		if err != nil {
			t.Fatal(err)
		}
		var forks []*World
		for i := uint64(0); w.Step(); i++ {
			if i%(events/long.Or[uint64](25, 4)) == 0 {
				f := w.Fork()
				forks = append(forks, f)
				// It runs ahead for a while, and so does a fork of it.
				for range 500 {
					f.Step()
				}
				forks = append(forks, f.Fork())
			}
		}
		if w.Hash() != want {
			t.Errorf("seed %d: %x; %x when it was forked", seed, want, w.Hash())
		}
		for i, f := range forks {
			f.Run()
			if f.Hash() != want || !reflect.DeepEqual(f.Result(), w.Result()) {
				t.Errorf("seed %d, fork %d: %x, want %x", seed, i, f.Hash(), want)
			}
		}
	}
}

// Draws for one purpose do not affect those for others: a world without some operation is the same
// until then.
func TestStreamsAreApart(t *testing.T) {
	s := troubled(3)
	s.Ops = nil
	base := live(t, s)
	lossy := *s
	lossy.Ops = []Op{{At: at(50), Kind: OpLoss, Node: "n1", Peer: "n2", Value: 1, For: 10 * time.Millisecond}}
	other := live(t, &lossy)
	pick := func(d *diary) (all []line) {
		// Arrivals at n3 do not depend on what n2 receives.
		for _, l := range d.heard("n4", "n3", 0, never) {
			all = append(all, line{at: l.at, message: l.message})
		}
		return all
	}
	if a, b := pick(base), pick(other); !slices.EqualFunc(a, b, func(a, b line) bool { return reflect.DeepEqual(a, b) }) {
		t.Error("losses of n1's link to n2 change what n4 sends n3")
	}
	if a, b := base.heard("n1", "n2", 0, at(49)), other.heard("n1", "n2", 0, at(49)); len(a) != len(b) {
		t.Error("the link differs before the fault")
	}
	// Afterwards the link continues with the same draws.
	late := func(d *diary) (all []Time) {
		for _, l := range d.heard("n1", "n2", at(70), never) {
			if l.message.Seq > 65 {
				all = append(all, l.at)
			}
		}
		return all
	}
	if !slices.Equal(late(base), late(other)) {
		t.Error("the link goes on with other draws after the losses")
	}
}

// The noise has the requested rates, and delays are never less than the least.
func TestNoise(t *testing.T) {
	s := still(2)
	s.Faults = 20 * time.Second
	s.Links = LinkNoise{Delay: time.Millisecond, Jitter: time.Millisecond, Loss: 0.1, Duplicate: 0.2, Tail: 0.1, Reorder: true}
	d := live(t, s)
	got := d.heard("n1", "n2", 0, never)
	sent := d.all(func(l *line) bool { return l.kind == RecordSend && l.node == "n1" })
	lost := d.all(func(l *line) bool { return l.kind == RecordLost && l.node == "n1" })
	if r := float64(len(lost)) / float64(len(sent)); r < 0.09 || r > 0.11 {
		t.Errorf("%d of %d are lost, want a tenth", len(lost), len(sent))
	}
	left := map[uint64]Time{}
	for _, l := range sent {
		left[l.message.Seq] = l.at
	}
	times := map[uint64]int{}
	long, overtaken, last := 0, 0, uint64(0)
	for _, l := range got {
		by := l.at - left[l.message.Seq]
		if by < Time(time.Millisecond) {
			t.Fatalf("%v: after %s", l, by)
		}
		if times[l.message.Seq]++; times[l.message.Seq] == 1 && by > at(11) {
			long++
		}
		if l.message.Seq < last {
			overtaken++
		}
		last = l.message.Seq
	}
	twice := 0
	for _, n := range times {
		if n > 1 {
			twice++
		}
	}
	if r := float64(twice) / float64(len(times)); r < 0.16 || r > 0.22 {
		t.Errorf("%d of %d come twice, want a fifth", twice, len(times))
	}
	if r := float64(long) / float64(len(times)); r < 0.07 || r > 0.13 {
		t.Errorf("%d of %d are from the heavy tail, want a tenth", long, len(times))
	}
	if overtaken == 0 {
		t.Error("nothing is overtaken")
	}
	// Without Reorder messages stay in order, except for duplicates.
	s.Links.Reorder, s.Links.Duplicate = false, 0
	last = 0
	for _, l := range live(t, s).heard("n1", "n2", 0, never) {
		if l.message.Seq <= last {
			t.Fatalf("%v after #%d", l, last)
		}
		last = l.message.Seq
	}
}

func TestBandwidth(t *testing.T) {
	s := still(2)
	s.Links.Bandwidth = 500 // one every 2 ms; they are sent one every ms
	d := live(t, s)
	got := d.heard("n1", "n2", 0, never)
	if len(got) < 45 || len(got) > 51 {
		t.Errorf("%d messages in 100 ms, want about 50", len(got))
	}
	for i := range got[1:] {
		if gap := got[i+1].at - got[i].at; gap != at(2) {
			t.Fatalf("%s between two, want 2ms", gap)
		}
	}
}

// The cause of a receipt is the step that sent the message, across a pause too.
func TestCauses(t *testing.T) {
	d := live(t, still(3,
		Op{At: at(24.1), Kind: OpPause, Node: "n2", For: 10 * time.Millisecond},
		Op{At: at(50), Kind: OpConfirm, Node: "n1"},
		Op{At: at(60.5), Kind: OpPauseSend, Node: "n3", For: 5 * time.Millisecond},
		Op{At: at(80.5), Kind: OpKill, Node: "n3", For: 5 * time.Millisecond}))
	steps := map[uint64]line{}
	all := map[uint64]line{}
	for _, l := range d.lines {
		all[l.record] = l
		want := map[protocol.InputKind]RecordKind{protocol.PeerClosed: RecordDeath}[l.input]
		switch {
		case l.kind == RecordThaw:
			want = RecordFreeze
		case l.kind == RecordFreeze && l.node == "n2", l.kind == RecordDeath:
			want = RecordFault
		case l.kind == RecordStep && l.input == protocol.Do && l.verb == protocol.Confirm:
			want = RecordFault
		case l.kind == RecordStep && l.input == protocol.Boot && l.life == 2:
			want = RecordDeath
		case l.input == protocol.Fire && l.at == at(34.1):
			want = RecordThaw
		}
		if want != "" && all[l.cause].kind != want {
			t.Errorf("%v is caused by %v, want a %s", l, all[l.cause], want)
		}
		if l.input == protocol.Receive && l.from == "n3" && l.message.Seq == 61 && (l.at != at(66)+at(0.1) || all[l.cause].at != at(61)) {
			t.Errorf("%v is caused by %v, want the step at 61ms", l, all[l.cause])
		}
		if l.kind == RecordStep {
			steps[l.record] = l
		}
		if l.kind == RecordStep && l.input == protocol.Receive {
			c, ok := steps[l.cause]
			if !ok || c.node != l.from || c.sends == 0 || c.at > l.at {
				t.Fatalf("%v is caused by %d: %v", l, l.cause, c)
			}
		}
		if l.kind == RecordStep && (l.input == protocol.Saved) {
			c, ok := steps[l.cause]
			if !ok || c.node != l.node || c.at >= l.at {
				t.Fatalf("%v is caused by %d: %v", l, l.cause, c)
			}
		}
	}
	if len(d.w.causes) > 100 {
		t.Errorf("%d causes are kept of %d planned events", len(d.w.causes), len(d.w.agenda))
	}
}

// A panic of a machine is reported with its input, and where it happened.
func TestPanicIsTold(t *testing.T) {
	p := pulses()
	p.New = func(q Participant) (protocol.Machine, error) {
		m, err := newPulse(q)
		if q.Index == 1 {
			m = &bomb{m.(*pulse)}
		}
		return m, err
	}
	for _, may := range []bool{false, true} {
		p.Expect = map[Invariant]Expectation{}
		if may {
			p.Expect[NoPanic] = MayFail
		}
		w, err := New(p, still(3))
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		r := w.Result()
		v := r.Failure(NoPanic)
		if v == nil || v.Node != "n2" || !strings.Contains(v.Says, "kaboom") || !strings.Contains(v.Says, "sim/world_test.go:") || !strings.Contains(v.Says, `"from":"n1"`) {
			t.Fatalf("%v", v)
		}
		if (r.Violation == nil) != may {
			t.Errorf("may fail: %t, and the violation is %v", may, r.Violation)
		}
		if may && (w.Now() != Time(w.schedule.Faults) || w.nodes[1].up || r.Stats.Failures[NoPanic] != 1) {
			t.Errorf("it ends at %s with n2 up: %t, counted %d", w.Now(), w.nodes[1].up, r.Stats.Failures[NoPanic])
		}
		if !may && w.Now() != v.At {
			t.Errorf("the violation at %s does not end the run, it goes on until %s", v.At, w.Now())
		}
		if w.Step() {
			t.Error("it goes on after the end")
		}
	}
}

type bomb struct{ *pulse }

func (m *bomb) Step(in *protocol.Input, fx *protocol.Effects) {
	if in.Kind == protocol.Receive && in.Message.Seq == 5 {
		panic("kaboom")
	}
	m.pulse.Step(in, fx)
}

// A machine that never stops firing, and a time that never advances, are noticed.
func TestSpins(t *testing.T) {
	p := pulses()
	p.New = func(q Participant) (protocol.Machine, error) {
		m, err := newPulse(q)
		return &eager{m.(*pulse)}, err
	}
	w, err := New(p, still(1))
	if err != nil {
		t.Fatal(err)
	}
	w.Run()
	if v := w.Result().Violation; v == nil || v.Invariant != NoPanic || !strings.Contains(v.Says, "Fires in a row") {
		t.Error(v)
	}
}

type eager struct{ *pulse }

func (m *eager) NextFire() protocol.Instant { return m.next - 1 }
func (m *eager) Step(in *protocol.Input, fx *protocol.Effects) {
	m.pulse.Step(in, fx)
	m.next = in.Now.Boot
}

// Messages that arrive at the very time of a Fire are handed in before it.
func TestFireComesLast(t *testing.T) {
	s := still(2)
	s.Links.Delay = time.Millisecond
	s.Disks.Sync = 0
	d := live(t, s)
	for _, fire := range d.steps("n1", protocol.Fire) {
		for _, got := range d.heard("n2", "n1", fire.at, fire.at) {
			if got.record > fire.record {
				t.Fatalf("%v after %v", got, fire)
			}
		}
	}
	if n := len(d.heard("n2", "n1", at(50), at(50))); n != 1 {
		t.Errorf("%d messages at 50 ms, want 1: the test shows nothing", n)
	}
}

func TestPareto(t *testing.T) {
	const mean = time.Millisecond
	if got := pareto(^uint64(0), mean); got != 10*mean {
		t.Errorf("the least is %v, want 10 means", got)
	}
	if got := pareto(0, mean); got < 3*time.Second-time.Millisecond*1000 || got > longest {
		t.Errorf("the most is %v", got)
	}
	// P(X > 40·mean) = (1/4)^1.5 = 1/8.
	r := stream{step: 0x9e3779b97f4a7c15}
	n := 0
	for range 80_000 {
		if pareto(r.Uint64(), mean) > 40*mean {
			n++
		}
	}
	if n < 9_700 || n > 10_300 {
		t.Errorf("%d of 80000 are beyond 40 means, want an eighth", n)
	}
}

func TestChance(t *testing.T) {
	r := stream{step: 0x9e3779b97f4a7c15}
	for _, p := range []float64{0, 0.25, 1} {
		n := 0
		for range 40_000 {
			if r.Chance(p) {
				n++
			}
		}
		if want := p * 40_000; float64(n) < want-400*4*p*(1-p) || float64(n) > want+400*4*p*(1-p) {
			t.Errorf("%v: %d of 40000", p, n)
		}
	}
}

// The agenda is a priority queue, whatever the order of its coming and going.
func TestAgenda(t *testing.T) {
	r := stream{step: 0x9e3779b97f4a7c15}
	var a agenda
	var all []event
	seq := uint64(0)
	for range 20_000 {
		if r.Chance(0.55) || len(a) == 0 {
			seq++
			e := event{at: Time(r.Uint64() % 64), seq: seq}
			a.push(e)
			all = append(all, e)
			continue
		}
		least := 0
		for i := range all {
			if all[i].before(&all[least]) {
				least = i
			}
		}
		if got := a.pop(); got != all[least] {
			t.Fatalf("%v, want %v", got, all[least])
		}
		all = slices.Delete(all, least, least+1)
	}
}

// All places of the slabs are given back, but for what is on its way.
func TestNothingLeaks(t *testing.T) {
	for seed := range uint64(6) {
		w, err := New(pulses(), troubled(seed))
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		flying, held, delayed := 0, 0, 0
		count := func(e event) {
			switch e.kind {
			case evDeliver, evClosed:
				flying++
			case evReply, evCommand:
				delayed++
			}
		}
		for _, e := range w.agenda {
			count(e)
		}
		for _, n := range w.nodes {
			held += len(n.held)
			for _, e := range n.inbox {
				count(e)
			}
		}
		for i := range w.links {
			flying += len(w.links[i].held)
		}
		for _, s := range []struct {
			name            string
			all, free, used int
		}{
			{"flights", len(w.flights.all), len(w.flights.free), flying},
			{"waiting", len(w.waiting.all), len(w.waiting.free), held},
			{"delayed", len(w.delayed.all), len(w.delayed.free), delayed},
		} {
			if s.all-s.free != s.used {
				t.Errorf("seed %d: %s: %d places are taken, %d are used", seed, s.name, s.all-s.free, s.used)
			}
		}
	}
}
