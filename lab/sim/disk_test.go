package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// A message that waits for a save leaves when that is durable, not before.
func TestSendsWait(t *testing.T) {
	d := live(t, still(2))
	for _, l := range d.heard("n2", "n1", 0, never) {
		want := Time(l.message.Seq)*at(1) + at(0.1)
		if l.message.Seq%8 == 0 {
			want += at(0.3)
		}
		if l.at != want {
			t.Errorf("%v, want it at %s", l, want)
		}
	}
	saved := d.steps("n1", protocol.Saved)
	if len(saved) != 13 || saved[0].at != at(0.3) || saved[1].at != at(8.3) || saved[1].number != 2 || saved[1].failed {
		t.Errorf("saved: %v", saved)
	}
}

// The saves of one incarnation do not count for the next: its messages wait for its own.
func TestSavesAreOfOneLife(t *testing.T) {
	s := still(2, Op{At: at(40), Kind: OpKill, Node: "n1", For: time.Millisecond})
	s.Disks.Sync = 5 * time.Millisecond
	d := live(t, s)
	heard := d.heard("n1", "n2", at(40.5), never)
	if heard[0].at != at(46.1) || heard[0].message.Incarnation != 2 {
		t.Errorf("the second life is heard first at %s, of incarnation %d; want 46.1ms, when its first save is durable", heard[0].at, heard[0].message.Incarnation)
	}
}

// A message whose save has failed waits for a later save.
func TestFailedSavesAreNotDurable(t *testing.T) {
	d := begun(t, still(2, between(Op{Kind: OpEIO, Node: "n1"})))
	for d.w.Now() < at(25) {
		d.w.Step()
	}
	n := d.w.nodes[0]
	failed := d.steps("n1", protocol.Saved)[3]
	if !failed.failed {
		t.Fatalf("%v has not failed", failed)
	}
	d.w.carry(n, &protocol.Effects{Sends: []protocol.Send{{To: "n2", After: failed.number, Message: protocol.Message{Type: "waiter"}}}})
	d.w.Run()
	waiter := d.all(func(l *line) bool { return l.kind == RecordStep && l.message.Type == "waiter" })
	if len(waiter) != 0 {
		t.Errorf("it arrives at %s though save 5 failed too", waiter[0].at)
	}
	d = begun(t, still(2, Op{At: at(20), Kind: OpEIO, Node: "n1", For: 10 * time.Millisecond}))
	for d.w.Now() < at(25) {
		d.w.Step()
	}
	d.w.carry(d.w.nodes[0], &protocol.Effects{Sends: []protocol.Send{{To: "n2", After: failed.number, Message: protocol.Message{Type: "waiter"}}}})
	d.w.Run()
	waiter = d.all(func(l *line) bool { return l.kind == RecordStep && l.message.Type == "waiter" })
	if len(waiter) != 1 || waiter[0].at != at(32.4) {
		t.Errorf("%v, want it at 32.4ms, after the save of 32ms", waiter)
	}
}

// A disk does nothing while its machine sleeps.
func TestDiskSleeps(t *testing.T) {
	d := live(t, still(2, Op{At: at(24.1), Kind: OpSuspend, Node: "n1", For: 10 * time.Millisecond}))
	for _, l := range d.all(func(l *line) bool { return l.kind == RecordDurable && l.node == "n1" }) {
		if l.at > at(24) && l.at < at(34.1) {
			t.Errorf("a save is durable at %s", l.at)
		}
	}
	// For a stopped process the kernel goes on: what it has is written.
	d = live(t, still(2, Op{At: at(24.1), Kind: OpPause, Node: "n1", For: 10 * time.Millisecond}))
	if got := d.all(func(l *line) bool { return l.kind == RecordDurable && l.node == "n1" && l.at == at(24.3) }); len(got) != 1 {
		t.Error("the save of 24ms is not durable at 24.3ms")
	}
	if got := d.steps("n1", protocol.Saved)[3]; got.at != at(34.1) {
		t.Errorf("the process knows at %s, want 34.1ms", got.at)
	}
}

func TestSlowSync(t *testing.T) {
	d := live(t, still(2, between(Op{Kind: OpSlowSync, Node: "n1", By: 2 * time.Millisecond})))
	for _, l := range d.steps("n1", protocol.Saved)[1:] {
		want := at(0.3)
		if l.at > at(20) && l.at < at(40) {
			want = at(2.3)
		}
		if got := l.at % at(8); got != want {
			t.Errorf("the save of %s takes %s, want %s", l.at-got, got, want)
		}
	}
}

// A failed write is reported, and messages that wait for it never leave. A full disk does not hold
// the data; after an I/O error the disk may hold it.
func TestFailingDisk(t *testing.T) {
	there := map[bool]int{}
	for seed := range uint64(20) {
		for _, kind := range []OpKind{OpEIO, OpFull} {
			s := still(2, between(Op{Kind: kind, Node: "n1"}), Op{At: at(39), Kind: OpKill, Node: "n1", For: time.Millisecond})
			s.Seed = seed
			d := live(t, s)
			for _, l := range d.steps("n1", protocol.Saved) {
				if l.failed != (l.at > at(20) && l.at < at(40)) {
					t.Errorf("%s: save %d at %s failed: %t", kind, l.number, l.at, l.failed)
				}
			}
			for _, l := range d.heard("n1", "n2", at(21), at(39)) {
				if l.message.Seq == 24 || l.message.Seq == 32 {
					t.Errorf("%s: %v left", kind, l)
				}
			}
			boot := d.steps("n1", protocol.Boot)[1]
			r := protocol.NewDecoder(boot.durable)
			switch _, seq := r.Uint(), r.Uint(); {
			case kind == OpFull && seq != 16:
				t.Errorf("a full disk keeps %d, want 16", seq)
			case kind == OpEIO && seq != 16 && seq != 24 && seq != 32:
				t.Errorf("after errors it has %d", seq)
			case kind == OpEIO:
				there[seq == 16]++
			}
		}
	}
	if there[true] == 0 || there[false] == 0 {
		t.Errorf("a write that failed is there (false) or not (true): %v; want both", there)
	}
}

