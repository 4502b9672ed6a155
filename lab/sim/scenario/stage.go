package scenario

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// The protocols, by what they have in common.
var (
	quorumOnly   = []string{"quorum"}
	bullies      = []string{"bully"}
	rings        = []string{"ring", "ring-chang-roberts"}
	rafts        = []string{"raft", "raft-prevote", "raft-checkquorum"}
	blazings     = []string{"blazingmq", "blazingmq-sticky", "blazingmq-naive"}
	queues       = []string{"queue", "queue-zookeeper"}
	storeOnes    = []string{"lease", "queue", "queue-zookeeper"}
	highestFirst = []string{"bully", "ring", "ring-chang-roberts"}
	// byTerm are the protocols in which each voter has one vote in a term.
	byTerm = []string{"raft", "raft-prevote", "raft-checkquorum", "blazingmq", "blazingmq-sticky", "blazingmq-naive"}
)

// pace is how fast a protocol is, by its default configuration.
type pace struct {
	beat   time.Duration // between two signs of life of a leader
	detect time.Duration // the least silence after which a participant stands, or a lease ends
}

// paces are the defaults of the machines.
var paces = map[string]pace{
	"quorum":             {100 * time.Millisecond, time.Second},
	"bully":              {100 * time.Millisecond, time.Second},
	"ring":               {100 * time.Millisecond, time.Second},
	"ring-chang-roberts": {100 * time.Millisecond, time.Second},
	"raft":               {50 * time.Millisecond, 300 * time.Millisecond},
	"raft-prevote":       {50 * time.Millisecond, 300 * time.Millisecond},
	"raft-checkquorum":   {50 * time.Millisecond, 300 * time.Millisecond},
	"blazingmq":          {2 * time.Second, 6 * time.Second},
	"blazingmq-sticky":   {2 * time.Second, 6 * time.Second},
	"blazingmq-naive":    {2 * time.Second, 6 * time.Second},
	"lease":              {3750 * time.Millisecond, 15 * time.Second},
	"queue":              {2500 * time.Millisecond, 10 * time.Second},
	"queue-zookeeper":    {1250 * time.Millisecond, 10 * time.Second},
	"naive-redis":        {10 * time.Second / 3, 10 * time.Second},
	"naive-redlock":      {10 * time.Second / 3, 10 * time.Second},
	"naive-update":       {10 * time.Second / 3, 10 * time.Second},
	"naive-advisory":     {10 * time.Second / 3, 10 * time.Second},
}

// stage is a protocol in a scenario: the roles of its participants, the times, and the schedule.
type stage struct {
	protocol *sim.Protocol
	name     string
	pace

	schedule *sim.Schedule
	more     []*sim.Schedule // beside the first, where one is not enough
	// ids are all participants. The first leads when the faults begin, and each of the others ranks
	// before those behind it.
	ids []protocol.NodeID
	// fault is when the faults begin, and heal when they end.
	fault, heal sim.Time

	trace func(r *run, rec *sim.Record) // counts
}

func newStage(p *sim.Protocol) *stage {
	st := &stage{protocol: p, name: p.Name, pace: paces[p.Name]}
	st.cast(5)
	st.fault, st.heal = st.times(5), st.times(15)
	st.blank()
	return st
}

// times is that many times the silence after which a participant stands.
func (st *stage) times(n float64) sim.Time { return sim.Time(n * float64(st.detect)) }

// span is times as a length.
func (st *stage) span(n float64) time.Duration { return time.Duration(st.times(n)) }

func (st *stage) store() bool { return st.protocol.Store != sim.StoreNone }

// cast has n participants. Stores need no more than three: their participants do not send each
// other messages.
func (st *stage) cast(n int) {
	st.ids = st.ids[:0]
	for i := range n {
		st.ids = append(st.ids, protocol.NodeID("n"+strconv.Itoa(i+1)))
	}
	if slices.Contains(highestFirst, st.name) {
		slices.Reverse(st.ids)
	}
	if st.schedule != nil {
		st.schedule.Nodes = n
	}
}

