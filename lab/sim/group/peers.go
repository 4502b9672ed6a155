package group

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/protocols"
)

// peers is E among peers: a world of package sim, with the machines of quorum and its own faults, whose participants run
// in the processes of this world. What happens to a process, a clock or a link there happens here, too.
type peers struct {
	w     *World
	world *sim.World
	seen  []participant
	at    sim.Time           // of the next event of world that is planned here
	now   []sim.ProcessState // scratch of mirror
}

// participant is what was last seen of one.
type participant struct {
	life  uint32
	token uint64 // of the latest term that it has proven
}

// newPeers returns E as a schedule of package sim has it.
func newPeers(w *World, s *sim.Schedule) (*peers, error) {
	p, ok := protocols.ByName(s.Protocol)
	if !ok {
		return nil, fmt.Errorf("the election's protocol is %q; want quorum", s.Protocol)
	}
	world, err := sim.New(p, s)
	if err != nil {
		return nil, fmt.Errorf("the election: %w", err)
	}
	q := &peers{w: w, world: world, at: forever}
	q.now = world.AppendProcesses(nil)
	if len(q.now) != len(w.nodes) {
		return nil, fmt.Errorf("the election has %d participants, and the group %d nodes; want as many", len(q.now), len(w.nodes))
	}
	for i := range q.now {
		if q.now[i].Node != w.nodes[i].ID {
			return nil, fmt.Errorf("node %d is %s, and the participant %s; want one id", i, w.nodes[i].ID, q.now[i].Node)
		}
	}
	q.seen = make([]participant, len(w.nodes))
	q.plan()
	return q, nil
}

// plan plans what is next in E's world.
func (q *peers) plan() {
	at, ok := q.world.Next()
	if !ok || at >= q.at {
		return
	}
	q.at = at
	q.w.at(at, func() {
		if q.at == at {
			q.at = forever
		}
		q.advance()
	})
}

// advance lets happen what is due in E's world.
func (q *peers) advance() {
	for q.world.Advance(q.w.now) && !q.w.over {
		q.mirror()
	}
	if v := q.world.Result().Violation; v != nil {
		q.w.fail(v.Invariant, nil, "the coordinator's election: %v", v)
	}
	q.plan()
}

// mirror takes over what has changed in E's world.
func (q *peers) mirror() {
	w := q.w
	q.now = q.world.AppendProcesses(q.now[:0])
	for i := range q.now {
		n, s, seen := w.nodes[i], &q.now[i], &q.seen[i]
		if n.p != nil && (!s.Up || s.Life != seen.life) {
			w.tell(n, "dies")
			w.kill(n, &Fault{Witness: w.chance.Chance(0.5), Part: w.chance.Below(3), Late: w.chance.Exp(5 * time.Millisecond)})
		}
		if s.Up {
			n.follow(w, s)
		}
		if s.Up && n.p == nil {
			*seen = participant{life: s.Life}
			w.start(n)
		}
		if p := n.p; p != nil {
			switch {
			case s.Frozen && !p.frozen:
				w.still(p)
			case !s.Frozen && p.frozen:
				w.thaw(p)
			}
		}
		if n.p != nil { // else it has just died of something
			q.elected(n, s, seen)
		}
	}
	for _, m := range w.nodes {
		for _, c := range w.nodes {
			q.link(m, c)
		}
	}
}

// elected begins and ends tenures.
func (q *peers) elected(n *node, s *sim.ProcessState, seen *participant) {
	e := &q.w.e
	v := &s.View
	if t := n.p.term; t != nil && (!v.Active || v.Token != t.count) {
		n.p.term = nil
		e.end(t, "its term has ended", 0)
	}
	if v.Active && v.Token > seen.token {
		seen.token = v.Token
		t := &tenure{count: v.Token, p: n.p, peers: q}
		n.p.term = t
		e.begin(t)
	}
}

// proven is Check of a tenure.
func (q *peers) proven(t *tenure) bool {
	n := t.p.node
	v, up := q.world.View(n.ID)
	return up && n.p == t.p && v.Token == t.count && v.Proven(n.clock.Read(q.w.now))
}

// leads is what a careless driver takes for Check: whether the lease is proven does not count.
func (q *peers) leads(t *tenure) bool {
	v, up := q.world.View(t.p.node.ID)
	return up && t.p.alive() && v.Active && v.Token == t.count
}

