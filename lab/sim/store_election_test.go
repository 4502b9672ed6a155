package sim

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// fiveServers is a storeTest of five participants, with a server of the store beside each.
func fiveServers(t *testing.T, kind StoreKind, seed uint64, timeout time.Duration, ops ...Op) *storeTest {
	t.Helper()
	return deskOf(t, 5, kind, seed, StoreNoise{Replicated: true, Timeout: timeout}, ops...)
}

// An election of the store ends no earlier because of a fault of the next leader, and no later as
// long as another server can lead.
func TestReplicatedElectionStays(t *testing.T) {
	kill := Op{At: trueTime(time.Second), Kind: OpKill, Node: "n1", For: time.Minute}
	for _, kind := range storeKinds {
		for seed := range uint64(10) {
			d := fiveServers(t, kind, seed, 0, kill)
			d.until(1100 * time.Millisecond)
			ends := time.Duration(d.store().serving)
			for _, test := range []struct {
				name string
				op   Op
			}{
				{"frozen for a moment", Op{Kind: OpPause, Node: "n2", For: 20 * time.Millisecond}},
				{"frozen until the end", Op{Kind: OpPause, Node: "n2", For: time.Minute}},
				{"cut off for a moment", Op{Kind: OpIsolate, Node: "n2", For: 20 * time.Millisecond}},
				{"cut off until the end", Op{Kind: OpIsolate, Node: "n2", For: time.Minute}},
				{"dies", Op{Kind: OpKill, Node: "n2", For: time.Minute}},
				{"restarts", Op{Kind: OpKill, Node: "n2", For: time.Millisecond}},
			} {
				test.op.At = trueTime(1110 * time.Millisecond)
				d := fiveServers(t, kind, seed, 0, kill, test.op)
				d.until(ends - time.Millisecond)
				if s := d.store(); d.w.Now() >= s.serving {
					t.Errorf("%s, seed %d, the successor is %s: a leader of the store at %v, since %v; want none before %v", kind, seed, test.name, time.Duration(d.w.Now()), time.Duration(s.serving), ends)
				}
				d.until(ends + time.Millisecond)
				if s := d.store(); d.w.Now() < s.serving {
					t.Errorf("%s, seed %d, the successor is %s: no leader of the store until %v; want one from %v on", kind, seed, test.name, time.Duration(s.serving), ends)
				}
			}
		}
	}
}

// A leader of etcd that is cut off, and runs, answers keep-alives of participants that reach it,
// until it notices. One that is dead or frozen answers none. Its successor answers all that reach
// it, from when it leads.
func TestReplicatedEtcdOldLeader(t *testing.T) {
	const from = 2 * time.Second
	for _, test := range []struct {
		name string
		ops  []Op
		// Which participant asks; whether keep-alives are answered before there is a successor: in
		// all runs, in some or in none; and whether the successor answers it.
		asks  int
		heard string
		after bool
	}{
		{"dead", []Op{{Kind: OpKill, Node: "n1"}}, 2, "none", true},
		{"frozen", []Op{{Kind: OpPause, Node: "n1"}}, 2, "none", true},
		{"full disk, beside it", []Op{{Kind: OpFull, Node: "n1"}}, 0, "none", true},
		{"cut off, beside it", []Op{{Kind: OpIsolate, Node: "n1"}}, 0, "all", false},
		{"cut off, others", []Op{{Kind: OpIsolate, Node: "n1"}}, 2, "none", true},
		{"cut off with another one", []Op{{Kind: OpHalves, Group: those("n1 n2")}}, 1, "all", false},
		{"cut off from three, the fifth", []Op{
			{Kind: OpHalfOpen, Node: "n1", Peer: "n3"}, {Kind: OpHalfOpen, Node: "n4", Peer: "n1"}, {Kind: OpClog, Node: "n1", Peer: "n5"},
		}, 1, "some", true},
		{"cut off from three, one of them", []Op{
			{Kind: OpHalfOpen, Node: "n1", Peer: "n3"}, {Kind: OpHalfOpen, Node: "n4", Peer: "n1"}, {Kind: OpClog, Node: "n1", Peer: "n5"},
		}, 2, "none", true},
	} {
		const seeds = 16
		heard := 0 // runs in which a keep-alive is answered
		for seed := range uint64(seeds) {
			for i := range test.ops {
				test.ops[i].At, test.ops[i].For = trueTime(from), time.Minute
			}
			d := fiveServers(t, StoreEtcd, seed, 20*time.Millisecond, test.ops...)
			e := d.join(test.asks, 40*time.Second)
			d.until(from + 2*time.Millisecond)
			ends, answers, last := time.Duration(d.store().serving), 0, time.Duration(0)
			for time.Duration(d.w.Now()) < ends-50*time.Millisecond {
				if d.do(test.asks, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session}).Status == sDone {
					answers++
				}
				if got := d.do(test.asks, askList).Status; got == sDone {
					t.Errorf("%s, seed %d: a leader without a majority reads", test.name, seed)
				}
			}
			if answers > 0 {
				heard++
			}
			d.until(ends + time.Millisecond)
			if got := d.do(test.asks, askList).Status; (got == sDone) != test.after {
				t.Errorf("%s, seed %d: %v to a list when another one leads; want it done: %t", test.name, seed, got, test.after)
			}
			for range 30 {
				if d.wait(20 * time.Millisecond); !test.after && d.do(test.asks, protocol.Ask{Op: protocol.KeepAlive, Session: e.Session}).Status == sDone {
					last = time.Duration(d.w.Now())
				}
			}
			if last > from+2*etcdElection+20*time.Millisecond {
				t.Errorf("%s, seed %d: it answers at %v; want nothing from %v on", test.name, seed, last, from+2*etcdElection)
			}
		}
		if got := map[int]string{0: "none", seeds: "all"}[heard]; got != test.heard && (got != "" || test.heard != "some") {
			t.Errorf("%s: keep-alives are answered in %d of %d runs; want %s", test.name, heard, seeds, test.heard)
		}
	}
}

