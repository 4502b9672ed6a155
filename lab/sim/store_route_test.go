package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// The effect of the noise on a path, one kind at a time.
func TestStoreNoise(t *testing.T) {
	tests := []struct {
		name    string
		noise   StoreNoise
		ops     []Op
		want    protocol.Status
		from    time.Duration // how long the answer took
		to      time.Duration
		applied bool // in the end
	}{
		{"none", StoreNoise{}, nil, sDone, 2 * quickTrip, 2 * quickTrip, true},
		{"answer lost", StoreNoise{Unknown: 1}, nil, sUnknown, time.Second, time.Second, true},
		{"timeout", StoreNoise{Unknown: 1, Timeout: 300 * time.Millisecond}, nil, sUnknown, 300 * time.Millisecond, 300 * time.Millisecond, true},
		{"request lost", StoreNoise{LostAsk: 1}, nil, sUnknown, time.Second, time.Second, false},
		{"request late", StoreNoise{LateAsk: 1, Timeout: 50 * time.Millisecond}, nil, sUnknown, 50 * time.Millisecond, 50 * time.Millisecond, true},
		{"throttled", StoreNoise{Throttle: 1}, nil, sRefused, 2 * quickTrip, 2 * quickTrip, false},
		{"too slow", StoreNoise{Delay: 600 * time.Millisecond}, nil, sUnknown, time.Second, time.Second, true},
		{"unknown", StoreNoise{}, []Op{{Kind: OpStoreUnknown, Value: 1, For: time.Minute}}, sUnknown, time.Second, time.Second, true},
		{"unknown, another", StoreNoise{}, []Op{{Kind: OpStoreUnknown, Value: 1, For: time.Minute, Node: "n2"}}, sDone, 2 * quickTrip, 2 * quickTrip, true},
		{"throttle", StoreNoise{}, []Op{{Kind: OpThrottle, Value: 1, For: time.Minute}}, sRefused, 2 * quickTrip, 2 * quickTrip, false},
		{"throttle is over", StoreNoise{}, []Op{{Kind: OpThrottle, Value: 1, For: time.Millisecond}}, sDone, 2 * quickTrip, 2 * quickTrip, true},
		{"slow", StoreNoise{}, []Op{{Kind: OpStoreSlow, By: 100 * time.Millisecond, For: time.Minute}}, sDone, 200*time.Millisecond + 2*quickTrip, 200*time.Millisecond + 2*quickTrip, true},
		{"slow, another", StoreNoise{}, []Op{{Kind: OpStoreSlow, By: 100 * time.Millisecond, For: time.Minute, Node: "n3"}}, sDone, 2 * quickTrip, 2 * quickTrip, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.ops {
				test.ops[i].At = trueTime(time.Second)
			}
			d := newStoreTest(t, StoreRegister, test.noise, test.ops...)
			d.until(1100 * time.Millisecond)
			began := time.Duration(d.w.Now())
			number := d.ask(0, askWrite(0, 1))
			d.until(began + 10*time.Second)
			all := d.heard(0, number)
			if len(all) != 1 || all[0].answer.Status != test.want {
				t.Fatalf("told %+v, want %v", all, test.want)
			}
			if took := time.Duration(all[0].at) - began; took < test.from || took > test.to {
				t.Errorf("it took %v, want %v to %v", took, test.from, test.to)
			}
			if applied := d.store().server.(*register).count == 1; applied != test.applied {
				t.Errorf("applied: %v, want %v", applied, test.applied)
			}
		})
	}
}

// A late request lands long after the runtime has given up.
func TestStoreLate(t *testing.T) {
	after := 0
	for seed := range uint64(20) {
		d := seedDesk(t, StoreRegister, seed, StoreNoise{LateAsk: 1, Timeout: 100 * time.Millisecond})
		number := d.ask(0, askWrite(0, 1))
		d.wait(time.Second)
		d.wantStatuses(0, number, sUnknown)
		if d.store().server.(*register).count == 0 {
			after++
		}
		d.wait(3 * time.Second)
		if d.store().server.(*register).count != 1 {
			t.Errorf("seed %d: it never came", seed)
		}
	}
	if after < 8 {
		t.Errorf("%d of 20 late requests were later than a second", after)
	}
}

