package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
)

// When the faults are over the core is whole: processes, links, disks, clocks. What is outside of
// it stays cut off.
func TestHeal(t *testing.T) {
	s := still(5,
		Op{At: at(50), Kind: OpKill, Node: "n1"},
		Op{At: at(50), Kind: OpPause, Node: "n2", For: time.Second},
		Op{At: at(50), Kind: OpHalves, Group: []protocol.NodeID{"n1", "n5"}, For: 60 * time.Millisecond},
		Op{At: at(50), Kind: OpClog, Node: "n3", Peer: "n2", For: time.Second},
		Op{At: at(60), Kind: OpOneWay, Node: "n4", For: 60 * time.Millisecond},
		Op{At: at(60), Kind: OpEIO, Node: "n3", For: time.Second},
		Op{At: at(60), Kind: OpFull, Node: "n3", For: time.Second},
		Op{At: at(60), Kind: OpSlowSync, Node: "n3", By: time.Second, For: time.Second},
		Op{At: at(60), Kind: OpRate, Node: "n3", Value: 300_000},
		Op{At: at(60), Kind: OpRate, Node: "n5", Value: 300_000},
		Op{At: at(60), Kind: OpWithdraw, Node: "n3", For: time.Second},
		Op{At: at(60), Kind: OpSicken, Node: "n3", For: 60 * time.Millisecond},
		Op{At: at(60), Kind: OpKill, Node: "n5"},
		Op{At: at(90), Kind: OpCrashLoop, Node: "n3", Every: 3 * time.Millisecond, For: time.Second},
	)
	s.Links.Loss, s.Disks.Tail = 0.3, 0.3
	s.Settle = 200 * time.Millisecond
	s.Core = []protocol.NodeID{"n1", "n2", "n3"}
	d := live(t, s)
	core := func(i int) bool { return i < 3 }
	heard := func(from, to int) int { return len(d.heard(d.w.nodes[from].id, d.w.nodes[to].id, at(110), at(290))) }
	for a := range 5 {
		for b := range 5 {
			switch n := heard(a, b); {
			case a == b:
			case core(a) && core(b):
				if n < 179 {
					t.Errorf("%d to %d: %d of 180 messages are heard in the core", a+1, b+1, n)
				}
			case a == 4 || b == 4 || a == 3 || b == 0:
				if n > 0 {
					t.Errorf("%d to %d: %d messages across a cut", a+1, b+1, n)
				}
			case a == 0: // n1's half is n1 and n5
				if n > 0 {
					t.Errorf("%d to %d: %d messages across a cut", a+1, b+1, n)
				}
			default:
				if n == 0 || n > 170 {
					t.Errorf("%d to %d: %d of 180 messages; want the losses of the noise", a+1, b+1, n)
				}
			}
		}
	}
	wantTimes(t, "n1 starts", d.boots("n1"), 0, 100)
	wantTimes(t, "n5 starts", d.boots("n5"), 0)
	saves := 0
	for _, l := range d.steps("n3", protocol.Saved) {
		if l.at > at(100) {
			saves++
			if l.failed {
				t.Errorf("n3's disk: %v", l)
			}
		}
	}
	if saves < 20 {
		t.Errorf("n3's disk: %d saves after the healing, want one each 8 ms", saves)
	}
	if n := len(d.boots("n3")); n > 5 {
		t.Errorf("n3 starts %d times", n)
	}
	if a, b := d.w.nodes[2].clock.rate, d.w.nodes[4].clock.rate; a != 50_000 || b != 300_000 {
		t.Errorf("clocks are %d and %d fast, want n3's within the assumption and n5's as it was", a, b)
	}
	if w := d.w.nodes[2]; w.withdrawn != 0 || w.sick != 0 || w.disk.failing != 0 || w.disk.full != 0 || w.disk.slow != 0 {
		t.Errorf("n3 is left with %+v", w)
	}
	if n := len(d.heard("n3", "n2", at(100), at(100.2))); n < 20 {
		t.Errorf("the clogged link lets %d messages go", n)
	}
}

// Without a core all are healed; without a settle phase none is.
func TestHealAllOrNone(t *testing.T) {
	s := still(3, Op{At: at(50), Kind: OpIsolate, Node: "n1", For: time.Second}, Op{At: at(50), Kind: OpPowerLoss, Node: "n2"})
	s.Settle = 50 * time.Millisecond
	d := live(t, s)
	d.hears(at(105), at(149), everybody)
	if d.w.Now() != at(150) {
		t.Errorf("it ends at %s", d.w.Now())
	}
	s.Settle = 0
	d = live(t, s)
	if d.w.Now() != at(100) || d.w.healed || len(d.boots("n2")) != 1 {
		t.Errorf("it ends at %s, healed: %t", d.w.Now(), d.w.healed)
	}
}

// Every kind of operation works with every other, and any subset of a schedule's operations is a
// schedule.
func TestSubsets(t *testing.T) {
	for seed := range long.Or[uint64](4, 2) {
		s := troubled(seed)
		r := (&World{schedule: s}).stream("subsets")
		for range long.Or(12, 5) {
			part := *s
			part.Ops = nil
			p := r.Float64()
			for _, op := range s.Ops {
				if r.Chance(p) {
					part.Ops = append(part.Ops, op)
				}
			}
			w, err := New(pulses(), &part)
			if err != nil {
				t.Fatal(err)
			}
			w.Run()
			if v := w.Result().Violation; v != nil {
				t.Fatal(v)
			}
			if w.Now() != Time(s.Faults+s.Settle) {
				t.Errorf("it ends at %s", w.Now())
			}
		}
	}
}
