package blazingmq

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// world is a small deterministic cluster: a clock, a disk and work for each node, and links. Each
// step is repeated by a machine that was loaded from the state before it.
type world struct {
	classictest.Agenda
	t     testing.TB
	rng   *rand.Rand
	nodes []*node
	cut   map[[2]int]bool // from, to
	loss  float64
	delay func() time.Duration
	told  func(format string, args ...any)
	sent  map[protocol.MessageType]int

	leaders map[uint64]map[int]bool                // by term, the nodes that were elected in it
	votes   map[[2]uint64]map[protocol.NodeID]bool // by node and term, the candidates that the node voted for
}

type node struct {
	w         *world
	i         int
	cfg       Config
	m         *Machine
	up        bool
	life      int
	candidate bool
	disk      []byte
	saved     uint64
	waiting   []protocol.Send
	fires     int
	elected   uint64 // the token between Elected and Stop
	working   bool   // until Joined
	view      protocol.View
	lsn       LSN
}

func newWorld(t testing.TB, seed uint64, n int, cfg Config) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{}, sent: map[protocol.MessageType]int{},
		delay:   func() time.Duration { return time.Millisecond / 2 },
		told:    func(string, ...any) {},
		leaders: map[uint64]map[int]bool{}, votes: map[[2]uint64]map[protocol.NodeID]bool{},
	}
	cfg.Members = classictest.IDs(n)
	for i, id := range cfg.Members {
		cfg.Self = id
		w.nodes = append(w.nodes, &node{w: w, i: i, cfg: cfg, candidate: true})
	}
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
	n.up = true
	n.life++
	n.saved, n.waiting, n.lsn = 0, nil, LSN{}
	n.m = n.machine()
	n.give(protocol.Input{Kind: protocol.Boot, Durable: n.disk})
	if n.candidate {
		n.do(protocol.Campaign, 0)
	}
}

func (n *node) machine() *Machine {
	m, err := New(n.cfg)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return m
}

// crash ends the process and its work. Unless silently, the others see its connections close.
func (n *node) crash(silently bool) {
	n.up, n.elected, n.working, n.view = false, 0, false, protocol.View{}
	life := n.m.ballot.Incarnation
	for _, o := range n.w.nodes {
		if o != n && !silently {
			n.w.In(time.Millisecond, func() {
				if o.up && !n.w.cut[[2]int{n.i, o.i}] {
					o.give(protocol.Input{Kind: protocol.PeerClosed, From: n.cfg.Self, Incarnation: life})
				}
			})
		}
	}
}

func (n *node) do(v protocol.Verb, token uint64) {
	n.give(protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: v, Token: token}})
}

func (n *node) give(in protocol.Input) {
	w := n.w
	boot := protocol.Instant(w.Now) + protocol.Instant(n.i)*1e9 // clocks differ
	in.Now, in.Rand = protocol.Reading{Boot: boot, Mono: boot}, w.rng.Uint64()
	before := n.m.AppendState(nil)
	var fx protocol.Effects
	n.m.Step(&in, &fx)
	if err := classictest.Reloaded(n.m, &fx, n.machine(), before, &in); err != nil {
		w.t.Fatalf("at %v: %s: %v", w.Now, n.cfg.Self, err)
	}
	n.carryOut(&fx)
}

func (n *node) carryOut(fx *protocol.Effects) {
	w, life := n.w, n.life
	for _, o := range fx.Orders {
		n.obey(o)
	}
	for _, s := range fx.Saves {
		w.In(2*time.Millisecond, func() {
			if !n.up || n.life != life {
				return
			}
			n.disk, n.saved = bytes.Clone(s.Data), s.Number
			ready := n.waiting
			n.waiting = nil
			for _, s := range ready {
				n.post(s)
			}
			n.give(protocol.Input{Kind: protocol.Saved, Number: s.Number})
		})
	}
	n.tell(fx.Sends)
	for _, s := range fx.Sends {
		n.post(s)
	}
	n.fires++
	if at := n.m.NextFire(); at != protocol.Never {
		mine := n.fires
		w.In(time.Duration(at)-time.Duration(n.i)*1e9-w.Now, func() {
			if n.up && n.life == life && n.fires == mine {
				n.give(protocol.Input{Kind: protocol.Fire})
			}
		})
	}
}

func (n *node) post(s protocol.Send) {
	w := n.w
	if s.After > n.saved {
		n.waiting = append(n.waiting, s)
		return
	}
	w.sent[s.Message.Type]++
	to := w.nodes[indexOf(w, s.To)]
	if w.rng.Float64() < w.loss {
		return
	}
	w.In(w.delay(), func() {
		if to.up && !w.cut[[2]int{n.i, to.i}] {
			to.give(protocol.Input{Kind: protocol.Receive, From: n.cfg.Self, Message: s.Message})
		}
	})
}

