package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// between is a fault from 20 to 40 ms in a run of 100.
func between(op Op) Op {
	op.At, op.For = at(20), 20*time.Millisecond
	return op
}

// Each partition cuts exactly the links that it names, as long as it says, and then none.
func TestPartitions(t *testing.T) {
	in := func(places ...int) func(int) bool { return func(i int) bool { return slices.Contains(places, i) } }
	small := in(0, 1)
	for _, c := range []struct {
		name  string
		op    Op
		nodes int
		want  func(from, to int) bool
	}{
		{"isolate", Op{Kind: OpIsolate, Node: "n2"}, 5, func(a, b int) bool { return a != 1 && b != 1 }},
		{"halves", Op{Kind: OpHalves, Group: []protocol.NodeID{"n1", "n2"}}, 5, func(a, b int) bool { return small(a) == small(b) }},
		{"third", Op{Kind: OpThird, Group: []protocol.NodeID{"n1", "n2"}}, 6, func(a, b int) bool { return !small(a) && !small(b) }},
		{"bridge", Op{Kind: OpBridge, Node: "n5", Group: []protocol.NodeID{"n1", "n2"}}, 5, func(a, b int) bool {
			return small(a) == small(b) || a == 4 || b == 4
		}},
		{"ring of 5", Op{Kind: OpMajorityRing}, 5, func(a, b int) bool { return (a-b+5)%5 == 1 || (b-a+5)%5 == 1 }},
		{"ring of 7", Op{Kind: OpMajorityRing}, 7, func(a, b int) bool { d := (a - b + 7) % 7; return d <= 2 || d >= 5 }},
		{"ring of 3", Op{Kind: OpMajorityRing}, 3, everybody},
		{"chain", Op{Kind: OpChain, Group: []protocol.NodeID{"n3", "n1", "n2", "n4"}}, 4, func(a, b int) bool {
			line := []int{2, 0, 1, 3}
			d := slices.Index(line, a) - slices.Index(line, b)
			return d == 1 || d == -1
		}},
		{"heard by none", Op{Kind: OpOneWay, Node: "n2"}, 3, func(a, _ int) bool { return a != 1 }},
		{"hears none", Op{Kind: OpOneWay, Node: "n2", Value: 1}, 3, func(_, b int) bool { return b != 1 }},
		{"half-open", Op{Kind: OpHalfOpen, Node: "n1", Peer: "n2"}, 3, func(a, b int) bool { return a != 0 || b != 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := live(t, still(c.nodes, between(c.op)))
			d.hears(at(10), at(19.9), everybody)
			d.hears(at(20.2), at(39.9), c.want)
			d.hears(at(41.5), at(60), everybody)
			for _, id := range d.w.nodes {
				if len(d.steps(id.id, protocol.PeerClosed)) > 0 {
					t.Error("a connection is closed")
				}
			}
		})
	}
}

// Each participant sees a majority in a ring of majorities, and no two see the same.
func TestRingSeesMajorities(t *testing.T) {
	for nodes := 1; nodes <= MaxNodes; nodes++ {
		w, err := New(pulses(), still(nodes, between(Op{Kind: OpMajorityRing})))
		if err != nil {
			t.Fatal(err)
		}
		sees := map[uint64]bool{}
		for to := range nodes {
			var set uint64
			n := 0
			for from := range nodes {
				if from == to || !w.cuts(&w.schedule.Ops[0], &w.ops[0], from, to) {
					set |= 1 << from
					n++
				}
			}
			if n < nodes/2+1 {
				t.Errorf("%d nodes: n%d sees %d", nodes, to+1, n)
			}
			sees[set] = true
		}
		if nodes > 4 && len(sees) != nodes {
			t.Errorf("%d nodes: %d different sets", nodes, len(sees))
		}
	}
}

func TestSwizzle(t *testing.T) {
	group := []protocol.NodeID{"n4", "n2", "n1"}
	op := between(Op{Kind: OpSwizzle, Group: group, Every: 3 * time.Millisecond})
	d := live(t, still(5, op))
	// One after the other at 20, 23, 26; back one after the other at 29, 32, 35.
	d.hears(at(20.2), at(22.9), func(a, b int) bool { return a != 3 && b != 3 })
	d.hears(at(23.2), at(25.9), func(a, b int) bool { return a != 3 && b != 3 && a != 1 && b != 1 })
	d.hears(at(26.2), at(28.9), func(a, b int) bool { return a != 3 && b != 3 && a != 1 && b != 1 && a != 0 && b != 0 })
	away := func(since, until Time) (n int) {
		for _, id := range group {
			if len(d.heard("n5", id, since, until)) == 0 {
				n++
			}
		}
		return n
	}
	for i, want := range []int{2, 1, 0} {
		if got := away(at(29.2+3*float64(i)), at(31.9+3*float64(i))); got != want {
			t.Errorf("after %d came back, %d are away", i+1, got)
		}
	}
	d.hears(at(36), at(60), everybody)
	orders := map[int8]bool{}
	for seed := range uint64(20) {
		s := still(5, op)
		s.Seed = seed
		w, err := New(pulses(), s)
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		orders[w.ops[0].order[0]] = true
	}
	if len(orders) != 2 || orders[0] {
		t.Errorf("the first that comes back: %v; want every one but the first to go", orders)
	}
}

