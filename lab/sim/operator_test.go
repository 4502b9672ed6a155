package sim_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
)

// register records the memberships, and the commands.
type register struct {
	last    *protocol.Membership // that a leader has sent
	largest int                  // the greatest number of voters
	boots   map[protocol.NodeID]sim.Time
	dirs    map[protocol.NodeID]protocol.DirID
	elected []protocol.NodeID
	where   map[protocol.NodeID]string // positions
	over    sim.Time                   // when the last reconfiguration was asked for
}

func (r *register) Event(_ *sim.World, rec *sim.Record) {
	switch rec.Kind {
	case sim.RecordMake:
		if _, ok := r.boots[rec.Node]; !ok {
			r.boots[rec.Node] = rec.At
		}
		r.dirs[rec.Node] = rec.Made.Self.Dir
	case sim.RecordSend:
		if ms := rec.Message.Membership; rec.Message.Type == quorum.Heartbeat && (r.last == nil || ms.Compare(r.last) > 0) {
			r.last, r.largest = ms, max(r.largest, len(ms.Voters))
		}
	case sim.RecordStep:
		if rec.Input.Kind == protocol.Do {
			switch c := &rec.Input.Command; c.Verb {
			case protocol.Locate:
				r.where[rec.Node] = c.Position
			case protocol.Reconfigure:
				r.over = rec.At
			}
		}
		for _, o := range rec.Effects.Orders {
			if o.Kind == protocol.Elected {
				r.elected = append(r.elected, rec.Node)
			}
		}
	}
}

// voters lists the voters at the end.
func (r *register) voters() string {
	var ids []string
	for _, v := range r.last.Voters {
		id := string(v.ID)
		if r.dirs[v.ID] != v.Dir {
			id += "?"
		}
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

// runOperator runs a world without chance, with three voters, an observer and two spares, in which n1
// leads first.
func runOperator(t *testing.T, change func(s *sim.Schedule), ops ...sim.Op) (*register, *sim.Result) {
	t.Helper()
	s := &sim.Schedule{
		Format: 1, Protocol: quorum.Name, Seed: 1, Nodes: 3, Observers: 1, Spares: 2, Faults: 30 * time.Second, Settle: 10 * time.Second,
		Links: sim.LinkNoise{Delay: time.Millisecond}, Disks: sim.DiskNoise{Sync: time.Millisecond}, Ops: ops,
		Work: sim.Work{Every: 10 * time.Millisecond, Drain: 50 * time.Millisecond},
	}
	if change != nil {
		change(s)
	}
	w, err := sim.New(byName(t, quorum.Name), s)
	if err != nil {
		t.Fatal(err)
	}
	r := &register{boots: map[protocol.NodeID]sim.Time{}, dirs: map[protocol.NodeID]protocol.DirID{}, where: map[protocol.NodeID]string{}}
	w.Trace(r)
	w.Run()
	res := w.Result()
	if res.Violation != nil {
		t.Fatal(res.Violation)
	}
	return r, res
}

func seconds(s float64) sim.Time { return sim.Time(s * float64(time.Second)) }

func asks(at float64, kind sim.OpKind, node protocol.NodeID) sim.Op {
	return sim.Op{At: seconds(at), Kind: kind, Node: node, Every: 20 * time.Millisecond, For: 5 * time.Second}
}

// What an operator wants is reached, step by step, and only if the leader can do it safely.
func TestOperator(t *testing.T) {
	for _, c := range []struct {
		name   string
		ops    []sim.Op
		voters string
	}{
		{"nothing", nil, "n1 n2 n3"},
		{"add an observer", []sim.Op{asks(5, sim.OpAdd, "o1")}, "n1 n2 n3 o1"},
		{"add a spare", []sim.Op{asks(5, sim.OpAdd, "s1")}, "n1 n2 n3 s1"},
		{"add a voter", []sim.Op{asks(5, sim.OpAdd, "n2")}, "n1 n2 n3"},
		{"remove", []sim.Op{asks(5, sim.OpRemove, "n3")}, "n1 n2"},
		{"remove the leader", []sim.Op{asks(5, sim.OpRemove, sim.Leader)}, "n2 n3"},
		{"remove all but one", []sim.Op{asks(5, sim.OpRemove, "n3"), asks(11, sim.OpRemove, "n2"), asks(17, sim.OpRemove, "n1")}, "n1"},
		{"remove, and add again", []sim.Op{asks(5, sim.OpRemove, "n3"), asks(11, sim.OpAdd, "n3")}, "n1 n2 n3"},
		{"a wiped disk", []sim.Op{{At: seconds(5), Kind: sim.OpWipe, Node: "n3"}}, "n1 n2 n3?"},
		{"a wiped disk cannot be added", []sim.Op{{At: seconds(5), Kind: sim.OpWipe, Node: "n3"}, asks(6, sim.OpAdd, "n3")}, "n1 n2 n3?"},
		{"replace", []sim.Op{{At: seconds(5), Kind: sim.OpWipe, Node: "n3"}, asks(6, sim.OpReplace, "n3")}, "n1 n2 n3"},
		{"others", []sim.Op{{At: seconds(5), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"o1", "s1", "s2"}, Every: 20 * time.Millisecond, For: 10 * time.Second}}, "o1 s1 s2"},
		{"others, at once first", []sim.Op{{At: seconds(5), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"o1", "s1", "s2"}, Every: 20 * time.Millisecond, For: 10 * time.Second, Value: 1}}, "o1 s1 s2"},
		{"no majority would answer", []sim.Op{
			{At: seconds(4), Kind: sim.OpIsolate, Node: "n3", For: 20 * time.Second}, {At: seconds(4), Kind: sim.OpIsolate, Node: "s1", For: 20 * time.Second},
			asks(5, sim.OpAdd, "s1"),
		}, "n1 n2 n3"},
		{"it gives up", []sim.Op{{At: seconds(4), Kind: sim.OpIsolate, Node: sim.Leader, For: 20 * time.Second}, {At: seconds(4), Kind: sim.OpIsolate, Node: "n2", For: 20 * time.Second}, asks(5, sim.OpAdd, "s1")}, "n1 n2 n3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := runOperator(t, nil, c.ops...)
			if got := r.voters(); got != c.voters {
				t.Errorf("in the end %s vote; want %s", got, c.voters)
			}
		})
	}
}

