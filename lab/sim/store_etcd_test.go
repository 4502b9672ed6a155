package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

const etcdTTL3 = 3 * time.Second

var askList = protocol.Ask{Op: protocol.List}

func askOpen(ttl time.Duration) protocol.Ask { return protocol.Ask{Op: protocol.OpenSession, TTL: ttl} }

// join opens a session and enters.
func (d *storeTest) join(i int, ttl time.Duration) protocol.Entry {
	d.t.Helper()
	session := d.want(i, sDone, askOpen(ttl)).Session
	nonce := protocol.Nonce{uint64(i), session}
	e := d.want(i, sDone, protocol.Ask{Op: protocol.Enter, Session: session, Nonce: nonce}).Entry
	if want := (protocol.Entry{Order: e.Order, Session: session, Holder: voterID(i), Nonce: nonce}); e != want {
		d.t.Fatalf("entered as %+v, want %+v", e, want)
	}
	return e
}

// orders are those of the entries that a participant sees.
func (d *storeTest) orders(i int, session uint64) []uint64 {
	d.t.Helper()
	var all []uint64
	for _, e := range d.want(i, sDone, protocol.Ask{Op: protocol.List, Session: session}).Entries {
		all = append(all, e.Order)
	}
	return all
}

func askAbout(o protocol.Op, e protocol.Entry) protocol.Ask {
	return protocol.Ask{Op: o, Session: e.Session, Entry: e}
}

// etcd raises a TTL silently, to whole seconds and to one and a half election timeouts.
func TestEtcdTTL(t *testing.T) {
	d := newStoreTest(t, StoreEtcd, StoreNoise{})
	for wish, want := range map[time.Duration]time.Duration{
		time.Millisecond: 2 * time.Second, 1500 * time.Millisecond: 2 * time.Second, 2 * time.Second: 2 * time.Second, 2001 * time.Millisecond: 3 * time.Second,
	} {
		a := d.want(0, sDone, askOpen(wish))
		if a.TTL != want {
			t.Errorf("asked for %v, granted %v, want %v", wish, a.TTL, want)
		}
		if b := d.want(0, sDone, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session}); b.TTL != want {
			t.Errorf("a keep-alive tells %v, want %v", b.TTL, want)
		}
	}
}

// A lease lives for its TTL by the server's clock, and little longer; then its key is deleted, in
// one revision.
func TestEtcdExpires(t *testing.T) {
	for _, rate := range []int64{0, 50_000, -50_000} {
		prompt := 0
		for seed := range uint64(10) {
			d := seedDesk(t, StoreEtcd, seed, StoreNoise{Rate: rate})
			began := d.w.Now()
			e := d.join(0, etcdTTL3)
			watch := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Entry: e, Revision: e.Order})
			granted := began + trueTime(quickTrip)
			ttl := int64(etcdTTL3) * 1_000_000 / (1_000_000 + rate)
			d.until(time.Duration(granted) + time.Duration(ttl) - 10*time.Millisecond)
			if n := len(d.orders(1, 0)); n != 1 {
				t.Fatalf("rate %d: %d entries just before the end", rate, n)
			}
			d.until(time.Duration(granted) + time.Duration(ttl) + 2*time.Millisecond)
			d.want(0, sGone, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session})
			if len(d.orders(1, 0)) == 0 {
				prompt++
			}
			d.wait(etcdSweep)
			if n := len(d.orders(1, 0)); n != 0 {
				t.Fatalf("rate %d: %d entries after the end", rate, n)
			}
			d.wantStatuses(1, watch, sEvent, sClosed)
			d.want(0, sGone, protocol.Ask{Op: protocol.CloseSession, Session: e.Session})
			d.want(0, sGone, protocol.Ask{Op: protocol.Enter, Session: e.Session})
		}
		if prompt == 0 || prompt == 10 {
			t.Errorf("rate %d: %d of 10 leases went at once, the others late", rate, prompt)
		}
	}
}

func TestEtcdKeepAlive(t *testing.T) {
	d := newStoreTest(t, StoreEtcd, StoreNoise{})
	e := d.join(0, etcdTTL3)
	for range 10 {
		d.wait(2 * time.Second)
		d.want(0, sDone, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session})
	}
	if got := d.orders(1, 0); !slices.Equal(got, []uint64{e.Order}) {
		t.Errorf("entries %v, want %d", got, e.Order)
	}
}

