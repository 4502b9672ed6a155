package sim

import (
	"math"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// lockOf is the record of a lock.
func lockOf(holder protocol.NodeID, nonce, attempt uint64) protocol.Record {
	return protocol.Record{Holder: holder, Nonce: protocol.Nonce{nonce}, Attempt: attempt, Duration: 10 * time.Second}
}

func takeLock(holder protocol.NodeID, nonce uint64) protocol.Ask {
	return protocol.Ask{Op: protocol.Write, Record: lockOf(holder, nonce, 1)}
}

func renewLock(holder protocol.NodeID, nonce, attempt uint64) protocol.Ask {
	return protocol.Ask{Op: protocol.Write, Version: math.MaxUint64, Record: lockOf(holder, nonce, attempt)}
}

func freeLock(nonce uint64) protocol.Ask {
	return protocol.Ask{Op: protocol.Delete, Version: math.MaxUint64, Record: protocol.Record{Nonce: protocol.Nonce{nonce}}}
}

// holds fails the test if another has the lock.
func (d *storeTest) holds(who protocol.NodeID) {
	d.t.Helper()
	if a := d.want(2, sDone, askRead); a.Record.Holder != who {
		d.t.Errorf("at %v %q has the lock; want %q", time.Duration(d.w.Now()), a.Record.Holder, who)
	}
}

// A key lives for its time by the server's clock, from its last write on.
func TestExpiring(t *testing.T) {
	d := newStoreTest(t, StoreExpiring, StoreNoise{Rate: 250_000}) // ten of its seconds are eight
	d.want(0, sDone, takeLock("n1", 7))
	d.want(1, sConflict, takeLock("n2", 8))
	d.until(7900 * time.Millisecond)
	d.holds("n1")
	d.want(1, sConflict, renewLock("n2", 8, 2))
	d.want(1, sConflict, freeLock(8))
	d.want(0, sDone, renewLock("n1", 7, 2))
	d.until(15800 * time.Millisecond)
	d.holds("n1")
	d.until(16 * time.Second)
	d.holds("")
	d.want(0, sConflict, renewLock("n1", 7, 3))
	d.want(1, sDone, takeLock("n2", 8))
	d.want(1, sDone, freeLock(8))
	d.holds("")
	if r := lockOf("n1", 9, 1); r.Duration > 0 { // a row whose time the clients compare
		r.Duration = 0
		d.want(0, sDone, protocol.Ask{Op: protocol.Write, Record: r})
		d.wait(time.Minute)
		d.holds("n1")
	}
}

// A replica that takes over has the key as it was, with what is left of its time.
func TestExpiringFailover(t *testing.T) {
	d := newStoreTest(t, StoreExpiring, StoreNoise{}, Op{At: trueTime(15 * time.Second), Kind: OpFailover, Count: 1})
	d.w.schedule.Beyond = true
	d.want(0, sDone, takeLock("n1", 7))
	d.until(5 * time.Second)
	d.want(0, sDone, renewLock("n1", 7, 2))
	d.until(14 * time.Second)
	d.holds("n1")
	d.until(15100 * time.Millisecond) // the replica has the first write, whose ten seconds are over
	d.holds("")
}

// A lock of a session ends with it, and not before.
func TestSession(t *testing.T) {
	at := trueTime
	for _, c := range []struct {
		name       string
		ops        []Op
		kept, lost time.Duration
	}{
		{"nothing happens", nil, time.Minute, 0},
		{"frozen", []Op{{At: at(time.Second), Kind: OpPause, Node: "n1", For: time.Minute}}, 30 * time.Second, 0},
		{"dies", []Op{{At: at(time.Second), Kind: OpKill, Node: "n1", For: time.Minute}}, 900 * time.Millisecond, 1100 * time.Millisecond},
		{"ended by the server", []Op{{At: at(time.Second), Kind: OpExpireEarly, Node: "n1"}}, 900 * time.Millisecond, 1100 * time.Millisecond},
		{"another's is ended", []Op{{At: at(time.Second), Kind: OpExpireEarly, Node: "n2"}}, 30 * time.Second, 0},
		{"cut off, back in time", []Op{{At: at(time.Second), Kind: OpStoreDown, Node: "n1", For: 9 * time.Second}}, 30 * time.Second, 0},
		{"cut off for longer", []Op{{At: at(time.Second), Kind: OpStoreDown, Node: "n1", For: 30 * time.Second}}, 10 * time.Second, 12 * time.Second},
		{"dies out of reach", []Op{
			{At: at(time.Second), Kind: OpStoreDown, Node: "n1", For: 5 * time.Second}, {At: at(2 * time.Second), Kind: OpKill, Node: "n1", For: time.Second},
		}, 5 * time.Second, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newStoreTest(t, StoreSession, StoreNoise{}, c.ops...)
			d.want(0, sDone, takeLock("n1", 7))
			d.until(c.kept)
			d.holds("n1")
			if c.lost > 0 {
				d.until(c.lost)
				d.holds("")
			}
		})
	}
}

// A library that repeats a request conflicts with itself at a key. A session gets its lock again.
func TestTakenTwice(t *testing.T) {
	newStoreTest(t, StoreExpiring, StoreNoise{Repeat: 1}).want(0, sConflict, takeLock("n1", 7))
	newStoreTest(t, StoreSession, StoreNoise{Repeat: 1}).want(0, sDone, takeLock("n1", 7))
}

// What arrives when the client has given up finds its connection closed.
func TestSessionLate(t *testing.T) {
	d := newStoreTest(t, StoreSession, StoreNoise{Timeout: time.Second}, Op{At: trueTime(time.Second), Kind: OpStoreSlow, Node: "n1", By: 2 * time.Second, For: 5 * time.Second})
	d.until(2 * time.Second)
	n := d.ask(0, takeLock("n1", 7))
	d.until(8 * time.Second)
	d.wantStatuses(0, n, sUnknown)
	d.holds("")
}