// The outcome of a write in progress when the process ended.
func TestCutWrites(t *testing.T) {
	for _, c := range []struct {
		kind     OpKind
		old, new bool // what is found at times
	}{
		{OpKill, true, true}, {OpPowerLoss, true, true}, {OpReboot, true, true}, {OpLoseWrites, true, false},
	} {
		found := map[uint64]int{}
		for seed := range uint64(40) {
			s := still(2, Op{At: at(24.1), Kind: c.kind, Node: "n1", For: time.Millisecond})
			s.Seed = seed
			d := live(t, s)
			boot := d.steps("n1", protocol.Boot)[1]
			r := protocol.NewDecoder(boot.durable)
			_, seq := r.Uint(), r.Uint()
			found[seq]++
			if got := d.heard("n1", "n2", at(24), at(26)); len(got) > 0 && got[0].message.Seq == 24 {
				t.Errorf("%s: %v left without its save", c.kind, got[0])
			}
		}
		if found[16]+found[24] != 40 || (found[16] > 0) != c.old || (found[24] > 0) != c.new {
			t.Errorf("%s: found %v, want 16: %t, 24: %t", c.kind, found, c.old, c.new)
		}
	}
}

// A flipped bit is found at the next start: the other slot counts. If that is bad too, the process
// does not start.
func TestFlip(t *testing.T) {
	kill := Op{At: at(30), Kind: OpKill, Node: "n1", For: time.Millisecond}
	seqs := map[uint64]bool{}
	for slot := range 2 {
		d := live(t, still(2, Op{At: at(29), Kind: OpFlip, Node: "n1", Count: slot}, kill))
		r := protocol.NewDecoder(d.steps("n1", protocol.Boot)[1].durable)
		_, seq := r.Uint(), r.Uint()
		seqs[seq] = true
		if len(d.heard("n1", "n2", at(32), never)) == 0 {
			t.Error("it does not run again")
		}
	}
	if !seqs[24] || !seqs[16] {
		t.Errorf("found %v, want the newest state, and the one before", seqs)
	}
	d := live(t, still(2, Op{At: at(29), Kind: OpFlip, Node: "n1"}, Op{At: at(29), Kind: OpFlip, Node: "n1", Count: 1}, kill))
	wantTimes(t, "n1 starts", d.boots("n1"), 0)
	// A bit that flips while the process runs is overwritten.
	d = live(t, still(2, Op{At: at(3), Kind: OpFlip, Node: "n1"}, Op{At: at(3), Kind: OpFlip, Node: "n1", Count: 1}, kill))
	wantTimes(t, "n1 starts", d.boots("n1"), 0, 31)
}

func TestRestore(t *testing.T) {
	for _, c := range []struct {
		by   time.Duration
		want uint64
	}{{5 * time.Millisecond, 40}, {25 * time.Millisecond, 24}, {time.Hour, 0}} {
		d := live(t, still(2, Op{At: at(50), Kind: OpRestore, Node: "n1", By: c.by, For: time.Millisecond}))
		boot := d.steps("n1", protocol.Boot)[1]
		seq := uint64(0)
		if boot.durable != nil {
			r := protocol.NewDecoder(boot.durable)
			_, seq = r.Uint(), r.Uint()
		}
		if seq != c.want {
			t.Errorf("%v ago its state was %d, want %d", c.by, seq, c.want)
		}
	}
}

// Saves come faster than the disk: they are written one after the other, replaced ones may be left
// out, and the last is on the disk in the end.
func TestSavesQueue(t *testing.T) {
	s := still(2)
	s.Disks.Sync = 30 * time.Millisecond
	s.Faults = 500 * time.Millisecond
	d := live(t, s)
	saved := d.steps("n1", protocol.Saved)
	skipped := 0
	for i, l := range saved[1:] {
		if gap := l.at - saved[i].at; gap < at(30) || l.number <= saved[i].number {
			t.Errorf("%v after %v", l, saved[i])
		}
		skipped += int(l.number-saved[i].number) - 1
	}
	if len(saved) < 16 || skipped == 0 {
		t.Errorf("%d writes, %d left out", len(saved), skipped)
	}
	for _, l := range d.heard("n1", "n2", 0, never) {
		if l.message.Seq%8 == 0 {
			ok := false
			for _, v := range saved {
				ok = ok || v.at == l.at-at(0.1) && v.number >= 1+l.message.Seq/8
			}
			if !ok && l.message.Seq > 30 {
				t.Errorf("%v waits for no save", l)
			}
		}
	}
}

// The slots keep one valid state, whichever write is torn.
func TestSlots(t *testing.T) {
	var d disk
	r := stream{step: 0x9e3779b97f4a7c15}
	want := byte(0)
	if data, ok := d.content(); data != nil || !ok {
		t.Fatal("a new disk is not empty")
	}
	d.tear()
	if data, ok := d.content(); data != nil || !ok {
		t.Fatal("the first write that is torn leaves no new disk")
	}
	for i := range byte(200) {
		if r.Chance(0.5) {
			d.land([]byte{i})
			want = i
		} else {
			d.tear()
		}
		data, ok := d.content()
		if want == 0 {
			continue
		}
		if !ok || len(data) != 1 || data[0] != want {
			t.Fatalf("after %d writes: %v %t, want %d", i, data, ok, want)
		}
	}
}
