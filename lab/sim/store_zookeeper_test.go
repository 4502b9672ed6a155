package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

const zkTTL = 4 * time.Second

func zkAsk(o protocol.Op, session uint64) protocol.Ask { return protocol.Ask{Op: o, Session: session} }

// A client library keeps a session alive as long as its process runs. When that is killed, or
// stopped for too long, the leader lets the session expire within a tick of its time, and its
// entries are deleted.
func TestZooKeeperSession(t *testing.T) {
	tests := []struct {
		name string
		op   Op
		from time.Duration // when the entry goes; 0: never
		to   time.Duration
	}{
		{"alive", Op{}, 0, 0},
		{"killed", Op{Kind: OpKill, Node: "n1", For: time.Hour}, 10*time.Second + zkTTL*2/3, 10*time.Second + zkTTL + 2*zkTick},
		{"back, with another session", Op{Kind: OpKill, Node: "n1", For: time.Millisecond}, 10*time.Second + zkTTL*2/3, 10*time.Second + zkTTL + 2*zkTick},
		{"stopped", Op{Kind: OpPause, Node: "n1", For: time.Hour}, 10*time.Second + zkTTL*2/3, 10*time.Second + zkTTL + 2*zkTick},
		{"stopped for a moment", Op{Kind: OpPause, Node: "n1", For: zkTTL / 4}, 0, 0},
		{"cut off", Op{Kind: OpStoreDown, Node: "n1", For: time.Hour}, 10*time.Second + zkTTL*2/3, 10*time.Second + zkTTL + 2*zkTick},
		{"cut off for a moment", Op{Kind: OpStoreDown, Node: "n1", For: zkTTL / 4}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ops []Op
			if test.op.Kind != "" {
				test.op.At = trueTime(10 * time.Second)
				ops = append(ops, test.op)
			}
			d := newStoreTest(t, StoreZooKeeper, StoreNoise{}, ops...)
			e, b := d.join(0, zkTTL), d.join(1, time.Minute)
			watch := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Session: b.Session, Entry: e, Revision: e.Order})
			d.until(60 * time.Second)
			all := d.heard(1, watch)
			if test.from == 0 {
				if len(all) != 0 {
					t.Fatalf("it expired: %+v", all)
				}
				d.want(0, sDone, askAbout(protocol.Touch, e))
				return
			}
			if len(all) != 2 || all[0].at < Time(test.from) || all[0].at > Time(test.to) {
				t.Fatalf("the watch was told %+v, want the end at %v to %v", all, test.from, test.to)
			}
		})
	}
}

// A sequential create makes another node each time; so does a library that repeats it.
func TestZooKeeperEnterTwice(t *testing.T) {
	d := newStoreTest(t, StoreZooKeeper, StoreNoise{})
	e := d.join(0, zkTTL)
	again := protocol.Ask{Op: protocol.Enter, Session: e.Session, Nonce: e.Nonce}
	f := d.want(0, sDone, again).Entry
	if f.Order <= e.Order || f.Nonce != e.Nonce {
		t.Errorf("entered as %+v, and again as %+v", e, f)
	}
	d.store().noise.Repeat = 1
	g := d.want(0, sDone, again).Entry
	if got := d.orders(0, e.Session); len(got) != 4 || got[3] != g.Order {
		t.Errorf("entries %v, want four, the last answered", got)
	}
	d.store().noise.Repeat = 0
	d.want(0, sDone, zkAsk(protocol.CloseSession, e.Session))
	d.want(0, sGone, again)
}

// A read from a follower may lag, but not behind what the client has seen of it, and not behind a
// write of the same session.
func TestZooKeeperLags(t *testing.T) {
	for name, noise := range map[string]StoreNoise{"noise": {StaleRead: 1}, "fault": {}} {
		t.Run(name, func(t *testing.T) {
			var ops []Op
			if name == "fault" {
				ops = append(ops, Op{At: trueTime(100 * time.Millisecond), Kind: OpStaleRead, For: time.Hour, By: time.Second})
			}
			behind := 0
			for seed := range uint64(10) {
				d := seedDesk(t, StoreZooKeeper, seed, noise, ops...)
				d.until(200 * time.Millisecond)
				reader := d.want(1, sDone, askOpen(time.Hour)).Session
				writer := d.want(0, sDone, askOpen(time.Hour)).Session
				last := 0
				for k := range 20 {
					d.wait(30 * time.Millisecond)
					d.want(0, sDone, zkAsk(protocol.Enter, writer))
					n := len(d.orders(1, reader))
					if n < last {
						t.Fatalf("a client saw %d entries, and then %d", last, n)
					}
					if n < k+1 {
						behind++
					}
					if k%5 == 4 {
						d.want(1, sDone, zkAsk(protocol.Sync, reader))
						if n = len(d.orders(1, reader)); n != k+1 {
							t.Fatalf("after a sync it sees %d of %d entries", n, k+1)
						}
					}
					last = n
				}
				if n := len(d.orders(0, writer)); n != 20 {
					t.Errorf("the writer sees %d of 20 entries", n)
				}
			}
			if behind < 50 {
				t.Errorf("%d of 200 reads were behind", behind)
			}
		})
	}
}