func TestFlap(t *testing.T) {
	d := live(t, still(3, between(Op{Kind: OpFlap, Node: "n1", Peer: "n2", Every: 4 * time.Millisecond})))
	between := func(a, b int) bool { return a+b == 1 }
	for i := range 5 {
		since := 20 + 4*float64(i)
		d.hears(at(since+0.2), at(since+3.9), func(a, b int) bool { return i%2 == 1 || !between(a, b) })
	}
	d.hears(at(41.5), at(60), everybody)
}

func TestLoss(t *testing.T) {
	d := live(t, still(3, between(Op{Kind: OpLoss, Node: "n1", Peer: "n2", Value: 1})))
	d.hears(at(20.2), at(39.9), func(a, b int) bool { return a != 0 || b != 1 })
	d.hears(at(41.5), at(60), everybody)
	s := still(2, Op{Kind: OpLoss, Node: "n1", Peer: "n2", Value: 0.5, For: 10 * time.Second})
	s.Faults = 10 * time.Second
	if n := len(live(t, s).heard("n1", "n2", 0, never)); n < 4_800 || n > 5_200 {
		t.Errorf("%d of about 10000 arrive, want a half", n)
	}
}

func TestDelay(t *testing.T) {
	d := live(t, still(2, between(Op{Kind: OpDelay, Node: "n1", Peer: "n2", By: 5 * time.Millisecond})))
	for _, l := range d.heard("n1", "n2", 0, never) {
		sent := Time(l.message.Seq) * at(1)
		want := at(0.1)
		if sent >= at(20) && sent < at(40) {
			want = at(5.1)
		} else if sent >= at(40) && sent < at(45) {
			want = 0 // it waits behind what is late
		}
		if l.message.Seq > 2 && l.message.Seq%8 != 0 && want != 0 && l.at-sent != want {
			t.Errorf("#%d sent at %s arrives after %s, want %s", l.message.Seq, sent, l.at-sent, want)
		}
	}
	for _, l := range d.heard("n2", "n1", at(20), at(40)) {
		if l.message.Seq%8 != 0 && l.at-Time(l.message.Seq)*at(1) != at(0.1) {
			t.Errorf("the way back is slow too: %v", l)
		}
	}
}

func TestDuplicate(t *testing.T) {
	s := still(2, between(Op{Kind: OpDuplicate, Node: "n1", Peer: "n2", Value: 1}))
	s.Faults = 4 * time.Second
	d := live(t, s)
	times := map[uint64][]Time{}
	for _, l := range d.heard("n1", "n2", 0, never) {
		times[l.message.Seq] = append(times[l.message.Seq], l.at)
	}
	late := false
	for seq, all := range times {
		want := 1
		if seq >= 20 && seq < 40 {
			want = 2
		}
		if len(all) != want {
			t.Errorf("#%d comes %d times, want %d", seq, len(all), want)
		}
		last := all[len(all)-1] - Time(seq)*at(1)
		if last > Time(longest)+at(1) {
			t.Errorf("#%d comes %s late, want at most %s", seq, last, longest)
		}
		late = late || last > Time(time.Second)
	}
	if !late {
		t.Error("no second copy is more than a second late")
	}
}

func TestReorder(t *testing.T) {
	d := live(t, still(2, between(Op{Kind: OpReorder, Node: "n1", Peer: "n2", By: 10 * time.Millisecond})))
	overtaken, last := 0, uint64(0)
	got := d.heard("n1", "n2", 0, never)
	for _, l := range got {
		if l.message.Seq < last {
			overtaken++
		}
		if by := l.at - Time(l.message.Seq)*at(1); by > at(10.1) && l.message.Seq > 2 && l.message.Seq < 40 {
			t.Errorf("#%d takes %s, want at most 10.1ms", l.message.Seq, by)
		}
		last = l.message.Seq
	}
	if overtaken < 3 {
		t.Errorf("%d of 20 messages are overtaken", overtaken)
	}
	if len(got) != 99 {
		t.Errorf("%d messages arrive, want all 99", len(got))
	}
}

func TestClog(t *testing.T) {
	d := live(t, still(2, between(Op{Kind: OpClog, Node: "n1", Peer: "n2"})))
	if n := len(d.heard("n1", "n2", at(20.2), at(40))); n != 0 {
		t.Errorf("%d get through", n)
	}
	burst := d.heard("n1", "n2", at(40), at(40.2))
	if len(burst) < 20 || !slices.IsSortedFunc(burst, func(a, b line) int { return int(a.message.Seq) - int(b.message.Seq) }) {
		t.Errorf("%d are let go, in order: %v", len(burst), burst)
	}
	if got := d.heard("n1", "n2", 0, never); len(got) != 99 {
		t.Errorf("%d messages arrive, want all 99", len(got))
	}
}