// No participant, or not that one, reaches a store that is down: a request is refused if nothing
// listens, or lost; an answer on its way is lost; and watches end when the store is back.
func TestStoreDown(t *testing.T) {
	for _, node := range []protocol.NodeID{"", "n1"} {
		t.Run("down for "+string(node), func(t *testing.T) {
			d := newStoreTest(t, StoreRegister, StoreNoise{Timeout: 100 * time.Millisecond},
				Op{At: trueTime(time.Second), Kind: OpStoreDown, Node: node, For: 10 * time.Second},
				Op{At: trueTime(2 * time.Second), Kind: OpStoreDown, Node: node, For: time.Second})
			mine, other := d.ask(0, protocol.Ask{Op: protocol.Watch}), d.ask(1, protocol.Ask{Op: protocol.Watch})
			d.until(time.Second - quickTrip - 1)
			onTheWay := d.ask(0, askWrite(0, 1)) // arrives just before, its answer does not
			d.until(4 * time.Second)
			d.wantStatuses(0, onTheWay, sUnknown)
			if d.store().server.(*register).count != 1 {
				t.Fatal("it was not applied")
			}
			became := map[protocol.Status]int{}
			for k := range uint64(40) {
				became[d.do(0, askWrite(1, k+2)).Status]++
			}
			if became[sUnknown]+became[sRefused] != 40 || became[sUnknown] < 8 || became[sRefused] < 8 {
				t.Errorf("requests became %v, want refused and unknown", became)
			}
			if node == "" {
				if s := d.do(1, askRead).Status; s == sDone {
					t.Error("another reaches it")
				}
			} else {
				d.want(1, sDone, askRead)
			}
			d.until(12 * time.Second)
			if a := d.want(0, sDone, askRead); a.Record != attemptRecord(1) {
				t.Errorf("something was applied meanwhile: %+v", a.Record)
			}
			d.wantStatuses(0, mine, sClosed)
			if node == "" {
				d.wantStatuses(1, other, sClosed)
			} else {
				d.wantStatuses(1, other, protocol.StatusEvent)
			}
		})
	}
}

// The store's leader changes: requests sent meanwhile are lost or wait, watches end, and no data is
// lost.
func TestStoreElect(t *testing.T) {
	lost, waited := 0, 0
	for seed := range uint64(20) {
		d := seedDesk(t, StoreRegister, seed, StoreNoise{Timeout: time.Second}, Op{At: trueTime(time.Second), Kind: OpStoreElect})
		number := d.ask(1, protocol.Ask{Op: protocol.Watch})
		v := d.want(0, sDone, askWrite(0, 1)).Version
		d.until(time.Second + quickTrip)
		asked := d.ask(0, askWrite(v, 2))
		d.until(3 * time.Second)
		a := d.want(1, sDone, askRead)
		switch h := d.heard(0, asked)[0]; h.answer.Status {
		case sUnknown:
			lost++
		case sDone:
			waited++
			if a.Record != attemptRecord(2) {
				t.Error("an acknowledged write is lost")
			}
		}
		if a.Version < v {
			t.Error("the first write is lost")
		}
		if all := d.statuses(1, number); all[len(all)-1] == protocol.StatusEvent {
			t.Errorf("the watch goes on: %v", all)
		}
	}
	if lost == 0 || waited == 0 {
		t.Errorf("of 20 requests %d were lost and %d waited", lost, waited)
	}
}

// The outcome of a request changes no later draw.
func TestStoreDrawsAlike(t *testing.T) {
	var states []stream
	for _, noise := range []StoreNoise{{}, {LostAsk: 1}, {LateAsk: 1}, {Unknown: 1}, {Throttle: 1}, {Repeat: 1}, {Tail: 1, Jitter: time.Millisecond}} {
		d := newStoreTest(t, StoreRegister, noise)
		for k := range uint64(5) {
			d.ask(0, askWrite(k, k))
			d.wait(5 * time.Second)
		}
		states = append(states, d.store().routes[0].random)
	}
	for i, s := range states {
		if s != states[0] {
			t.Errorf("noise %d leaves the stream elsewhere", i)
		}
	}
}