// A follower may hide an entry from the very client that made it, if the answer was lost; a write
// on the same session makes it visible.
func TestZooKeeperHidesUnknownEnter(t *testing.T) {
	hidden := 0
	for seed := range uint64(10) {
		d := seedDesk(t, StoreZooKeeper, seed, StoreNoise{StaleRead: 1, Timeout: 50 * time.Millisecond})
		session := d.want(0, sDone, askOpen(time.Minute)).Session
		d.store().noise.Unknown = 1
		d.want(0, sUnknown, zkAsk(protocol.Enter, session))
		d.store().noise.Unknown = 0
		if len(d.orders(0, session)) == 0 {
			hidden++
		}
		d.want(0, sDone, zkAsk(protocol.Sync, session))
		if len(d.orders(0, session)) != 1 {
			t.Fatal("a write on this session does not bring it up")
		}
	}
	if hidden == 0 {
		t.Error("no follower hid the entry")
	}
}

// After a later write of the same session an earlier one does not land any more, and nothing does
// after its end.
func TestZooKeeperRefusesLateWrites(t *testing.T) {
	landed := 0
	for seed := range uint64(20) {
		for _, barrier := range []protocol.Op{0, protocol.Sync, protocol.CloseSession} {
			d := seedDesk(t, StoreZooKeeper, seed, StoreNoise{Timeout: 50 * time.Millisecond})
			session := d.want(0, sDone, askOpen(time.Minute)).Session
			other := d.want(1, sDone, askOpen(time.Minute)).Session
			d.store().noise.LateAsk = 1
			d.ask(0, zkAsk(protocol.Enter, session))
			d.store().noise.LateAsk = 0
			before := 0
			if barrier != 0 {
				d.want(0, sDone, zkAsk(barrier, session))
				before = len(d.orders(1, other))
			}
			d.wait(longest)
			n := len(d.orders(1, other))
			switch {
			case barrier == 0:
				landed += n
			case n != before:
				t.Fatalf("seed %d: a create landed after %v", seed, barrier)
			}
		}
	}
	if landed != 20 {
		t.Errorf("%d of 20 late creates landed", landed)
	}
}

// A server that has lost its leader answers reads, from a fixed state, and pings, while the leader
// lets the session expire. In the end the client loses it.
func TestZooKeeperIsland(t *testing.T) {
	islands, outlived := 0, 0
	for seed := range uint64(20) {
		d := seedDesk(t, StoreZooKeeper, seed, StoreNoise{Timeout: 50 * time.Millisecond}, Op{At: trueTime(5 * time.Second), Kind: OpStoreDown, Node: "n1", For: time.Minute})
		e, b := d.join(0, zkTTL), d.join(1, time.Hour)
		d.until(5*time.Second + time.Millisecond)
		until := d.store().routes[0].island
		if until < d.w.Now()+trueTime(100*time.Millisecond) {
			continue
		}
		islands++
		d.want(1, sDone, zkAsk(protocol.Enter, b.Session))
		for d.w.Now() < until-trueTime(60*time.Millisecond) {
			if got := d.orders(0, e.Session); !slices.Equal(got, []uint64{e.Order, b.Order}) {
				t.Fatalf("cut off it sees %v, want what there was", got)
			}
			d.want(0, sDone, zkAsk(protocol.KeepAlive, e.Session))
			d.want(0, sUnknown, askAbout(protocol.Touch, e))
			if !slices.Contains(d.orders(1, b.Session), e.Order) {
				outlived++
			}
		}
		d.until(time.Duration(until) + 10*time.Millisecond)
		if last := d.told[0][len(d.told[0])-1]; !last.lost && !d.told[0][len(d.told[0])-2].lost {
			t.Error("it was not told that its connection is gone")
		}
		if s := d.do(0, zkAsk(protocol.List, e.Session)).Status; s != sUnknown && s != sRefused {
			t.Errorf("its server answers for ever: %v", s)
		}
		d.until(70 * time.Second)
		if a := d.do(0, askAbout(protocol.Touch, e)); a.Status != sGone {
			t.Errorf("when it is back it is told %v", a.Status)
		}
	}
	if islands == 0 || outlived == 0 {
		t.Errorf("%d islands, of whose answers %d came after the session's end", islands, outlived)
	}
}