func TestReplay(t *testing.T) {
	d := live(t, still(2, Op{At: at(30.5), Kind: OpReplay, Node: "n1", Peer: "n2", Count: 5}))
	var seqs []uint64
	for _, l := range d.heard("n1", "n2", at(30.55), at(30.65)) {
		seqs = append(seqs, l.message.Seq)
	}
	if !slices.Equal(seqs, []uint64{30, 29, 28, 27, 26}) {
		t.Errorf("%v arrive again, want 30 down to 26", seqs)
	}
	// This includes messages of a dead sender; no more arrive than the link has kept.
	d = live(t, still(2, Op{At: at(10.2), Kind: OpKill, Node: "n1"}, Op{At: at(30.5), Kind: OpReplay, Node: "n1", Peer: "n2", Count: 50}))
	if n := len(d.heard("n1", "n2", at(30), at(31))); n != 10 {
		t.Errorf("%d arrive again, want 10", n)
	}
}

func TestDrop(t *testing.T) {
	d := live(t, still(3,
		Op{Kind: OpDrop, Node: "n1", Peer: "n2", Count: 12}, Op{Kind: OpDrop, Node: "n1", Peer: "n2", Count: 5}, Op{At: at(90), Kind: OpDrop, Node: "n3", Peer: "n2", Count: 1}))
	missing := func(from protocol.NodeID) (all []uint64) {
		got := map[uint64]bool{}
		for _, l := range d.heard(from, "n2", 0, never) {
			got[l.message.Seq] = true
		}
		for seq := uint64(1); seq <= 99; seq++ {
			if !got[seq] {
				all = append(all, seq)
			}
		}
		return all
	}
	if got := missing("n1"); !slices.Equal(got, []uint64{5, 12}) {
		t.Errorf("of n1's messages %v are missing, want 5 and 12", got)
	}
	if got := missing("n3"); !slices.Equal(got, []uint64{1}) {
		t.Errorf("of n3's messages %v are missing, want 1", got)
	}
	if got := len(d.heard("n1", "n3", 0, never)); got != 99 {
		t.Errorf("%d messages on another link, want 99", got)
	}
}

func TestReset(t *testing.T) {
	d := live(t, still(3, Op{At: at(30.5), Kind: OpReset, Node: "n1", Peer: "n2"}))
	for _, p := range [][2]protocol.NodeID{{"n1", "n2"}, {"n2", "n1"}} {
		got := d.steps(p[0], protocol.PeerClosed)
		if len(got) != 1 || got[0].from != p[1] || got[0].closed != 1 || got[0].at != at(30.6) {
			t.Errorf("%s is told %v", p[0], got)
		}
	}
	if got := d.steps("n3", protocol.PeerClosed); len(got) != 0 {
		t.Errorf("n3 is told %v", got)
	}
	d.hears(at(31), at(60), everybody)
	// A connection that never existed cannot be reset.
	d = live(t, still(2, Op{At: at(0.1), Kind: OpReset, Node: "n1", Peer: "n2"}, Op{At: at(5), Kind: OpReset, Node: "n1", Peer: "n1"}))
	if got := d.steps("n1", protocol.PeerClosed); len(got) != 0 {
		t.Errorf("n1 is told %v", got)
	}
}

// A reset without a peer is one of all connections.
func TestResetAll(t *testing.T) {
	d := live(t, still(4, Op{At: at(30.5), Kind: OpReset, Node: "n1"}))
	if n := len(d.steps("n1", protocol.PeerClosed)); n != 3 {
		t.Errorf("n1 is told %d times, want 3", n)
	}
	for _, id := range []protocol.NodeID{"n2", "n3", "n4"} {
		if got := d.steps(id, protocol.PeerClosed); len(got) != 1 || got[0].from != "n1" {
			t.Errorf("%s is told %v", id, got)
		}
	}
}

// A participant that is cut off can still send to itself.
func TestNobodyIsCutOffFromItself(t *testing.T) {
	group := []protocol.NodeID{"n1", "n2"}
	d := begun(t, still(3, between(Op{Kind: OpIsolate, Node: "n1"}), between(Op{Kind: OpThird, Group: group}), between(Op{Kind: OpOneWay, Node: "n3"})))
	for d.w.Now() < at(25) {
		d.w.Step()
	}
	for i, n := range d.w.nodes {
		if d.w.shape(n, n).cut {
			t.Errorf("%s is", n.id)
		}
		if !d.w.shape(n, d.w.nodes[(i+1)%3]).cut {
			t.Errorf("%s is not cut off: the test shows nothing", n.id)
		}
	}
}

// Two faults of one link: each ends by itself.
func TestOverlap(t *testing.T) {
	d := live(t, still(2,
		Op{At: at(20), Kind: OpIsolate, Node: "n1", For: 20 * time.Millisecond},
		Op{At: at(30), Kind: OpIsolate, Node: "n2", For: 20 * time.Millisecond}))
	d.hears(at(20.2), at(49.9), func(int, int) bool { return false })
	d.hears(at(51), at(60), everybody)
}
