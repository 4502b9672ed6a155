package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func attemptRecord(attempt uint64) protocol.Record {
	return protocol.Record{Holder: "n1", Attempt: attempt}
}

func askWrite(version, attempt uint64) protocol.Ask {
	return protocol.Ask{Op: protocol.Write, Version: version, Record: attemptRecord(attempt)}
}

var askRead = protocol.Ask{Op: protocol.Read}

func TestRegisterComparesAndSets(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{})
	if a := d.want(0, sDone, askRead); a.Version != 0 || a.Store == "" {
		t.Errorf("an absent record reads %+v", a)
	}
	d.want(0, sConflict, askWrite(7, 1))
	first := d.want(0, sDone, askWrite(0, 1))
	if a := d.want(1, sDone, askRead); a.Version != first.Version || a.Record != attemptRecord(1) {
		t.Errorf("read %+v, want version %d of attempt 1", a, first.Version)
	}
	d.want(1, sConflict, askWrite(0, 2))
	second := d.want(1, sDone, askWrite(first.Version, 2))
	if second.Version == first.Version {
		t.Error("two contents have one version")
	}
	if a := d.want(1, sDone, askWrite(second.Version, 2)); a.Version != second.Version {
		t.Error("a write that changes nothing made a version")
	}
	d.want(1, sConflict, protocol.Ask{Op: protocol.Delete, Version: first.Version})
	d.want(1, sDone, protocol.Ask{Op: protocol.Delete, Version: second.Version})
	if a := d.want(0, sDone, askRead); a.Version != 0 || a.Record != (protocol.Record{}) {
		t.Errorf("a deleted record reads %+v", a)
	}
	if a := d.want(0, sDone, askWrite(0, 1)); a.Version == first.Version {
		t.Error("a version came again")
	}
	d.want(0, sRefused, protocol.Ask{Op: protocol.Enter})
}

// The library repeats a write that had succeeded, and reports a conflict.
func TestRegisterConflictsWithItself(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{Repeat: 1})
	d.want(0, sConflict, askWrite(0, 1))
	if a := d.want(0, sDone, askRead); a.Record != attemptRecord(1) {
		t.Errorf("the record is %+v, want the first attempt", a.Record)
	}
}

func TestRegisterWatch(t *testing.T) {
	tests := []struct {
		name  string
		noise StoreNoise
		op    Op
		want  []protocol.Status // of the watch, after three writes
	}{
		{name: "clean", want: []protocol.Status{sEvent, sEvent, sEvent}},
		{name: "lost by noise", noise: StoreNoise{WatchLoss: 1}},
		{name: "lost", op: Op{Kind: OpWatchLoss, For: time.Minute}},
		{name: "doubled by noise", noise: StoreNoise{WatchTwice: 1}, want: []protocol.Status{sEvent, sEvent, sEvent, sEvent, sEvent, sEvent}},
		{name: "doubled", op: Op{Kind: OpWatchDouble, For: time.Minute}, want: []protocol.Status{sEvent, sEvent, sEvent, sEvent, sEvent, sEvent}},
		{name: "closed by noise", noise: StoreNoise{WatchClose: 1}, want: []protocol.Status{sClosed}},
		{name: "closed", op: Op{Kind: OpWatchClose, Node: "n2"}, want: []protocol.Status{sClosed}},
		{name: "another's closed", op: Op{Kind: OpWatchClose, Node: "n1"}, want: []protocol.Status{sEvent, sEvent, sEvent}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ops []Op
			if test.op.Kind != "" {
				test.op.At = trueTime(time.Second)
				ops = append(ops, test.op)
			}
			d := newStoreTest(t, StoreRegister, test.noise, ops...)
			number := d.ask(1, protocol.Ask{Op: protocol.Watch})
			d.until(2 * time.Second)
			v := uint64(0)
			for k := range uint64(3) {
				v = d.want(0, sDone, askWrite(v, k)).Version
			}
			d.wait(4 * time.Second)
			d.wantStatuses(1, number, test.want...)
			for _, h := range d.heard(1, number) {
				if h.answer.Status == sEvent && h.answer.Version == 0 {
					t.Error("an event without a version")
				}
			}
		})
	}
}