// Healing ends faults and noise, but leaves participants outside of the core cut off.
func TestStoreHeal(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{Unknown: 1, Timeout: 100 * time.Millisecond}, Op{At: trueTime(time.Second), Kind: OpStoreDown, For: time.Hour})
	d.store().core = []protocol.NodeID{"n1", "n2"}
	watch := d.ask(0, protocol.Ask{Op: protocol.Watch})
	d.until(2 * time.Second)
	d.w.store.heal(d.w)
	d.want(0, sDone, askWrite(0, 1))
	d.want(1, sDone, askRead)
	if s := d.do(2, askRead).Status; s != sRefused && s != sUnknown {
		t.Errorf("n3 is told %v", s)
	}
	d.wantStatuses(0, watch, sClosed)
}

// A dead process receives nothing; its requests may still be carried out.
func TestStoreDied(t *testing.T) {
	d := newStoreTest(t, StoreRegister, StoreNoise{Delay: 100 * time.Millisecond}, Op{At: trueTime(time.Second), Kind: OpKill, Node: "n1", For: 10 * time.Millisecond})
	watch := d.ask(0, protocol.Ask{Op: protocol.Watch})
	d.until(time.Second - time.Millisecond)
	d.ask(0, protocol.Ask{Op: protocol.Watch}) // arrives when the process is gone
	asked := d.ask(0, askWrite(0, 1))
	d.until(5 * time.Second)
	d.wantStatuses(0, asked)
	d.wantStatuses(0, watch)
	if a := d.want(1, sDone, askRead); a.Record != attemptRecord(1) {
		t.Error("what it asked was not done")
	}
	if n := len(d.store().watches); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// storeRound is a request and all its consequences; the same requests again and again, with a watch
// on each change.
func storeRound(w *World, number *uint64, asks ...protocol.Ask) {
	for i := range asks {
		a := &asks[i]
		*number++
		a.Number = *number
		if r, ok := w.store.(*store).server.(*register); ok {
			a.Version = r.now().version
		}
		w.store.ask(w, w.nodes[0], a)
		until := w.now + Time(4*quickTrip)
		for len(w.agenda) > 0 && w.agenda[0].at <= until && w.Step() {
		}
		w.now = until
	}
}

// steadyStore is a world with a store and what to ask it for ever.
func steadyStore(t testing.TB, kind StoreKind) (w *World, number *uint64, asks []protocol.Ask) {
	w, number = storeWorld(t, kind), new(uint64)
	if kind == StoreRegister {
		storeRound(w, number, protocol.Ask{Op: protocol.Watch})
		return w, number, []protocol.Ask{{Op: protocol.Read}, {Op: protocol.Write}, {Op: protocol.Write, Record: protocol.Record{Holder: "n1"}}}
	}
	storeRound(w, number, protocol.Ask{Op: protocol.OpenSession, TTL: 10 * time.Second}, protocol.Ask{Op: protocol.Enter, Session: 1})
	e := protocol.Entry{Order: 2, Session: 1}
	if kind == StoreZooKeeper {
		e.Order += 1 << 32
	}
	return w, number, []protocol.Ask{
		{Op: protocol.KeepAlive, Session: 1}, {Op: protocol.List, Session: 1}, {Op: protocol.Verify, Session: 1, Entry: e},
		{Op: protocol.WatchEntry, Session: 1, Entry: e, Revision: 1 << 40}, {Op: protocol.Touch, Session: 1, Entry: e},
	}
}

// A store in steady state allocates nothing.
func TestStoreAllocates(t *testing.T) {
	for _, kind := range storeKinds {
		w, number, asks := steadyStore(t, kind)
		for range 1000 {
			storeRound(w, number, asks...)
		}
		if n := testing.AllocsPerRun(1000, func() { storeRound(w, number, asks...) }); n != 0 {
			t.Errorf("%s: %v allocations in %d requests", kind, n, len(asks))
		}
		if kind == StoreRegister && w.store.(*store).server.(*register).count < 2000 {
			t.Error("nothing was written")
		}
	}
}

func BenchmarkStore(b *testing.B) {
	for _, kind := range storeKinds {
		b.Run(string(kind), func(b *testing.B) {
			w, number, asks := steadyStore(b, kind)
			began := w.events
			b.ReportAllocs()
			for b.Loop() {
				storeRound(w, number, asks...)
			}
			b.ReportMetric(float64(w.events-began)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
