package raft

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// world is the shared world, in which positions, slow disks and cut links are added, and which
// checks what each step and each message must hold.
type world struct {
	*classictest.World[*Machine]
	rng   *rand.Rand
	nodes []*node

	cut   [16][16]bool // from, to
	loss  float64
	dup   float64
	fsync func() time.Duration // one save after the other
	log   func(n *node, format string, args ...any)

	winner map[uint64]protocol.NodeID
	votes  map[string]protocol.NodeID // by voter and term, what was granted
}

type node struct {
	*classictest.Node[*Machine]
	w        *world
	i        int
	cfg      Config
	synced   time.Duration // when the last save that is in flight is done
	position string        // of its log; it survives
}

// newWorld makes a world of n nodes that are not started. Messages take 0.5 ms, saves 2 ms, and
// work 5 ms to return.
func newWorld(t testing.TB, seed uint64, n int, cfg Config) *world {
	fixed := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), fsync: fixed(2 * time.Millisecond), log: func(*node, string, ...any) {},
		winner: map[uint64]protocol.NodeID{}, votes: map[string]protocol.NodeID{},
	}
	w.World = classictest.New(t, n, func(i int, _ []protocol.NodeID) (*Machine, error) { return New(w.nodes[i].cfg) })
	cfg.Members = classictest.IDs(n)
	for i, one := range w.Nodes {
		cfg.Self = one.ID
		one.Ahead = time.Duration(i) * time.Hour
		w.nodes = append(w.nodes, &node{Node: one, w: w, i: i, cfg: cfg})
	}
	w.Delay, w.Join, w.Draw = fixed(500*time.Microsecond), fixed(5*time.Millisecond), w.rng.Uint64
	w.Cut = func(from, to int) bool { return w.cut[from][to] }
	w.Copies = w.copies
	w.Fsync = func(i int) time.Duration {
		n := w.nodes[i]
		n.synced = max(n.synced, w.Now) + w.fsync()
		return n.synced - w.Now
	}
	w.Stepped, w.Sending = w.stepped, w.sending
	return w
}

func (w *world) copies(from, to int) int {
	switch {
	case w.cut[from][to] || w.rng.Float64() < w.loss:
		return 0
	case w.rng.Float64() < w.dup:
		return 2
	}
	return 1
}

func (w *world) start() {
	for _, n := range w.nodes {
		n.start()
	}
}

// leaders returns the nodes that believe that they lead.
func (w *world) leaders() (all []*node) {
	for _, n := range w.nodes {
		if n.Up && n.Token != 0 {
			all = append(all, n)
		}
	}
	return all
}

func (n *node) start() {
	if n.Up {
		return
	}
	n.synced = 0
	n.w.Start(n.i)
	if n.position != "" {
		n.do(protocol.Command{Verb: protocol.Locate, Position: n.position})
	}
	n.do(protocol.Command{Verb: protocol.Campaign})
}

// crash ends the process; saves in flight are lost.
func (n *node) crash() {
	if n.Up {
		n.w.log(n, "crashes")
		n.w.Kill(n.i)
	}
}

func (n *node) do(c protocol.Command) {
	n.w.Step(n.i, protocol.Input{Kind: protocol.Do, Command: c})
}

func (n *node) locate(position string) {
	n.position = position
	n.do(protocol.Command{Verb: protocol.Locate, Position: position})
}

func (n *node) violated(format string, args ...any) {
	n.w.T.Helper()
	n.w.T.Fatalf("%v %s: %s", n.w.Now, n.ID, fmt.Sprintf(format, args...))
}

// stepped checks a step against the protocol's promises.
func (w *world) stepped(i int, in *protocol.Input, fx *protocol.Effects, before protocol.View) {
	n := w.nodes[i]
	if v := n.Machine.View(); before.Role != v.Role {
		w.log(n, "%v → %v, term %d", before.Role, v.Role, v.Term)
	}
	for _, o := range fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			w.log(n, "ELECTED, token %d", o.Token)
			if was := w.winner[o.Token]; was != "" {
				n.violated("elected with token %d, as %s was", o.Token, was)
			}
			if b, err := DecodeBallot(n.Disk); err != nil || b.Term < o.Token || b.Term == o.Token && b.VotedFor != n.ID {
				n.violated("elected in term %d, and its disk says %+v, %v", o.Token, b, err)
			}
			w.winner[o.Token] = n.ID
		case protocol.Stop:
			w.log(n, "STOP, token %d: %s", o.Token, o.Reason)
		}
	}
	for _, s := range fx.Sends {
		m := &s.Message
		if m.Type == VoteReply && m.Granted && n.cfg.Position == RequirePosition && protocol.CompareNumbers(in.Message.Position, n.Machine.position) < 0 {
			n.violated("at %q, votes for one at %q", n.Machine.position, in.Message.Position)
		}
	}
}

// sending checks a message that leaves against what is durable.
func (w *world) sending(i int, s *protocol.Send) {
	n, m := w.nodes[i], &s.Message
	b, err := DecodeBallot(n.Disk)
	if err != nil || b.Incarnation < m.Incarnation {
		n.violated("says %s in incarnation %d, and its disk says %+v, %v", m.Type, m.Incarnation, b, err)
	}
	if m.Type != VoteReply || !m.Granted {
		return
	}
	if b.Term < m.Term || b.Term == m.Term && b.VotedFor != s.To {
		n.violated("grants %s its vote in term %d, and its disk says %+v", s.To, m.Term, b)
	}
	key := fmt.Sprint(n.ID, m.Term)
	if was, ok := w.votes[key]; ok && was != s.To {
		n.violated("votes for %s and %s in term %d", was, s.To, m.Term)
	}
	w.votes[key] = s.To
}