// A key is named after its lease: entering again answers with it. A create in flight lands after
// the key was deleted, unless the lease was deleted too.
func TestEtcdDelayedCreate(t *testing.T) {
	d := newStoreTest(t, StoreEtcd, StoreNoise{Repeat: 1})
	e := d.join(0, etcdTTL3)
	if again := d.want(0, sDone, protocol.Ask{Op: protocol.Enter, Session: e.Session, Nonce: protocol.Nonce{9, 9}}); again.Entry != e {
		t.Errorf("entered as %+v, and again as %+v", e, again.Entry)
	}
	for _, test := range []struct {
		leave protocol.Ask
		want  int
	}{{askAbout(protocol.Leave, e), 1}, {protocol.Ask{Op: protocol.CloseSession, Session: e.Session}, 0}} {
		var found []int
		for seed := range uint64(10) {
			d := seedDesk(t, StoreEtcd, seed, StoreNoise{Timeout: 100 * time.Millisecond})
			e := d.join(0, etcdTTL3)
			test.leave.Session, test.leave.Entry = e.Session, e
			d.store().noise.LateAsk = 1
			d.ask(0, protocol.Ask{Op: protocol.Enter, Session: e.Session})
			d.store().noise.LateAsk = 0
			d.want(0, sDone, test.leave)
			d.wait(time.Second)
			d.want(0, map[int]protocol.Status{1: sDone, 0: sGone}[test.want], protocol.Ask{Op: protocol.KeepAlive, Session: e.Session})
			d.wait(2010 * time.Millisecond)
			orders := d.orders(1, 0)
			if len(orders) == 1 && orders[0] <= e.Order {
				t.Error("the entry came back with its old order")
			}
			found = append(found, len(orders))
		}
		if got := slices.Max(found); got != test.want {
			t.Errorf("after %v there are %v entries, want %d", test.leave.Op, found, test.want)
		}
	}
}

