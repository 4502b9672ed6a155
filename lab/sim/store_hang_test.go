package sim

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestEtcdHang: a leader that hangs for 8 s goes on renewing n1's lease of 3 s, which its successor
// lets expire, and when it resumes it ends that of n2, which the successor has renewed. A fixed
// server does neither.
func TestEtcdHang(t *testing.T) {
	for _, c := range []struct {
		name           string
		mended, paused bool
		inVain, early  bool
	}{
		{"before the mend", false, false, true, true},
		{"before the mend, paused", false, true, false, true},
		{"mended", true, false, false, false},
		{"mended, paused", true, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			op := Op{At: trueTime(2 * time.Second), Kind: OpStoreHang, For: 8 * time.Second}
			if c.paused {
				op.Value = 1
			}
			both := 0
			for seed := uint64(1); seed <= 40; seed++ {
				d := seedDesk(t, StoreEtcd, seed, StoreNoise{Mended: c.mended, Timeout: 300 * time.Millisecond}, op)
				a, b := d.join(0, etcdTTL3), d.join(1, etcdTTL3)
				d.until(2100 * time.Millisecond)
				if r := d.store().routes; !r[0].hung || r[1].hung {
					continue // they are not at the servers that this is about
				}
				both++
				for d.w.Now() < trueTime(9200*time.Millisecond) {
					before := d.w.Now()
					got := d.do(0, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session}).Status
					if hears := !c.mended && !c.paused; (got == sDone) != hears {
						t.Fatalf("seed %d: at %v the leader that hangs says %v; want it to be heard: %v", seed, time.Duration(before), got, hears)
					}
					d.do(1, protocol.Ask{Op: protocol.KeepAlive, Session: b.Session})
					d.wait(300 * time.Millisecond)
				}
				if n := len(d.orders(1, 0)); n != 1 {
					t.Fatalf("seed %d: %d entries; want n2's only: its successor has let n1's lease expire", seed, n)
				}
				late := d.ask(0, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session})
				d.until(10500 * time.Millisecond)
				if got := d.heard(0, late)[0].answer.Status; c.mended && got == sDone {
					t.Fatalf("seed %d: a mended leader renews a lease that is over", seed)
				}
				if n := len(d.orders(1, 0)); (n == 0) != c.early {
					t.Fatalf("seed %d: %d entries when it has gone on; want n2's lease revoked: %v", seed, n, c.early)
				}
				if saw := d.w.seen.Has(SawRenewedInVain); saw != c.inVain {
					t.Errorf("seed %d: a renewal in vain was seen: %v, want %v", seed, saw, c.inVain)
				}
				if saw := d.w.seen.Has(SawRevokedEarly); saw != c.early {
					t.Errorf("seed %d: an early end was seen: %v, want %v", seed, saw, c.early)
				}
			}
			if both == 0 {
				t.Error("no seed has n1 at the leader that hangs, and n2 elsewhere")
			}
		})
	}
}

// TestEtcdPausedLeader: a leader that was paused for longer than an election, and for less than a
// lease's time, renews the lease when it resumes. Its successor lets the lease expire before that
// renewal has run out.
func TestEtcdPausedLeader(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		d := seedDesk(t, StoreEtcd, seed, StoreNoise{Timeout: 9 * time.Second}, Op{At: trueTime(2 * time.Second), Kind: OpStoreHang, For: 7 * time.Second, Value: 1})
		a := d.join(0, 10*time.Second)
		d.until(8900 * time.Millisecond)
		if !d.store().routes[0].hung {
			continue
		}
		number := d.ask(0, protocol.Ask{Op: protocol.KeepAlive, Session: a.Session})
		d.until(9200 * time.Millisecond)
		d.wantStatuses(0, number, sDone)
		// By that renewal it may be claimed until 18.9 s.
		d.until(15500 * time.Millisecond)
		if n := len(d.orders(1, 0)); n != 0 {
			t.Fatalf("seed %d: %d entries; want none, since the successor counts 10 s and an election timeout", seed, n)
		}
		return
	}
	t.Error("no seed has n1 at the leader that hangs")
}