// A client that has lost its server is told before its session's time is over.
func TestZooKeeperSuspect(t *testing.T) {
	told := 0
	for seed := range uint64(20) {
		d := seedDesk(t, StoreZooKeeper, seed, StoreNoise{}, Op{At: trueTime(5 * time.Second), Kind: OpStoreDown, For: time.Minute})
		d.join(0, zkTTL)
		d.until(5*time.Second + time.Millisecond)
		if d.store().routes[0].island > 0 {
			continue
		}
		d.until(5*time.Second + zkTTL)
		i := slices.IndexFunc(d.told[0], func(h heard) bool { return h.lost })
		if i < 0 || d.told[0][i].at < trueTime(5*time.Second+zkTTL/3) {
			t.Fatalf("seed %d: told %+v", seed, d.told[0])
		}
		told++
	}
	if told == 0 {
		t.Error("every cut made an island")
	}
}

// go-zookeeper opens another session by itself when one has expired, and goes on: the answers name
// it. With other clients the session is gone.
func TestZooKeeperReplacesSessions(t *testing.T) {
	replaced, expired := 0, 0
	for seed := range uint64(20) {
		d := seedDesk(t, StoreZooKeeper, seed, StoreNoise{}, Op{At: trueTime(time.Second), Kind: OpExpireEarly, Node: "n1"})
		e := d.join(0, zkTTL)
		watch := d.ask(0, protocol.Ask{Op: protocol.WatchEntry, Session: e.Session, Entry: e, Revision: e.Order})
		d.until(1100 * time.Millisecond)
		if all := d.statuses(0, watch); len(all) == 0 || all[len(all)-1] != sClosed {
			t.Errorf("its watch was told %v", all)
		}
		d.want(0, sGone, askAbout(protocol.Touch, e))
		switch a := d.do(0, zkAsk(protocol.List, e.Session)); a.Status {
		case sGone:
			expired++
		case sDone:
			replaced++
			if a.Session == e.Session || len(a.Entries) != 0 {
				t.Errorf("it asks on as %+v", a)
			}
			if again := d.want(0, sDone, zkAsk(protocol.Sync, e.Session)); again.Session != a.Session {
				t.Error("it has yet another session")
			}
		}
		d.want(0, sGone, zkAsk(protocol.CloseSession, e.Session))
	}
	if replaced == 0 || expired == 0 {
		t.Errorf("%d sessions were replaced, %d were gone", replaced, expired)
	}
}

// A new leader begins a new epoch, gives all sessions their time again, and all connections of
// clients end.
func TestZooKeeperElect(t *testing.T) {
	d := newStoreTest(t, StoreZooKeeper, StoreNoise{}, Op{At: trueTime(8 * time.Second), Kind: OpPause, Node: "n1", For: time.Hour}, Op{At: trueTime(10 * time.Second), Kind: OpStoreElect})
	e, b := d.join(0, zkTTL), d.join(1, zkTTL)
	watch := d.ask(1, protocol.Ask{Op: protocol.WatchEntry, Session: b.Session, Entry: e, Revision: e.Order})
	d.until(10*time.Second + 20*time.Millisecond)
	if !slices.ContainsFunc(d.told[1], func(h heard) bool { return h.lost }) {
		t.Error("a client was not told that its connection is gone")
	}
	d.wantStatuses(1, watch, sClosed)
	p := time.Duration(d.store().serving)
	d.until(p + zkTTL - 10*time.Millisecond)
	if got := d.orders(1, b.Session); !slices.Equal(got, []uint64{e.Order, b.Order}) {
		t.Errorf("entries %v: the session's time did not begin anew", got)
	}
	d.until(p + zkTTL + 2*zkTick)
	if got := d.orders(1, b.Session); !slices.Equal(got, []uint64{b.Order}) {
		t.Errorf("entries %v, want n2's", got)
	}
	if c := d.join(2, zkTTL); c.Order>>32 != 2 || e.Order>>32 != 1 {
		t.Errorf("orders %#x and %#x, want epochs 1 and 2", e.Order, c.Order)
	}
}