// blank begins a schedule: quiet links and disks of half a millisecond, and the first of the cast
// is the only candidate until a leader has had the time to be elected twice.
func (st *stage) blank() {
	s := &sim.Schedule{
		Format: 1, Protocol: st.name, Seed: 1, Nodes: len(st.ids), Faults: st.span(25),
		Links: sim.LinkNoise{Delay: 500 * time.Microsecond, Jitter: 50 * time.Microsecond},
		Disks: sim.DiskNoise{Sync: 500 * time.Microsecond, Jitter: 50 * time.Microsecond},
		Work:  sim.Work{Every: st.beat / 2, Think: time.Millisecond, Flight: time.Millisecond, Drain: st.detect / 10},
	}
	if st.store() {
		s.Store = sim.StoreNoise{Delay: 500 * time.Microsecond, Jitter: 50 * time.Microsecond, Timeout: st.beat / 2}
	}
	st.schedule = s
}

// appoint makes the first of the cast the leader: no other stands at the beginning. The greatest id
// needs no help where it wins.
func (st *stage) appoint() {
	if slices.Contains(highestFirst, st.name) {
		return
	}
	for _, id := range st.ids[1:] {
		st.op(sim.Op{Kind: sim.OpWithdraw, Node: id, For: st.span(3)})
	}
}

// op adds an operation.
func (st *stage) op(ops ...sim.Op) { st.schedule.Ops = append(st.schedule.Ops, ops...) }

// during adds operations that begin with the faults and end with them.
func (st *stage) during(ops ...sim.Op) {
	for _, op := range ops {
		op.At, op.For = st.fault, time.Duration(st.heal-st.fault)
		st.op(op)
	}
}

// apart cuts the link between two.
func apart(a, b protocol.NodeID) []sim.Op {
	return []sim.Op{{Kind: sim.OpHalfOpen, Node: a, Peer: b}, {Kind: sim.OpHalfOpen, Node: b, Peer: a}}
}

// only removes all links but those in both directions between the pairs.
func (st *stage) only(pairs ...[2]int) []sim.Op {
	var ops []sim.Op
	for i := range st.ids {
		for j := range i {
			if !slices.Contains(pairs, [2]int{i, j}) && !slices.Contains(pairs, [2]int{j, i}) {
				ops = append(ops, apart(st.ids[i], st.ids[j])...)
			}
		}
	}
	return ops
}

// fork adds a copy of the schedule as it is so far, and goes on with that one.
func (st *stage) fork() {
	c := *st.schedule
	c.Ops = slices.Clone(c.Ops)
	c.Clocks = slices.Clone(c.Clocks)
	st.more = append(st.more, st.schedule)
	st.schedule = &c
}

// configure sets what differs from the machines' defaults.
func (st *stage) configure(config any) {
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // it is written in this package
	}
	st.schedule.Config = text
}

// schedules returns the schedules, each with that many seeds.
func (st *stage) schedules(seeds int) []*sim.Schedule {
	var all []*sim.Schedule
	for _, s := range append(slices.Clone(st.more), st.schedule) {
		slices.SortStableFunc(s.Ops, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
		for seed := range uint64(seeds) {
			c := *s
			c.Seed += seed
			all = append(all, &c)
		}
	}
	return all
}

// least is the shortest silence after which a participant stands.
func (st *stage) least() time.Duration {
	if slices.Contains(rafts, st.name) {
		return st.detect / 2
	}
	return st.detect
}

// alone cuts one off while the faults last: from the others, or from the store.
func (st *stage) alone(id protocol.NodeID) {
	kind := sim.OpIsolate
	if st.store() {
		kind = sim.OpStoreDown
	}
	st.during(sim.Op{Kind: kind, Node: id})
}