// Requests that wait for a leader that returns soon need not wait for longer.
func TestReplicatedLeaderReturns(t *testing.T) {
	const from, back = time.Second, 1300 * time.Millisecond
	for _, kind := range storeKinds {
		waited := 0
		for seed := range uint64(20) {
			d := fiveServers(t, kind, seed, 2*time.Second, Op{At: trueTime(from), Kind: OpIsolate, Node: "n1", For: back - from})
			ask := protocol.Ask{Op: protocol.Read}
			if kind != StoreRegister {
				ask = protocol.Ask{Op: protocol.Enter, Session: d.want(2, sDone, askOpen(30*time.Second)).Session}
			}
			d.until(from + 100*time.Millisecond)
			number := d.ask(2, ask)
			d.wait(5 * time.Second)
			h := d.heard(2, number)[0]
			if h.answer.Status != sDone {
				continue // lost
			}
			if waited++; h.at < trueTime(back) || h.at > trueTime(back+20*time.Millisecond) {
				t.Errorf("%s, seed %d: an answer at %v; want it soon after %v", kind, seed, time.Duration(h.at), back)
			}
		}
		if waited == 0 {
			t.Errorf("%s: all requests were lost; want some that wait", kind)
		}
	}
}

// While the store has no leader no session expires, and the next leader gives all their time again.
func TestReplicatedStoreKeepsSessions(t *testing.T) {
	const from, lasts, ttl = time.Second, 20 * time.Second, 4 * time.Second
	for _, kind := range []StoreKind{StoreEtcd, StoreZooKeeper} {
		for seed := range uint64(5) {
			var ops []Op
			for _, id := range those("n1 n2 n3") {
				ops = append(ops, Op{At: trueTime(from), Kind: OpKill, Node: id, For: lasts})
			}
			d := fiveServers(t, kind, seed, 50*time.Millisecond, ops...)
			d.join(0, ttl) // it dies with n1
			d.until(from + lasts + 10*time.Millisecond)
			ends := time.Duration(d.store().serving)
			if ends > from+lasts+2*etcdElection {
				t.Fatalf("%s, seed %d: the store is led from %v on; want it soon after %v", kind, seed, ends, from+lasts)
			}
			d.until(ends + ttl - 200*time.Millisecond)
			session := d.want(4, sDone, askOpen(30*time.Second)).Session
			if n := len(d.orders(4, session)); n != 1 {
				t.Errorf("%s, seed %d: %d entries after a majority was lost; want that of the session that has its time anew", kind, seed, n)
			}
			d.until(ends + ttl + etcdElection + etcdSweep + 100*time.Millisecond)
			if n := len(d.orders(4, session)); n != 0 {
				t.Errorf("%s, seed %d: %d entries; want none: its session was not kept alive", kind, seed, n)
			}
		}
	}
}

// A server of ZooKeeper that is cut off answers participants that reach it for as long as a leader
// is missed; where none runs there is no answer.
func TestReplicatedIslands(t *testing.T) {
	const from = time.Second
	for _, test := range []struct {
		name string
		down bool
	}{{"its server runs", false}, {"its server is down", true}} {
		heard := 0
		for seed := range uint64(20) {
			ops := []Op{{At: trueTime(from), Kind: OpIsolate, Node: "n4", For: time.Minute}}
			if test.down {
				ops = slices.Insert(ops, 0, Op{At: trueTime(from), Kind: OpFull, Node: "n4", For: time.Minute})
			}
			d := fiveServers(t, StoreZooKeeper, seed, 20*time.Millisecond, ops...)
			session := d.want(3, sDone, askOpen(30*time.Second)).Session
			d.until(from + time.Millisecond)
			for time.Duration(d.w.Now()) < from+3*time.Second {
				if d.do(3, protocol.Ask{Op: protocol.KeepAlive, Session: session}).Status != sDone {
					continue
				}
				heard++
				if at := time.Duration(d.w.Now()); at > from+etcdElection+20*time.Millisecond {
					t.Fatalf("%s, seed %d: an answer at %v; want none from %v on", test.name, seed, at, from+etcdElection)
				}
			}
		}
		if (heard > 0) == test.down {
			t.Errorf("%s: %d answers", test.name, heard)
		}
	}
}

// An election that is in progress when the world is healed comes to its end.
func TestReplicatedElectionHealed(t *testing.T) {
	for _, kind := range storeKinds {
		p := &Protocol{
			Name: "deaf", Store: kind,
			New:      func(Participant) (protocol.Machine, error) { return deafMachine{}, nil },
			Patience: func(json.RawMessage) (time.Duration, error) { return time.Second, nil },
		}
		w, err := New(p, &Schedule{
			Format: 1, Protocol: p.Name, Seed: 1, Nodes: 5, Faults: 1100 * time.Millisecond, Settle: 10 * time.Second,
			Store: StoreNoise{Delay: quickTrip, Replicated: true}, Ops: []Op{{At: trueTime(time.Second), Kind: OpKill, Node: "n1", For: time.Minute}},
		})
		if err != nil {
			t.Fatal(err)
		}
		runTo(w, 1150*time.Millisecond)
		if !w.healed || !w.servers.missing {
			t.Fatalf("%s: healed %t, missing %t; want both", kind, w.healed, w.servers.missing)
		}
		runTo(w, 4*time.Second)
		if w.servers.missing || len(awayNow(w)) > 0 || w.store.(*store).serving > w.Now() {
			t.Errorf("%s: %+v", kind, w.servers)
		}
	}
}