// resign gives a tenure up, and stands aside for a while.
func (q *peers) resign(t *tenure, aside time.Duration) {
	id, p := t.p.node.ID, t.p
	q.command(p, func() {
		if v, up := q.world.View(id); up && v.Elected && v.Token == t.count {
			q.world.Command(id, protocol.Command{Verb: protocol.Resign})
		}
		if aside > 0 {
			q.world.Command(id, protocol.Command{Verb: protocol.Withdraw})
		}
	})
	if aside > 0 {
		q.w.in(aside, func() {
			q.command(p, func() { q.world.Command(id, protocol.Command{Verb: protocol.Campaign}) })
		})
	}
}

// command does something to a process's participant after all that happens now.
func (q *peers) command(p *process, do func()) {
	q.w.in(0, func() {
		q.advance()
		if p.alive() && !q.w.over && !q.world.Over() {
			do()
			q.mirror()
			q.plan()
		}
	})
}

// link cuts connections where a link is cut, one way or the other.
func (q *peers) link(m, c *node) {
	if m == c {
		return
	}
	to, _ := q.world.Link(m.index, c.index)
	back, _ := q.world.Link(c.index, m.index)
	l, cut := q.w.link(m, c), to.Cut || back.Cut
	switch {
	case cut && l.cut != forever:
		q.w.cut(m, c, forever)
	case !cut && l.cut == forever:
		l.cut = 0
		q.w.dial(m, c)
	}
}

// follow sets the node's clocks to those of a participant.
func (n *node) follow(w *World, s *sim.ProcessState) {
	now := n.clock.Read(w.now)
	boot, mono := s.Reading.Boot.Sub(now.Boot), s.Reading.Mono.Sub(now.Mono)
	if n.rate == s.Rate && boot.Abs() <= 1 && mono.Abs() <= 1 { // which is rounding
		return
	}
	n.rate = s.Rate
	n.clock.Run(w.now, s.Rate)
	n.clock.Step(w.now, boot, true)
	n.clock.Sleep(w.now, boot-mono)
	w.rearm(n)
}

// electionOf draws E's schedule, and lets the group's run on its participants.
func (s *Schedule) electionOf(profile string, nodes int, r *sim.Stream) error {
	p, _ := protocols.ByName("quorum")
	e, err := sim.Generate(p, s.Seed, sim.Options{
		Profile: profile, Nodes: nodes, Observers: r.Below(2), Faults: s.Span, Settle: 2 * longestAmongPeers,
	})
	if err != nil {
		return err
	}
	drift, err := p.Drift(e.Config)
	if err != nil {
		return err
	}
	e.Core, e.Work.NonExclusive = nil, false
	// Disks that are lost may leave no majority, and twins have no place in the group.
	e.Ops = slices.DeleteFunc(e.Ops, func(o sim.Op) bool {
		return o.Kind == sim.OpWipe || o.Kind == sim.OpReplace || o.Kind == sim.OpTwin || o.Kind == sim.OpImpostor
	})
	if r.Chance(0.3) {
		halt(e, r)
	}
	s.Election, s.Nodes = e, nil
	for i, id := range participants(e) {
		s.Nodes = append(s.Nodes, Node{ID: id, Member: true, Rate: e.Clocks[i].Rate, Zero: int64(e.Clocks[i].Zero)})
	}
	promise := []time.Duration{time.Second, 3 * time.Second}[r.Below(2)]
	s.Settings[0] = machine.Settings{
		Promise: promise, Cover: promise, Poll: promise / 10, Drain: promise / 20, Drift: drift, Vouchers: s.Settings[0].Vouchers, Bits: 16,
	}
	return nil
}

// participants are the names in a schedule, in their order.
func participants(e *sim.Schedule) (all []protocol.NodeID) {
	for _, kind := range []struct {
		prefix string
		n      int
	}{{"n", e.Nodes}, {"o", e.Observers}, {"s", e.Spares}} {
		for i := range kind.n {
			all = append(all, protocol.NodeID(fmt.Sprintf("%s%d", kind.prefix, i+1)))
		}
	}
	return all
}

// halt has all participants stand still at once, or all machines sleep. They go on in any order.
func halt(e *sim.Schedule, r *sim.Stream) {
	kind := []sim.OpKind{sim.OpPause, sim.OpSuspend}[r.Below(2)]
	for _, id := range participants(e) {
		e.Ops = append(e.Ops, sim.Op{
			At: sim.Time(e.Faults/2 + r.Between(0, haltSpread)), Kind: kind, Node: id, For: e.Faults/4 + r.Between(0, haltSpread),
		})
	}
	slices.SortStableFunc(e.Ops, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
}