func TestEtcdQueue(t *testing.T) {
	d := newStoreTest(t, StoreEtcd, StoreNoise{})
	if m := d.want(0, sDone, askList).Mark; m != (protocol.QueueMark{}) {
		t.Errorf("a new queue has the mark %+v", m)
	}
	a, b, c := d.join(0, etcdTTL3), d.join(1, etcdTTL3), d.join(2, etcdTTL3)
	if !(a.Order < b.Order && b.Order < c.Order) || a.Holder != "n1" || c.Holder != "n3" || b.Nonce == c.Nonce {
		t.Fatalf("entered as %+v, %+v, %+v", a, b, c)
	}
	l := d.want(2, sDone, askList)
	if !slices.Equal(l.Entries, []protocol.Entry{a, b, c}) || l.Revision != c.Order {
		t.Errorf("listed %+v", l)
	}
	if v := d.want(1, sDone, askAbout(protocol.Verify, b)); v.Entry != a {
		t.Errorf("the first is %+v, want %+v", v.Entry, a)
	}
	stolen := b
	stolen.Session = a.Session
	d.want(1, sGone, askAbout(protocol.Verify, stolen))

	onB := d.ask(2, protocol.Ask{Op: protocol.WatchEntry, Entry: b, Revision: l.Revision})
	onA := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Entry: a, Revision: l.Revision})
	d.wait(10 * time.Millisecond)
	held := protocol.QueueMark{Order: a.Order, Held: true, Hold: time.Second}
	mark := askAbout(protocol.Mark, a)
	mark.Mark = held
	d.want(0, sDone, mark)
	if m := d.want(1, sDone, askList).Mark; m != held {
		t.Errorf("the mark is %+v, want %+v", m, held)
	}
	d.wantStatuses(1, onA)

	leave := askAbout(protocol.Leave, a)
	leave.SetMark, leave.Mark = true, protocol.QueueMark{Order: a.Order}
	d.want(0, sDone, leave)
	d.wait(10 * time.Millisecond)
	d.wantStatuses(1, onA, sEvent, sClosed)
	d.wantStatuses(2, onB)
	if l := d.want(1, sDone, askList); l.Mark != leave.Mark || !slices.Equal(l.Entries, []protocol.Entry{b, c}) {
		t.Errorf("listed %+v", l)
	}
	// Neither the mark nor the entry changes: it is one transaction.
	leave.Mark.Order = 99
	d.want(0, sGone, leave)
	mark.Mark.Order = 99
	d.want(0, sGone, mark)
	d.want(0, sGone, askAbout(protocol.Touch, a))
	if m := d.want(1, sDone, askList).Mark; m.Order != a.Order {
		t.Errorf("a transaction that failed has left the mark %+v", m)
	}
	// A deletion that has already happened fires the watch at once.
	late := d.ask(2, protocol.Ask{Op: protocol.WatchEntry, Entry: a, Revision: l.Revision})
	d.wait(10 * time.Millisecond)
	d.wantStatuses(2, late, sEvent, sClosed)
	// So does a touch since the revision the watch of touches; a later touch fires it when it comes. The entry is the
	// same, and no change of it is told. A watch of touches does not tell the end of the entry.
	held.Order = b.Order
	mark = askAbout(protocol.Mark, b)
	mark.Mark = held
	d.want(1, sDone, mark)
	r := d.want(1, sDone, askAbout(protocol.Touch, b)).Revision
	before := d.ask(2, protocol.Ask{Op: protocol.WatchTouch, Entry: b, Revision: r - 1})
	after := d.ask(0, protocol.Ask{Op: protocol.WatchTouch, Entry: b, Revision: r})
	entry := d.ask(0, protocol.Ask{Op: protocol.WatchEntry, Entry: b, Revision: r - 1})
	d.wait(10 * time.Millisecond)
	d.wantStatuses(2, before, sEvent)
	d.wantStatuses(0, after)
	d.want(1, sDone, askAbout(protocol.Touch, b))
	d.wait(10 * time.Millisecond)
	d.wantStatuses(2, before, sEvent, sEvent)
	d.wantStatuses(0, after, sEvent)
	d.wantStatuses(0, entry)
	d.want(1, sDone, askAbout(protocol.Leave, b))
	d.wait(10 * time.Millisecond)
	d.wantStatuses(0, after, sEvent)
	d.wantStatuses(0, entry, sEvent, sClosed)
	d.want(0, sRefused, protocol.Ask{Op: protocol.Write})
}

// A watch from before the oldest kept revision is closed: compacted.
func TestEtcdCompaction(t *testing.T) {
	d := newStoreTest(t, StoreEtcd, StoreNoise{})
	e := d.join(0, etcdTTL3)
	for range 2 * depth {
		d.want(0, sDone, askAbout(protocol.Touch, e))
		d.want(0, sDone, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session})
	}
	number := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Entry: e, Revision: e.Order})
	d.wait(10 * time.Millisecond)
	d.wantStatuses(1, number, sClosed)
}

// A lost event of a watch is noticed in the end: its runtime detects that the watch is dead.
func TestQueueWatchLost(t *testing.T) {
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		for name, noise := range map[string]StoreNoise{"noise": {WatchLoss: 1}, "fault": {}} {
			var ops []Op
			if name == "fault" {
				ops = append(ops, Op{At: trueTime(100 * time.Millisecond), Kind: OpWatchLoss, For: time.Minute})
			}
			d := newStoreTest(t, kind, noise, ops...)
			a, b := d.join(0, 30*time.Second), d.join(1, 30*time.Second)
			number := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Session: b.Session, Entry: a, Revision: b.Order})
			d.until(time.Second)
			d.want(0, sDone, askAbout(protocol.Leave, a))
			d.wait(500 * time.Millisecond)
			d.wantStatuses(1, number)
			d.wait(5 * time.Second)
			d.wantStatuses(1, number, sClosed)
		}
	}
}