// A watch may show an earlier record; a read may not.
func TestRegisterStale(t *testing.T) {
	for name, ops := range map[string][]Op{"noise": nil, "fault": {{At: trueTime(time.Second), Kind: OpStaleRead, Node: "n2", By: 2 * time.Second, For: time.Minute}}} {
		t.Run(name, func(t *testing.T) {
			noise := StoreNoise{StaleRead: 1}
			if ops != nil {
				noise = StoreNoise{}
			}
			d := newStoreTest(t, StoreRegister, noise, ops...)
			number := d.ask(1, protocol.Ask{Op: protocol.Watch})
			d.until(2 * time.Second)
			v, last := uint64(0), uint64(0)
			for k := range uint64(30) {
				v = d.want(0, sDone, askWrite(v, k)).Version
				if a := d.want(1, sDone, askRead); a.Version != v {
					t.Fatalf("a askRead shows version %d, want %d", a.Version, v)
				}
				d.wait(50 * time.Millisecond)
			}
			d.wait(4 * time.Second)
			older, back := 0, 0
			for k, h := range d.heard(1, number) {
				if h.answer.Version < uint64(k)+1 {
					older++
				}
				if h.answer.Version < last {
					back++
				}
				last = h.answer.Version
			}
			if older < 10 || back == 0 {
				t.Errorf("of 30 events %d were stale and %d went back", older, back)
			}
		})
	}
}

func TestRegisterForeignDelete(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{}, Op{At: trueTime(time.Second), Kind: OpForeign, Node: "n2"})
	number := d.ask(1, protocol.Ask{Op: protocol.Watch})
	d.want(0, sDone, askWrite(0, 1))
	d.until(2 * time.Second)
	if a := d.want(0, sDone, askRead); a.Version != 0 {
		t.Errorf("the record is still there: %+v", a)
	}
	d.wantStatuses(1, number, sEvent, sEvent)
}

// A failover loses acknowledged writes, reports another incarnation, and gives no version twice.
func TestRegisterFailover(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{}, Op{At: trueTime(time.Second), Kind: OpFailover, Count: 2}, Op{At: trueTime(2 * time.Second), Kind: OpFailover, Count: 100})
	number := d.ask(1, protocol.Ask{Op: protocol.Watch})
	versions := []uint64{0}
	for k := range uint64(3) {
		versions = append(versions, d.want(0, sDone, askWrite(versions[k], k+1)).Version)
	}
	was := d.want(0, sDone, askRead)
	d.until(1500 * time.Millisecond)
	is := d.want(0, sDone, askRead)
	if is.Record != attemptRecord(1) || is.Version != versions[1] {
		t.Errorf("after the failover it reads %+v, want the first write", is)
	}
	if is.Store == was.Store {
		t.Error("it is the same incarnation")
	}
	if a := d.want(0, sDone, askWrite(is.Version, 9)); a.Version <= versions[3] {
		t.Errorf("version %d came again", a.Version)
	}
	d.wantStatuses(1, number, sEvent, sEvent, sEvent, sClosed)
	d.until(2500 * time.Millisecond)
	if a := d.want(0, sDone, askRead); a.Version != 0 {
		t.Errorf("after a failover to the beginning it reads %+v", a)
	}
}

// The history is bounded, and a failover goes no further back.
func TestRegisterRemembers(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{})
	v := uint64(0)
	for k := range uint64(3 * depth) {
		v = d.want(0, sDone, askWrite(v, k+1)).Version
	}
	r := d.store().server.(*register)
	for range 3 {
		r.failover(d.store(), d.w, 1000)
		if got := r.now().record; got != attemptRecord(2*depth+1) {
			t.Fatalf("it went back to %+v", got)
		}
	}
}
