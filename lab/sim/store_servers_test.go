package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// replicated is a world of five that ask nothing, with a replicated store.
func replicated(t *testing.T, kind StoreKind, ops ...Op) *World {
	t.Helper()
	p := &Protocol{
		Name: "deaf", Store: kind,
		New: func(Participant) (protocol.Machine, error) { return deafMachine{}, nil },
	}
	w, err := New(p, &Schedule{
		Format: 1, Protocol: p.Name, Seed: 1, Nodes: 5, Faults: time.Hour,
		Links: LinkNoise{Delay: quickTrip}, Disks: DiskNoise{Sync: quickTrip}, Store: StoreNoise{Delay: quickTrip, Replicated: true},
		Ops: ops,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// runTo runs all events until then.
func runTo(w *World, at time.Duration) {
	for len(w.agenda) > 0 && w.agenda[0].at <= Time(at) && w.Step() {
	}
}

// awayNow lists the participants that cannot reach the store.
func awayNow(w *World) (all []protocol.NodeID) {
	for _, p := range w.store.(*store).routes {
		if p.down > 0 {
			all = append(all, p.id)
		}
	}
	return all
}

func those(text string) (all []protocol.NodeID) {
	for id := range strings.FieldsSeq(text) {
		all = append(all, protocol.NodeID(id))
	}
	return all
}

// During an operation, a participant that reaches fewer than a majority of the servers, both ways,
// cannot reach the store. Afterwards all can, except for permanent faults.
func TestReplicatedStoreIsCut(t *testing.T) {
	const from, lasts = time.Second, 10 * time.Second
	one := func(kind OpKind, fill func(*Op)) []Op {
		op := Op{At: trueTime(from), Kind: kind, For: lasts}
		if fill != nil {
			fill(&op)
		}
		return []Op{op}
	}
	deaths := func(kind OpKind, who string) (ops []Op) {
		for _, id := range those(who) {
			ops = append(ops, Op{At: trueTime(from), Kind: kind, Node: id, For: lasts})
		}
		return ops
	}
	const all = "n1 n2 n3 n4 n5"
	for _, test := range []struct {
		name string
		ops  []Op
		away string // in the middle of it
		left string // when it is over
	}{
		{"isolate", one(OpIsolate, func(op *Op) { op.Node = "n4" }), "n4", ""},
		{"halves", one(OpHalves, func(op *Op) { op.Group = those("n1 n2") }), "n1 n2", ""},
		{"third", one(OpThird, func(op *Op) { op.Group = those("n5") }), "n5", ""},
		{"two thirds", one(OpThird, func(op *Op) { op.Group = those("n1 n2 n3") }), all, ""},
		{"bridge in the middle", one(OpBridge, func(op *Op) { op.Node, op.Group = "n3", those("n1 n2") }), "", ""},
		{"bridge to a minority", one(OpBridge, func(op *Op) { op.Node, op.Group = "n5", those("n1") }), "n1", ""},
		{"majority ring", one(OpMajorityRing, nil), "", ""},
		{"chain", one(OpChain, func(op *Op) { op.Group = those("n2 n1 n3 n5 n4") }), "n2 n4", ""},
		{"mute", one(OpOneWay, func(op *Op) { op.Node = "n2" }), "n2", ""},
		{"deaf", one(OpOneWay, func(op *Op) { op.Node, op.Value = "n2", 1 }), "n2", ""},
		{"one link of many", one(OpHalfOpen, func(op *Op) { op.Node, op.Peer = "n1", "n2" }), "", ""},
		{"three links of one", []Op{
			{At: trueTime(from), Kind: OpHalfOpen, Node: "n1", Peer: "n2", For: lasts},
			{At: trueTime(from), Kind: OpClog, Node: "n3", Peer: "n1", For: lasts},
			{At: trueTime(from), Kind: OpLoss, Node: "n1", Peer: "n4", Value: 1, For: lasts},
		}, "n1", ""},
		{"a link that loses a part", []Op{
			{At: trueTime(from), Kind: OpHalfOpen, Node: "n1", Peer: "n2", For: lasts},
			{At: trueTime(from), Kind: OpHalfOpen, Node: "n3", Peer: "n1", For: lasts},
			{At: trueTime(from), Kind: OpLoss, Node: "n1", Peer: "n4", Value: .99, For: lasts},
		}, "", ""},
		{"flapping", []Op{
			{At: trueTime(from), Kind: OpHalfOpen, Node: "n1", Peer: "n2", For: lasts},
			{At: trueTime(from), Kind: OpHalfOpen, Node: "n1", Peer: "n3", For: lasts},
			{At: trueTime(from), Kind: OpFlap, Node: "n1", Peer: "n4", Every: 4 * time.Second, For: lasts},
		}, "", ""}, // from 5 s to 9 s it is mended
		{"swizzle", one(OpSwizzle, func(op *Op) {
			op.Group, op.Every = those("n2 n4"), time.Second
			op.At = trueTime(4500 * time.Millisecond)
		}), "n2 n4", ""},
		{"two killed", deaths(OpKill, "n1 n2"), "", ""},
		{"three killed", deaths(OpKill, "n1 n2 n5"), all, ""},
		{"three without power", deaths(OpPowerLoss, "n1 n2 n5"), all, ""},
		{"three frozen", deaths(OpPause, "n1 n2 n5"), all, ""},
		{"three full disks", deaths(OpFull, "n1 n2 n5"), all, ""},
		{"three failing disks", deaths(OpEIO, "n1 n2 n5"), all, ""},
		{"three wiped", deaths(OpWipe, "n1 n2 n5"), all, all},
		{"two killed, one isolated", append(deaths(OpKill, "n1 n2"), one(OpIsolate, func(op *Op) { op.Node = "n3" })...), all, ""},
		{"slow disks", deaths(OpSlowSync, all), "", ""},
	} {
		for _, kind := range []StoreKind{StoreRegister, StoreEtcd, StoreZooKeeper} {
			w := replicated(t, kind, test.ops...)
			runTo(w, 500*time.Millisecond)
			if got := awayNow(w); len(got) > 0 {
				t.Errorf("%s, %s: %v cannot reach the store before it", test.name, kind, got)
			}
			runTo(w, 6*time.Second)
			if got := awayNow(w); !slices.Equal(got, those(test.away)) {
				t.Errorf("%s, %s: %v cannot reach the store; want %v", test.name, kind, got, test.away)
			}
			runTo(w, 30*time.Second)
			if got := awayNow(w); !slices.Equal(got, those(test.left)) {
				t.Errorf("%s, %s: %v cannot reach the store after it; want %v", test.name, kind, got, test.left)
			}
		}
	}
}

// A leader of the store that goes down or is cut off has a successor after one to two
// election timeouts. One that is frozen or cut off for less stalls the store and leads on.
func TestReplicatedStoreIsLed(t *testing.T) {
	const at = time.Second
	for _, test := range []struct {
		name        string
		op          Op
		leader      int           // in the end
		least, most time.Duration // how long the store answers no request
	}{
		{"another one dies", Op{Kind: OpKill, Node: "n2", For: time.Minute}, 0, 0, 0},
		{"it dies", Op{Kind: OpKill, Node: "n1", For: time.Minute}, 1, etcdElection, 2 * etcdElection},
		{"it restarts at once", Op{Kind: OpKill, Node: "n1", For: time.Millisecond}, 1, etcdElection, 2 * etcdElection},
		{"it is frozen for long", Op{Kind: OpPause, Node: "n1", For: time.Minute}, 1, etcdElection, 2 * etcdElection},
		{"it is cut off for long", Op{Kind: OpIsolate, Node: "n1", For: time.Minute}, 1, etcdElection, 2 * etcdElection},
		{"it is cut off, one way", Op{Kind: OpOneWay, Node: "n1", For: time.Minute}, 1, etcdElection, 2 * etcdElection},
		{"it is frozen for a moment", Op{Kind: OpPause, Node: "n1", For: 300 * time.Millisecond}, 0, 300 * time.Millisecond, 300 * time.Millisecond},
		{"it is cut off for a moment", Op{Kind: OpIsolate, Node: "n1", For: 300 * time.Millisecond}, 0, 300 * time.Millisecond, 300 * time.Millisecond},
		{"a minority is cut off with it", Op{Kind: OpHalves, Group: those("n1 n2"), For: time.Minute}, 2, etcdElection, 2 * etcdElection},
	} {
		for _, kind := range []StoreKind{StoreRegister, StoreEtcd} {
			test.op.At = trueTime(at)
			w := replicated(t, kind, test.op)
			s := w.store.(*store)
			var stalled Time // until when
			for len(w.agenda) > 0 && w.agenda[0].at < trueTime(20*time.Second) && w.Step() {
				if w.Now() < s.serving {
					stalled = s.serving
				} else if s.serving > 0 && s.serving == w.Now() {
					stalled = w.Now()
				}
			}
			took := time.Duration(0)
			if stalled > 0 {
				took = time.Duration(stalled) - at
			}
			if took < test.least || took > test.most || w.servers.leader != test.leader || w.servers.vacant {
				t.Errorf("%s, %s: it answered no request for %v, and n%d leads it, vacant %t; want %v to %v, n%d", test.name, kind, took,
					w.servers.leader+1, w.servers.vacant, test.least, test.most, test.leader+1)
			}
		}
	}
}

// Servers of etcd follow a leader that returns before the first of them stands. Those of ZooKeeper
// give it up after a second.
func TestReplicatedLeaderIsBack(t *testing.T) {
	for _, kind := range storeKinds {
		w := replicated(t, kind, Op{At: trueTime(time.Second), Kind: OpIsolate, Node: "n1", For: time.Minute})
		runTo(w, 1500*time.Millisecond)
		ends := time.Duration(w.store.(*store).serving)
		back := ends - 10*time.Millisecond
		w = replicated(t, kind, Op{At: trueTime(time.Second), Kind: OpIsolate, Node: "n1", For: back - time.Second})
		runTo(w, back)
		if serving := time.Duration(w.store.(*store).serving); kind == StoreZooKeeper && serving != ends || kind != StoreZooKeeper && serving != back {
			t.Errorf("%s: the store is led from %v on, with the leader back at %v and an election that ends at %v", kind, serving, back, ends)
		}
		runTo(w, 10*time.Second)
		if led, want := w.servers.leader, map[bool]int{false: 0, true: 1}[kind == StoreZooKeeper]; led != want || w.servers.missing {
			t.Errorf("%s: n%d leads the store, missing %t; want n%d", kind, led+1, w.servers.missing, want+1)
		}
	}
}

// A store without a possible leader is led again by the first server that can.
func TestReplicatedStoreReturns(t *testing.T) {
	w := replicated(t, StoreRegister, Op{At: trueTime(time.Second), Kind: OpKill, Node: "n1", For: time.Minute},
		Op{At: trueTime(time.Second), Kind: OpKill, Node: "n2", For: time.Minute}, Op{At: trueTime(time.Second), Kind: OpIsolate, Node: "n3", For: 30 * time.Second})
	runTo(w, 30*time.Second)
	if got := awayNow(w); len(got) != 5 || !w.servers.vacant {
		t.Fatalf("%v cannot reach the store, vacant %t; want all, and true", got, w.servers.vacant)
	}
	runTo(w, 31*time.Second)
	wait := time.Duration(w.store.(*store).serving) - 31*time.Second
	if got := awayNow(w); len(got) > 0 || wait < 0 || wait > etcdElection {
		t.Errorf("%v cannot reach the store, that has a leader after %v; want none, and an election timeout at most: all have waited", got, wait)
	}
	runTo(w, 31*time.Second+wait)
	if v := &w.servers; v.missing || v.leader != 2 {
		t.Errorf("n%d leads the store then, missing %t; want n3, the first that can", v.leader+1, v.missing)
	}
}

// A fork continues as the original does.
func TestReplicatedStoreForks(t *testing.T) {
	ops := []Op{
		{At: trueTime(time.Second), Kind: OpKill, Node: "n1", For: time.Second},
		{At: trueTime(1500 * time.Millisecond), Kind: OpChain, Group: those("n1 n2 n3 n4 n5"), For: 5 * time.Second},
		{At: trueTime(2 * time.Second), Kind: OpSwizzle, Group: those("n2 n4"), Every: time.Second, For: 5 * time.Second},
	}
	w := replicated(t, StoreZooKeeper, ops...)
	runTo(w, 3*time.Second)
	f := w.Fork()
	for _, w := range []*World{w, f} {
		runTo(w, time.Minute)
	}
	if w.Hash() != f.Hash() || w.servers != f.servers || !slices.Equal(awayNow(w), awayNow(f)) {
		t.Errorf("a fork came to %x, %+v; want %x, %+v", f.Hash(), f.servers, w.Hash(), w.servers)
	}
}

func TestReplicatedStoreIsSmall(t *testing.T) {
	p := &Protocol{Name: "deaf", Store: StoreRegister, New: func(Participant) (protocol.Machine, error) { return deafMachine{}, nil }}
	_, err := New(p, &Schedule{Format: 1, Protocol: p.Name, Nodes: MaxNodes + 1, Store: StoreNoise{Replicated: true}})
	if err == nil || !strings.Contains(err.Error(), "store.replicated") {
		t.Errorf("error %v; want one about store.replicated", err)
	}
}