func TestQueueWatchTwiceAndClosed(t *testing.T) {
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		for _, test := range []struct {
			noise StoreNoise
			op    Op
			want  []protocol.Status
		}{
			{StoreNoise{WatchTwice: 1}, Op{}, []protocol.Status{sEvent, sEvent, sClosed}},
			{StoreNoise{}, Op{Kind: OpWatchDouble, For: time.Minute}, []protocol.Status{sEvent, sEvent, sClosed}},
			{StoreNoise{WatchClose: 1}, Op{}, []protocol.Status{sClosed}},
			{StoreNoise{}, Op{Kind: OpWatchClose}, []protocol.Status{sClosed}},
		} {
			var ops []Op
			if test.op.Kind != "" {
				test.op.At = trueTime(500 * time.Millisecond)
				ops = append(ops, test.op)
			}
			d := newStoreTest(t, kind, test.noise, ops...)
			a, b := d.join(0, 30*time.Second), d.join(1, 30*time.Second)
			number := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Session: b.Session, Entry: a, Revision: b.Order})
			d.until(time.Second)
			d.want(0, sDone, askAbout(protocol.Leave, a))
			d.wait(5 * time.Second)
			d.wantStatuses(1, number, test.want...)
		}
	}
}

// A new leader gives all leases their time again, and an election timeout more. The old one answers
// keep-alives meanwhile and after, for two of its election timeouts in all; they renew nothing.
func TestEtcdLeaderChange(t *testing.T) {
	deposed, soonest, latest := 0, 0, 0
	for seed := range uint64(20) {
		for _, rate := range []int64{0, 50_000} {
			d := seedDesk(t, StoreEtcd, seed, StoreNoise{Rate: rate, Timeout: 100 * time.Millisecond}, Op{At: trueTime(2 * time.Second), Kind: OpStoreElect})
			e := d.join(0, etcdTTL3)
			watch := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Entry: e, Revision: e.Order})
			d.until(2*time.Second + time.Millisecond)
			p := d.store().serving
			elected := trueTime(2*time.Second) + trueTime(etcdElection)*1_000_000/Time(1_000_000+rate)
			if p < elected || p > elected+trueTime(etcdElection) {
				t.Fatalf("a new leader at %v, want one from %v on", p, elected)
			}
			if p == elected {
				soonest++
			}
			// It goes on asking until the last moment at which the old leader may answer.
			last := Time(0)
			for d.w.Now() < p+trueTime(2*etcdElection) {
				if until := d.store().routes[0].deposed; until <= d.w.Now()+trueTime(3*time.Millisecond) {
					break
				}
				a := d.want(0, sDone, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session})
				if last = d.w.Now(); a.TTL != etcdTTL3 {
					t.Fatalf("a TTL of %v", a.TTL)
				}
				if d.do(0, askList).Status != sUnknown {
					t.Fatal("an old leader reads through a quorum that it has not")
				}
			}
			if last > p {
				deposed++
			}
			stepsDown := trueTime(2*time.Second) + trueTime(2*etcdElection)*1_000_000/Time(1_000_000-rate)
			if last > stepsDown {
				t.Fatalf("the old leader answered at %v, and should have stepped down by %v", last, stepsDown)
			}
			if d.store().routes[0].deposed == stepsDown {
				latest++
			}
			ttl := trueTime(etcdTTL3+etcdElection) * 1_000_000 / Time(1_000_000+rate)
			d.until(time.Duration(p + ttl - trueTime(5*time.Millisecond)))
			if n := len(d.orders(1, 0)); n != 1 {
				t.Fatalf("seed %d: the entry is gone before its time", seed)
			}
			d.until(time.Duration(p+ttl) + etcdSweep + 5*time.Millisecond)
			if n := len(d.orders(1, 0)); n != 0 {
				t.Fatalf("seed %d: the old leader's answers have prolonged the lease", seed)
			}
			d.wantStatuses(1, watch, sClosed)
		}
	}
	if deposed == 0 || soonest == 0 || latest == 0 {
		t.Errorf("%d old leaders answered after the new one began; %d times that began as soon as it can, %d times the old one ended as late as it can; want some of each", deposed, soonest, latest)
	}
}