// The operator stops with the faults.
func TestOperatorStops(t *testing.T) {
	r, _ := runOperator(t, func(s *sim.Schedule) { s.Faults, s.Settle = 6*time.Second, 20*time.Second },
		sim.Op{At: seconds(2), Kind: sim.OpIsolate, Node: "n1", For: 4 * time.Second}, sim.Op{At: seconds(2), Kind: sim.OpIsolate, Node: "n2", For: 4 * time.Second},
		sim.Op{At: seconds(5), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"o1", "s1", "s2"}, Every: 20 * time.Millisecond, For: 20 * time.Second})
	if r.over > seconds(6) || r.voters() != "n1 n2 n3" {
		t.Errorf("asked until %v, and %s vote; want nothing after 6s", r.over, r.voters())
	}
}

// A spare does not boot before a message tells it that it is a member, and then with the membership
// that lists it. If it dies before that is durable, it waits again.
func TestSpare(t *testing.T) {
	r, res := runOperator(t, nil, asks(5, sim.OpAdd, "s1"))
	if at, ok := r.boots["s1"]; !ok || at < seconds(5) || at > seconds(6) {
		t.Errorf("s1 boots at %v, %t; want soon after 5s", at, ok)
	}
	if at, ok := r.boots["s2"]; ok {
		t.Errorf("s2 boots at %v, and no message has told it that it takes part", at)
	}
	if res.Seen.Has(sim.SawPromotedVotes) {
		t.Error("a promoted participant voted without an election")
	}
	r, res = runOperator(t, func(s *sim.Schedule) { s.Disks.Sync = 15 * time.Millisecond },
		asks(5, sim.OpAdd, "s1"), sim.Op{At: seconds(5.02), Kind: sim.OpLoseWrites, Node: "s1", For: 100 * time.Millisecond},
		sim.Op{At: seconds(15), Kind: sim.OpTransfer, Node: sim.Leader, Peer: "s1"})
	if r.voters() != "n1 n2 n3 s1" || r.elected[len(r.elected)-1] != "s1" {
		t.Errorf("%s vote, and elected were %v; want s1 among them, and last", r.voters(), r.elected)
	}
	if !res.Seen.Has(sim.SawHandedOver) {
		t.Error("no term was handed over")
	}
}

