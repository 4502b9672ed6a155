package blazingmq

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// world is the shared world, in which the nodes of a crashed process see its connections close. Each
// step is repeated by a machine that was loaded from the state before it.
type world struct {
	*classictest.World[*Machine]
	t     testing.TB
	rng   *rand.Rand
	nodes []*node
	cut   map[[2]int]bool // from, to
	loss  float64
	told  func(format string, args ...any)

	leaders map[uint64]map[int]bool                // by term, the nodes that were elected in it
	votes   map[[2]uint64]map[protocol.NodeID]bool // by node and term, the candidates that the node voted for
}

type node struct {
	*classictest.Node[*Machine]
	w         *world
	i         int
	cfg       Config
	candidate bool
	lsn       LSN
}

// newWorld makes a world of n nodes that are not started. Messages take 0.5 ms, saves 2 ms, and
// work 5 ms to return.
func newWorld(t testing.TB, seed uint64, n int, cfg Config) *world {
	fixed := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{}, told: func(string, ...any) {},
		leaders: map[uint64]map[int]bool{}, votes: map[[2]uint64]map[protocol.NodeID]bool{},
	}
	w.World = classictest.New(t, n, func(i int, _ []protocol.NodeID) (*Machine, error) { return New(w.nodes[i].cfg) })
	cfg.Members = classictest.IDs(n)
	for i, one := range w.Nodes {
		cfg.Self = one.ID
		one.Ahead = time.Duration(i) * time.Second
		w.nodes = append(w.nodes, &node{Node: one, w: w, i: i, cfg: cfg, candidate: true})
	}
	w.Check = true
	w.Delay, w.Join, w.Draw = fixed(time.Millisecond/2), fixed(5*time.Millisecond), w.rng.Uint64
	w.Fsync = func(int) time.Duration { return 2 * time.Millisecond }
	w.Cut = func(from, to int) bool { return w.cut[[2]int{from, to}] }
	w.Copies = func(int, int) int {
		if w.rng.Float64() < w.loss {
			return 0
		}
		return 1
	}
	w.Stepped = w.stepped
	return w
}

// until runs until done returns true, or fails the test.
func (w *world) until(within time.Duration, done func() bool) {
	w.t.Helper()
	for end := w.Now + within; !done(); {
		if !w.Next(end) {
			w.t.Fatalf("at %v: the condition does not hold within %v", w.Now, within)
		}
	}
}

func (w *world) start() {
	for _, n := range w.nodes {
		n.start()
	}
}

func (n *node) start() {
	n.lsn = LSN{}
	if !n.cfg.Durable {
		clear(n.Used) // it may win a term again that it has forgotten
	}
	n.w.Start(n.i)
	if n.candidate {
		n.do(protocol.Campaign)
	}
}

// crash ends the process and its work. Unless silently, the others see its connections close.
func (n *node) crash(silently bool) {
	n.w.Kill(n.i)
	life := n.Machine.ballot.Incarnation
	for _, o := range n.w.nodes {
		if o != n && !silently {
			n.w.In(time.Millisecond, func() {
				if !n.w.cut[[2]int{n.i, o.i}] {
					o.give(protocol.Input{Kind: protocol.PeerClosed, From: n.ID, Incarnation: life})
				}
			})
		}
	}
}

func (n *node) do(v protocol.Verb) {
	n.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v}})
}

func (n *node) give(in protocol.Input) { n.w.Step(n.i, in) }

func indexOf(w *world, id protocol.NodeID) int {
	for i, n := range w.nodes {
		if n.ID == id {
			return i
		}
	}
	w.t.Fatalf("there is no %s", id)
	return noMember
}

// stepped checks the tokens and the LSN, and logs orders, what was sent, and changes of the followed
// leader.
func (w *world) stepped(i int, _ *protocol.Input, fx *protocol.Effects, before protocol.View) {
	n := w.nodes[i]
	for _, o := range fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			if o.Token != n.Machine.term || o.Token == 0 {
				w.t.Fatalf("at %v: %s elected with %d in term %d", w.Now, n.ID, o.Token, n.Machine.term)
			}
			if w.leaders[o.Token] == nil {
				w.leaders[o.Token] = map[int]bool{}
			}
			w.leaders[o.Token][i] = true
			w.told("%s leads in term %d", n.ID, o.Token)
		case protocol.Stop:
			w.told("%s leads no more: %s", n.ID, o.Reason)
		}
	}
	seen := map[protocol.MessageType]bool{}
	for _, s := range fx.Sends {
		msg := &s.Message
		if msg.Type == ElectionResponse && msg.Granted && n.Machine.tentative != noMember {
			key := [2]uint64{uint64(i), msg.Term}
			if w.votes[key] == nil {
				w.votes[key] = map[protocol.NodeID]bool{}
			}
			w.votes[key][s.To] = true
		}
		first := !seen[msg.Type]
		seen[msg.Type] = true
		switch {
		case msg.Type == ScoutingRequest && first:
			w.told("%s asks who would support it in term %d", n.ID, msg.Term)
		case msg.Type == ElectionProposal && first:
			w.told("%s proposes itself in term %d", n.ID, msg.Term)
		case msg.Type == LeadershipCession && first:
			w.told("%s tells all that it leads no more", n.ID)
		case msg.Type == ScoutingResponse && msg.Granted:
			w.told("%s would support %s", n.ID, s.To)
		case msg.Type == ScoutingResponse:
			w.told("%s would not support %s", n.ID, s.To)
		case msg.Type == ElectionResponse && msg.Granted:
			w.told("%s supports %s in term %d", n.ID, s.To, msg.Term)
		case msg.Type == ElectionResponse:
			w.told("%s does not support %s: it is in term %d", n.ID, s.To, msg.Term)
		case msg.Type == HeartbeatResponse:
			w.told("%s answers a heartbeat of %s: it is in term %d", n.ID, s.To, msg.Term)
		}
	}
	switch is := n.Machine.View(); {
	case is.Elected || before.Leader == is.Leader:
	case is.Leader.ID != "":
		w.told("%s follows %s in term %d", n.ID, is.Leader.ID, is.Term)
	case !before.Elected:
		w.told("%s sees no leader", n.ID)
	}
	lsn := n.Machine.LSN()
	if lsn.Compare(n.lsn) < 0 {
		w.t.Fatalf("at %v: %s goes back from %v to %v", w.Now, n.ID, n.lsn, lsn)
	}
	n.lsn = lsn
}

// leading returns the nodes that are elected now.
func (w *world) leading() (all []*node) {
	for _, n := range w.nodes {
		if n.Up && n.Token != 0 {
			all = append(all, n)
		}
	}
	return all
}

// agreed reports whether one node leads and all others that run follow it.
func (w *world) agreed() bool {
	l := w.leading()
	if len(l) != 1 {
		return false
	}
	for _, n := range w.nodes {
		if v := n.Machine.View(); n.Up && (v.Leader.ID != l[0].ID || v.Term != l[0].Machine.term) {
			return false
		}
	}
	return true
}

func (w *world) isolate(i int, on bool) {
	for j := range w.nodes {
		w.cut[[2]int{i, j}], w.cut[[2]int{j, i}] = on, on
	}
}

func names(nodes []*node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, string(n.ID))
	}
	return strings.Join(all, ", ")
}