func TestQueueExpiry(t *testing.T) {
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		t.Run(string(kind), func(t *testing.T) {
			d := newStoreTest(t, kind, StoreNoise{}, Op{At: trueTime(time.Second), Kind: OpExpireEarly, Node: "n1"})
			a, b := d.join(0, 4*time.Second), d.join(1, 4*time.Second)
			d.until(1100 * time.Millisecond)
			if got := d.orders(1, b.Session); !slices.Equal(got, []uint64{b.Order}) {
				t.Errorf("entries %v, want n2's only: %d", got, b.Order)
			}
			if s := d.do(0, askAbout(protocol.Touch, a)).Status; s != sGone {
				t.Errorf("n1 is told %v", s)
			}
			// Late: n1 and n2 are silent, and stay for that much longer.
			d = newStoreTest(t, kind, StoreNoise{},
				Op{At: trueTime(time.Second), Kind: OpExpireLate, For: time.Minute, By: 5 * time.Second},
				Op{At: trueTime(1100 * time.Millisecond), Kind: OpKill, Node: "n1", For: time.Hour})
			a = d.join(0, 4*time.Second)
			b = d.join(2, time.Minute)
			d.until(8 * time.Second)
			if !slices.Contains(d.orders(2, b.Session), a.Order) {
				t.Error("it expired in time")
			}
			d.until(12 * time.Second)
			if slices.Contains(d.orders(2, b.Session), a.Order) {
				t.Error("it never expired")
			}
		})
	}
}

func TestQueueForeignDelete(t *testing.T) {
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		d := newStoreTest(t, kind, StoreNoise{}, Op{At: trueTime(time.Second), Kind: OpForeign, Node: "n2"}, Op{At: trueTime(2 * time.Second), Kind: OpForeign})
		a, b, c := d.join(0, time.Minute), d.join(1, time.Minute), d.join(2, time.Minute)
		d.until(1100 * time.Millisecond)
		if got := d.orders(2, c.Session); !slices.Equal(got, []uint64{a.Order, c.Order}) {
			t.Errorf("%s: entries %v, want all but %d", kind, got, b.Order)
		}
		d.until(2100 * time.Millisecond)
		if got := d.orders(2, c.Session); !slices.Equal(got, []uint64{c.Order}) {
			t.Errorf("%s: entries %v, want %d", kind, got, c.Order)
		}
	}
}

// A failover loses acknowledged data. etcd's revisions repeat, as from an older snapshot;
// ZooKeeper's do not.
func TestQueueFailover(t *testing.T) {
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		t.Run(string(kind), func(t *testing.T) {
			d := newStoreTest(t, kind, StoreNoise{}, Op{At: trueTime(time.Second), Kind: OpFailover, Count: 3})
			a, b := d.join(0, time.Minute), d.join(1, time.Minute)
			mark := askAbout(protocol.Mark, a)
			mark.Mark = protocol.QueueMark{Order: a.Order, Held: true}
			d.want(0, sDone, mark)
			was := d.want(0, sDone, askAbout(protocol.List, a))
			d.want(0, sDone, askAbout(protocol.Leave, a))
			z := d.want(2, sDone, askOpen(time.Minute)).Session
			d.until(1100 * time.Millisecond)
			// Lost: n1's leaving, its mark, and n3's session.
			is := d.want(1, sDone, askAbout(protocol.List, b))
			if !slices.Equal(is.Entries, []protocol.Entry{a, b}) || is.Mark != (protocol.QueueMark{}) {
				t.Errorf("after the failover: %+v", is)
			}
			if is.Store == was.Store {
				t.Error("it is the same incarnation")
			}
			d.want(2, sGone, protocol.Ask{Op: protocol.Enter, Session: z})
			c := d.join(2, time.Minute)
			if again := c.Order <= was.Revision; again != (kind == StoreEtcd) {
				t.Errorf("orders come again: %v", again)
			}
		})
	}
}

// Deleted items are dropped after a while, and only then.
func TestQueueForgets(t *testing.T) {
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		d := newStoreTest(t, kind, StoreNoise{})
		keep := d.join(2, time.Hour)
		for range 500 {
			d.want(0, sDone, askAbout(protocol.CloseSession, d.join(0, time.Hour)))
			if kind == StoreEtcd {
				d.want(2, sDone, protocol.Ask{Op: protocol.KeepAlive, Session: keep.Session})
			}
		}
		if got := d.orders(2, keep.Session); !slices.Equal(got, []uint64{keep.Order}) {
			t.Errorf("%s: entries %v", kind, got)
		}
		var q *queue
		switch v := d.store().server.(type) {
		case *etcd:
			q = &v.queue
		case *zookeeper:
			q = &v.queue
		}
		if n := len(q.items) + len(q.sessions) + len(q.marks); n > 5*depth {
			t.Errorf("%s: %d things are remembered", kind, n)
		}
	}
}
