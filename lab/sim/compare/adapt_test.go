package compare

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

func named(t *testing.T, name string) *sim.Protocol {
	t.Helper()
	p, ok := protocols.ByName(name)
	if !ok {
		t.Fatalf("no protocol %s", name)
	}
	return p
}

// base is a schedule with everything that is left out, and these operations.
func base(name string, ops ...sim.Op) *sim.Schedule {
	for i := range ops {
		ops[i].At = sim.Time(time.Second) * sim.Time(1+i)
	}
	return &sim.Schedule{
		Format: 1, Protocol: name, Config: json.RawMessage(`{"each":{"n1":{}}}`), Seed: 7, Profile: "swarm",
		Nodes: 3, Observers: 1, Spares: 1, Faults: time.Hour, Settle: time.Minute, Core: []protocol.NodeID{"n1", "n2"},
		Links:    sim.LinkNoise{Delay: 2 * time.Millisecond, Jitter: time.Millisecond, Tail: .01, Loss: .1, Duplicate: .2, Reorder: true},
		Disks:    sim.DiskNoise{Sync: 3 * time.Millisecond, Jitter: 4 * time.Millisecond},
		Store:    sim.StoreNoise{Delay: time.Second, Timeout: 9 * time.Second, StaleRead: .5},
		Work:     sim.Work{Every: time.Second, NonExclusive: true, Outlives: true},
		Log:      sim.Log{Every: time.Second},
		Clocks:   []sim.ClockSpec{{Rate: 5}, {Rate: 6}, {Rate: 7}, {Rate: 8}, {Rate: 9}},
		Expected: &sim.Expected{Hash: "0"}, Ops: ops,
	}
}

// What is left out is left out for all, and all have the rest.
func TestAdapt(t *testing.T) {
	ms := time.Millisecond
	for _, p := range protocols.All() {
		s := base("quorum")
		a := adapt(s, p, nil)
		want := &sim.Schedule{
			Format: 1, Protocol: p.Name, Seed: 7, Profile: "swarm", Nodes: 3, Faults: time.Hour,
			Links: s.Links, Disks: s.Disks, Store: s.Store, Work: sim.Work{Every: time.Second, Outlives: true}, Clocks: s.Clocks[:3], Ops: []sim.Op{},
		}
		if p.Store != sim.StoreNone {
			want.Store = sim.StoreNoise{
				Delay: 4*ms + 1500*time.Microsecond, Jitter: 4 * ms, Tail: .01, Timeout: 9 * time.Second, LostAsk: .1, Unknown: .1, Rate: 5, Replicated: true,
			}
		}
		if !reflect.DeepEqual(a, want) {
			t.Errorf("%s:\n%+v; want\n%+v", p.Name, a, want)
		}
		if err := a.Validate(p); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if !reflect.DeepEqual(s, base("quorum")) {
			t.Errorf("%s: the schedule was changed", p.Name)
		}
	}
}