func indexOf(w *world, id protocol.NodeID) int {
	for i, n := range w.nodes {
		if n.cfg.Self == id {
			return i
		}
	}
	w.t.Fatalf("there is no %s", id)
	return noMember
}

// obey checks the order: Elected and Stop alternate, tokens rise within an incarnation and equal
// the term, and no node is elected before its earlier work has returned.
func (n *node) obey(o protocol.Order) {
	w, life := n.w, n.life
	switch o.Kind {
	case protocol.Elected:
		if n.elected != 0 || n.working || o.Token != n.m.term || o.Token == 0 {
			w.t.Fatalf("at %v: %s elected with %d in term %d while %d, working %t", w.Now, n.cfg.Self, o.Token, n.m.term, n.elected, n.working)
		}
		n.elected, n.working = o.Token, true
		if w.leaders[o.Token] == nil {
			w.leaders[o.Token] = map[int]bool{}
		}
		w.leaders[o.Token][n.i] = true
		w.told("%s leads in term %d", n.cfg.Self, o.Token)
	case protocol.Stop:
		if n.elected != o.Token {
			w.t.Fatalf("at %v: %s stops %d while %d", w.Now, n.cfg.Self, o.Token, n.elected)
		}
		n.elected = 0
		w.told("%s leads no more: %s", n.cfg.Self, o.Reason)
		w.In(5*time.Millisecond, func() {
			if n.up && n.life == life {
				n.working = false
				n.do(protocol.Joined, o.Token)
			}
		})
	default:
		w.t.Fatalf("at %v: %s is ordered to %v", w.Now, n.cfg.Self, o.Kind)
	}
}

// tell logs what was sent, and changes of the followed leader.
func (n *node) tell(sends []protocol.Send) {
	w := n.w
	seen := map[protocol.MessageType]bool{}
	for _, s := range sends {
		msg := &s.Message
		if msg.Type == ElectionResponse && msg.Granted && n.m.tentative != noMember {
			key := [2]uint64{uint64(n.i), msg.Term}
			if w.votes[key] == nil {
				w.votes[key] = map[protocol.NodeID]bool{}
			}
			w.votes[key][s.To] = true
		}
		first := !seen[msg.Type]
		seen[msg.Type] = true
		switch {
		case msg.Type == ScoutingRequest && first:
			w.told("%s asks who would support it in term %d", n.cfg.Self, msg.Term)
		case msg.Type == ElectionProposal && first:
			w.told("%s proposes itself in term %d", n.cfg.Self, msg.Term)
		case msg.Type == LeadershipCession && first:
			w.told("%s tells all that it leads no more", n.cfg.Self)
		case msg.Type == ScoutingResponse && msg.Granted:
			w.told("%s would support %s", n.cfg.Self, s.To)
		case msg.Type == ScoutingResponse:
			w.told("%s would not support %s", n.cfg.Self, s.To)
		case msg.Type == ElectionResponse && msg.Granted:
			w.told("%s supports %s in term %d", n.cfg.Self, s.To, msg.Term)
		case msg.Type == ElectionResponse:
			w.told("%s does not support %s: it is in term %d", n.cfg.Self, s.To, msg.Term)
		case msg.Type == HeartbeatResponse:
			w.told("%s answers a heartbeat of %s: it is in term %d", n.cfg.Self, s.To, msg.Term)
		}
	}
	was, is := n.view, n.m.View()
	n.view = is
	switch {
	case is.Elected || was.Leader == is.Leader:
	case is.Leader.ID != "":
		w.told("%s follows %s in term %d", n.cfg.Self, is.Leader.ID, is.Term)
	case !was.Elected:
		w.told("%s sees no leader", n.cfg.Self)
	}
	if lsn := n.m.LSN(); lsn.Compare(n.lsn) < 0 {
		w.t.Fatalf("at %v: %s goes back from %v to %v", w.Now, n.cfg.Self, n.lsn, lsn)
	} else {
		n.lsn = lsn
	}
}

// leading returns the nodes that are elected now.
func (w *world) leading() (all []*node) {
	for _, n := range w.nodes {
		if n.up && n.elected != 0 {
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
		if v := n.m.View(); n.up && (v.Leader.ID != l[0].cfg.Self || v.Term != l[0].m.term) {
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
		all = append(all, string(n.cfg.Self))
	}
	return strings.Join(all, ", ")
}