// Requests of one client are carried out in order, and answered in order.
func TestZooKeeperInOrder(t *testing.T) {
	d := newStoreTest(t, StoreZooKeeper, StoreNoise{Jitter: 50 * time.Millisecond, Timeout: time.Minute})
	session := d.want(0, sDone, askOpen(time.Minute)).Session
	first := len(d.told[0])
	for range 50 {
		d.ask(0, zkAsk(protocol.Enter, session))
	}
	d.wait(20 * time.Second)
	last := protocol.Answer{}
	for _, h := range d.told[0][first:] {
		if h.answer.Number < last.Number || h.answer.Entry.Order <= last.Entry.Order {
			t.Fatalf("answer %+v after %+v", h.answer, last)
		}
		last = h.answer
	}
	if last.Number != 51 {
		t.Errorf("the last answer is %d", last.Number)
	}
}

// Check and mark, delete and mark: both or neither.
func TestZooKeeperMulti(t *testing.T) {
	d := newStoreTest(t, StoreZooKeeper, StoreNoise{})
	a, b := d.join(0, zkTTL), d.join(1, zkTTL)
	held := askAbout(protocol.Mark, a)
	held.Mark = protocol.QueueMark{Order: a.Order, Held: true, Hold: time.Second}
	d.want(0, sDone, held)
	free := askAbout(protocol.Leave, a)
	free.SetMark, free.Mark = true, protocol.QueueMark{Order: a.Order}
	d.want(0, sDone, free)
	d.want(0, sGone, held)
	d.want(0, sGone, free)
	d.want(1, sDone, zkAsk(protocol.Sync, b.Session))
	if l := d.want(1, sDone, zkAsk(protocol.List, b.Session)); l.Mark != free.Mark || len(l.Entries) != 1 {
		t.Errorf("listed %+v", l)
	}
	if v := d.want(1, sDone, askAbout(protocol.Verify, b)); v.Entry != b {
		t.Errorf("the first is %+v", v.Entry)
	}
	d.want(1, sGone, protocol.Ask{Op: protocol.Verify, Session: b.Session, Entry: a})
}

// A server lowers a longer wish for a session silently.
func TestZooKeeperTTL(t *testing.T) {
	d := newStoreTest(t, StoreZooKeeper, StoreNoise{})
	for wish, want := range map[time.Duration]time.Duration{time.Millisecond: 2 * zkTick, zkTTL: zkTTL, zkLongest: zkLongest, zkLongest + 1: zkLongest, time.Hour: zkLongest} {
		if a := d.want(0, sDone, askOpen(wish)); a.TTL != want {
			t.Errorf("a session of %v for a wish of %v, want %v", a.TTL, wish, want)
		}
	}
}

// A session that the client library has opened by itself is kept alive like any other, and closed
// in the place of the one that it replaces.
func TestZooKeeperHeirs(t *testing.T) {
	successors := 0
	for seed := range uint64(20) {
		d := seedDesk(t, StoreZooKeeper, seed, StoreNoise{Timeout: 50 * time.Millisecond}, Op{At: trueTime(time.Second), Kind: OpExpireEarly, Node: "n1"})
		e, b := d.join(0, zkTTL), d.join(1, zkTTL)
		d.until(1100 * time.Millisecond)
		d.store().noise.Unknown = 1 // the process does not learn of it
		d.want(0, sUnknown, zkAsk(protocol.Enter, e.Session))
		d.store().noise.Unknown = 0
		if len(d.orders(1, b.Session)) != 2 {
			d.want(1, sDone, zkAsk(protocol.Sync, b.Session))
			if len(d.orders(1, b.Session)) != 2 {
				continue // another library: the session is gone
			}
		}
		successors++
		d.wait(3 * zkTTL)
		if n := len(d.orders(1, b.Session)); n != 2 {
			t.Fatalf("seed %d: %d entries: the successor was not kept alive", seed, n)
		}
		d.want(0, sGone, zkAsk(protocol.CloseSession, e.Session))
		d.want(1, sDone, zkAsk(protocol.Sync, b.Session))
		if got := d.orders(1, b.Session); !slices.Equal(got, []uint64{b.Order}) {
			t.Fatalf("seed %d: entries %v: the successor lives on", seed, got)
		}
		d.want(0, sGone, zkAsk(protocol.Enter, e.Session))
	}
	if successors == 0 {
		t.Error("no library replaced a session")
	}
}