// Each kind of operation, and its form among peers and over a store. Kinds that are not listed are
// unchanged.
func TestAdaptOperations(t *testing.T) {
	unchanged := func(op sim.Op) *sim.Op { return &op }
	none := func(sim.Op) *sim.Op { return nil }
	as := func(kind sim.OpKind) func(sim.Op) *sim.Op {
		return func(op sim.Op) *sim.Op {
			op.Kind = kind
			return &op
		}
	}
	type rule struct{ linked, stored func(sim.Op) *sim.Op }
	left := rule{none, none}
	rules := map[sim.OpKind]rule{
		sim.OpDelay: {unchanged, none}, sim.OpDuplicate: {unchanged, none}, sim.OpReorder: {unchanged, none}, sim.OpReplay: {unchanged, none},
		sim.OpDrop: {unchanged, none}, sim.OpImpostor: {unchanged, none}, sim.OpSlowSync: {unchanged, none}, sim.OpFlip: {unchanged, none},
		sim.OpLoss: {unchanged, none}, sim.OpReset: {unchanged, none}, // but see below

		sim.OpResign: left, sim.OpWithdraw: left, sim.OpSicken: left, sim.OpConfirm: left, sim.OpTransfer: left, sim.OpStandBack: left,
		sim.OpLocate: left, sim.OpAdd: left, sim.OpRemove: left, sim.OpReplace: left, sim.OpReconfigure: left,

		sim.OpStoreDown: {as(sim.OpIsolate), unchanged},
		sim.OpStoreSlow: {none, unchanged}, sim.OpStoreUnknown: {none, unchanged}, sim.OpStaleRead: {none, unchanged}, sim.OpWatchLoss: {none, unchanged},
		sim.OpWatchDouble: {none, unchanged}, sim.OpWatchClose: {none, unchanged}, sim.OpExpireEarly: {none, unchanged}, sim.OpExpireLate: {none, unchanged},
		sim.OpFailover: {none, unchanged}, sim.OpRollback: {none, unchanged}, sim.OpStoreElect: {none, unchanged}, sim.OpStoreHang: {none, unchanged}, sim.OpThrottle: {none, unchanged}, sim.OpForeign: {none, unchanged},
	}
	check := func(t *testing.T, of string, op sim.Op, p *sim.Protocol, want *sim.Op) {
		t.Helper()
		s := base(of, op)
		op.At = s.Ops[0].At
		ops := []sim.Op{}
		if want != nil {
			want.At = op.At
			ops = append(ops, *want)
		}
		a := adapt(s, p, nil)
		if !reflect.DeepEqual(a.Ops, ops) {
			t.Errorf("%s of %s for %s: %+v; want %+v", op.Kind, of, p.Name, a.Ops, ops)
		}
		if err := a.Validate(p); err != nil {
			t.Errorf("%s of %s for %s: %v", op.Kind, of, p.Name, err)
		}
	}
	for _, p := range protocols.All() {
		for _, f := range sim.Faults() {
			op := sim.Op{Kind: f.Kind, Node: "n1", Peer: "n2", Group: []protocol.NodeID{"n3"}, For: 10 * time.Second, Every: time.Second, By: time.Second}
			r, ok := rules[f.Kind]
			if !ok {
				r = rule{unchanged, unchanged}
			}
			of, become := "quorum", r.linked
			if f.Group == "store" {
				of = "lease"
			}
			if p.Store != sim.StoreNone {
				become = r.stored
			}
			check(t, of, op, p, become(op))
		}
	}
	lease, raft := named(t, "lease"), named(t, "raft")
	for _, test := range []struct {
		op             sim.Op
		linked, stored func(sim.Op) *sim.Op
	}{
		{sim.Op{Kind: sim.OpLoss, Node: "n1", Peer: "n2", Value: 1}, unchanged, unchanged},
		{sim.Op{Kind: sim.OpLoss, Node: "n1", Peer: "n2", Value: .99}, unchanged, none},
		{sim.Op{Kind: sim.OpReset, Node: "n1"}, unchanged, as(sim.OpWatchClose)},
		{sim.Op{Kind: sim.OpReset, Node: sim.Leader}, unchanged, as(sim.OpWatchClose)},
		{sim.Op{Kind: sim.OpKill, Node: sim.Leader, For: time.Second}, unchanged, unchanged},
		{sim.Op{Kind: sim.OpIsolate, Node: "o1", For: time.Second}, none, none},
		{sim.Op{Kind: sim.OpHalfOpen, Node: "n1", Peer: "s1", For: time.Second}, none, none},
		{sim.Op{Kind: sim.OpHalves, Group: []protocol.NodeID{"o1", "s1"}, For: time.Second}, none, none},
		{sim.Op{Kind: sim.OpMajorityRing, For: time.Second}, unchanged, unchanged},
	} {
		check(t, "quorum", test.op, raft, test.linked(test.op))
		check(t, "quorum", test.op, lease, test.stored(test.op))
	}
	group := sim.Op{Kind: sim.OpHalves, Group: []protocol.NodeID{"o1", "n2", "s1"}, For: time.Second}
	check(t, "quorum", group, raft, &sim.Op{Kind: sim.OpHalves, Group: []protocol.NodeID{"n2"}, For: time.Second})
	check(t, "lease", sim.Op{Kind: sim.OpStoreDown, For: time.Second}, raft, nil)
}

// A schedule over a store stays what it is over another one.
func TestAdaptStored(t *testing.T) {
	s := base("queue", sim.Op{Kind: sim.OpReset, Node: "n1"})
	if a := adapt(s, named(t, "lease"), nil); a.Store != s.Store || len(a.Ops) != 1 || a.Ops[0].Kind != sim.OpReset {
		t.Errorf("store %+v, operations %+v; want them as they were: %+v", a.Store, a.Ops, s.Store)
	}
}

// What is beyond a protocol's model, and not beyond quorum's, excuses it.
func TestAdaptExcuses(t *testing.T) {
	s := base("quorum", sim.Op{Kind: sim.OpWipe, Node: "n1", For: time.Second})
	raft := named(t, "raft")
	a := adapt(s, raft, nil)
	excused, err := a.Excused(raft)
	if err != nil || !a.Beyond || !slices.Contains(excused, sim.OneLeader) {
		t.Errorf("raft with a wiped disk: beyond %t, excused %v, %v; want that two may be elected in one term", a.Beyond, excused, err)
	}
	if a := adapt(s, named(t, "quorum"), nil); a.Beyond {
		t.Error("quorum with a wiped disk is excused")
	}
}

// A program that must be warned a second before its lease ends, which a protocol with longer leases
// can do, would make each leader of quorum give up at once.
func TestAdaptDrain(t *testing.T) {
	for _, name := range []string{"quorum", "lease"} {
		p, ok := protocols.ByName(name)
		if !ok {
			t.Fatalf("no protocol %s", name)
		}
		s := base("queue")
		s.Faults, s.Work = 20*time.Second, sim.Work{Every: 100 * time.Millisecond, Drain: time.Second}
		w, err := sim.New(p, adapt(s, p, nil))
		if err != nil {
			t.Fatal(err)
		}
		w.Run()
		if st := w.Result().Stats; st.Elections > 5 {
			t.Errorf("%s: %d elections in 20 s without a fault", name, st.Elections)
		}
	}
}