// The leader's position advances while it leads, the others' follow later, and one that stands
// still falls behind.
func TestPositions(t *testing.T) {
	log := func(s *sim.Schedule) {
		s.Log = sim.Log{Every: 100 * time.Millisecond, Lag: 50 * time.Millisecond}
		s.Config = json.RawMessage(`{"position":"require"}`)
		s.Faults, s.Settle = 20*time.Second, 0
	}
	r, _ := runOperator(t, log)
	if r.where["n1"] < "170" || r.where["n2"] < "170" || r.where["n1"] < r.where["n2"] || r.where["s1"] != "" {
		t.Errorf("positions %v; want the leader's a little above the others'", r.where)
	}
	// Only n3 could take over, and has stood still: it is refused, catches up and wins, or the old
	// leader does.
	r, res := runOperator(t, log,
		sim.Op{At: seconds(5), Kind: sim.OpLocate, Node: "n3", For: 2 * time.Second},
		sim.Op{At: seconds(5), Kind: sim.OpStandBack, Node: "n2", For: 10 * time.Second},
		sim.Op{At: seconds(6), Kind: sim.OpTransfer, Node: "n1", Peer: "n3"},
		sim.Op{At: seconds(6.001), Kind: sim.OpPause, Node: "n1", For: 3 * time.Second})
	if !res.Seen.Has(sim.SawHeldBack) || !slices.Contains(r.elected, "n3") {
		t.Errorf("elected were %v, seen %v; want n3 held back, and elected", r.elected, res.Seen)
	}
	r, _ = runOperator(t, log, sim.Op{At: seconds(5), Kind: sim.OpLocate, Node: "n3", Count: 900}, sim.Op{At: seconds(19), Kind: sim.OpKill, Node: "n1"})
	if r.where["n3"] < "900" {
		t.Errorf("n3 is at %s; want beyond 900", r.where["n3"])
	}
}

// The membership of the other protocols is fixed: none of these operations is for them.
func TestOthersHaveNoMembers(t *testing.T) {
	for _, name := range []string{"lease", "queue", "queue-zookeeper"} {
		p := byName(t, name)
		for _, kind := range []sim.OpKind{sim.OpTransfer, sim.OpStandBack, sim.OpLocate, sim.OpAdd, sim.OpRemove, sim.OpReplace, sim.OpReconfigure} {
			s := &sim.Schedule{Format: 1, Protocol: name, Nodes: 3, Faults: time.Second, Ops: []sim.Op{{Kind: kind, Node: "n1", Group: []protocol.NodeID{"n1"}, Every: time.Millisecond}}}
			if _, err := sim.New(p, s); err == nil || !strings.Contains(err.Error(), "is fixed") && (kind != sim.OpLocate || !strings.Contains(err.Error(), "knows no positions")) {
				t.Errorf("%s, %s: error %v; want one that says that it is fixed, or not known", name, kind, err)
			}
		}
		for _, change := range []func(s *sim.Schedule){func(s *sim.Schedule) { s.Spares = 1 }, func(s *sim.Schedule) { s.Log.Every = time.Second }} {
			s := &sim.Schedule{Format: 1, Protocol: name, Nodes: 3, Faults: time.Second}
			change(s)
			if _, err := sim.New(p, s); err == nil {
				t.Errorf("%s: %+v was accepted", name, s)
			}
		}
		for seed := range uint64(50) {
			s, err := sim.Generate(p, seed, sim.Options{Profile: "members"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(p); err != nil {
				t.Error(err)
			}
		}
	}
}

// The healed participants are a majority of the present membership, and liveness is not expected
// where there is none left.
func TestCoreOfWhatIsLeft(t *testing.T) {
	others := sim.Op{At: seconds(5), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"o1", "s1", "s2"}, Every: 20 * time.Millisecond, For: 10 * time.Second}
	alone := sim.Op{At: seconds(5), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"s1"}, Every: 20 * time.Millisecond, For: 10 * time.Second}
	for _, c := range []struct {
		name   string
		ops    []sim.Op
		judged uint64
	}{
		{"as it was", nil, 1},
		{"the core has left", []sim.Op{others, {At: seconds(20), Kind: sim.OpIsolate, Node: "s1"}, {At: seconds(20), Kind: sim.OpKill, Node: "s2"}, {At: seconds(20), Kind: sim.OpKill, Node: "o1"}}, 1},
		{"the last one has lost its disk", []sim.Op{alone, {At: seconds(20), Kind: sim.OpWipe, Node: "s1"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, res := runOperator(t, func(s *sim.Schedule) { s.Core, s.Settle = []protocol.NodeID{"n1", "n2"}, 60*time.Second }, c.ops...)
			if res.Stats.Judged != c.judged {
				t.Errorf("judged %d times, with %s voting; want %d", res.Stats.Judged, r.voters(), c.judged)
			}
		})
	}
}
