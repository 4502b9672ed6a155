package raft

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// world is a small deterministic cluster: true time, a disk and work for each node, and links. It
// checks what each step must hold.
type world struct {
	classictest.Agenda
	rng   *rand.Rand
	nodes []*node

	cut   [16][16]bool // from, to
	loss  float64
	dup   float64
	delay func() time.Duration
	fsync func() time.Duration
	join  func() time.Duration

	reload bool // each step is done by a machine that was just loaded, too
	log    func(n *node, format string, args ...any)

	winner     map[uint64]protocol.NodeID
	votes      map[string]protocol.NodeID // by voter and term, what was granted
	kinds      map[protocol.MessageType]int
	violations []string
}

type node struct {
	w    *world
	i    int
	cfg  Config
	m    *Machine
	up   bool
	life int
	zero protocol.Instant // of its clock

	disk   []byte
	bad    bool          // its writes fail
	synced time.Duration // when the last save that is in flight is done
	held   []protocol.Send
	fire   time.Duration // of the event that is on its way

	paused time.Duration
	inbox  []protocol.Input

	position string // of its log; it survives
	view     protocol.View
	elected  uint64 // ordered and not stopped
	working  uint64 // not joined
	fx       protocol.Effects
}

// newWorld makes a world of n nodes that are not started. Messages take 0.5 ms, saves 2 ms, and
// work 5 ms to return.
func newWorld(seed uint64, n int, cfg Config) *world {
	fixed := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), delay: fixed(500 * time.Microsecond), fsync: fixed(2 * time.Millisecond), join: fixed(5 * time.Millisecond),
		winner: map[uint64]protocol.NodeID{}, votes: map[string]protocol.NodeID{}, kinds: map[protocol.MessageType]int{},
		log: func(*node, string, ...any) {},
	}
	cfg.Members = classictest.IDs(n)
	for i, id := range cfg.Members {
		cfg.Self = id
		w.nodes = append(w.nodes, &node{w: w, i: i, cfg: cfg, zero: protocol.Instant(i) * protocol.Instant(time.Hour)})
	}
	return w
}

// run goes on for d, or until something is violated.
func (w *world) run(d time.Duration) {
	end := w.Now + d
	for len(w.violations) == 0 && w.Next(end) {
	}
	w.Now = end
}

func (w *world) start() {
	for _, n := range w.nodes {
		n.start()
	}
}

func (w *world) violated(n *node, format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf("%v %s: %s", w.Now, n.cfg.Self, fmt.Sprintf(format, args...)))
}

// leaders returns the nodes that believe that they lead.
func (w *world) leaders() (all []*node) {
	for _, n := range w.nodes {
		if n.up && n.view.Elected {
			all = append(all, n)
		}
	}
	return all
}

func (n *node) local(t time.Duration) protocol.Instant { return n.zero + protocol.Instant(t) }

func (n *node) start() {
	if n.up {
		return
	}
	m, err := New(n.cfg)
	if err != nil {
		panic(err)
	}
	n.m, n.up, n.paused, n.inbox, n.held, n.synced, n.fire, n.elected, n.working = m, true, 0, nil, nil, 0, 0, 0, 0
	n.life++
	n.view = m.View()
	n.give(protocol.Input{Kind: protocol.Boot, Durable: bytes.Clone(n.disk)})
	if n.position != "" {
		n.do(protocol.Command{Verb: protocol.Locate, Position: n.position})
	}
	n.do(protocol.Command{Verb: protocol.Campaign})
}

// crash ends the process; saves in flight are lost.
func (n *node) crash() {
	if n.up {
		n.w.log(n, "crashes")
		n.up, n.view = false, protocol.View{}
		n.life++
	}
}

func (n *node) do(c protocol.Command) { n.give(protocol.Input{Kind: protocol.Do, Command: c}) }

func (n *node) locate(position string) {
	n.position = position
	n.do(protocol.Command{Verb: protocol.Locate, Position: position})
}

func (n *node) pause(d time.Duration) {
	n.paused = n.w.Now + d
	n.w.In(d, func() {
		inbox := n.inbox
		n.inbox = nil
		for _, in := range inbox {
			n.give(in)
		}
		n.arm()
	})
}

// later runs do later, unless the process has ended.
func (n *node) later(d time.Duration, do func()) {
	life := n.life
	n.w.In(d, func() {
		if n.up && n.life == life {
			do()
		}
	})
}

func (n *node) give(in protocol.Input) {
	switch {
	case !n.up:
		return
	case n.w.Now < n.paused:
		n.inbox = append(n.inbox, in)
		return
	}
	at := n.local(n.w.Now)
	in.Now, in.Rand = protocol.Reading{Boot: at, Mono: at}, n.w.rng.Uint64()
	n.fx.Reset()
	before := n.m.AppendState(nil)
	n.m.Step(&in, &n.fx)
	if n.w.reload {
		n.twin(before, &in)
	}
	n.judge(&in)
	n.carry()
	n.arm()
}

// twin has another machine take the step from the same state.
func (n *node) twin(before []byte, in *protocol.Input) {
	twin, err := New(n.cfg)
	if err != nil {
		panic(err)
	}
	if err := classictest.Reloaded(n.m, &n.fx, twin, before, in); err != nil {
		n.w.violated(n, "%v", err)
	}
}

// judge checks a step against the protocol's promises.
func (n *node) judge(in *protocol.Input) {
	w := n.w
	for _, o := range n.fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			if n.elected != 0 || n.working != 0 {
				w.violated(n, "elected with token %d before the work of %d has returned", o.Token, max(n.elected, n.working))
			}
			if was := w.winner[o.Token]; was != "" {
				w.violated(n, "elected with token %d, as %s was", o.Token, was)
			}
			if b, err := DecodeBallot(n.disk); err != nil || b.Term < o.Token || b.Term == o.Token && b.VotedFor != n.cfg.Self {
				w.violated(n, "elected in term %d, and its disk says %+v, %v", o.Token, b, err)
			}
			w.winner[o.Token] = n.cfg.Self
			n.elected, n.working = o.Token, o.Token
		case protocol.Stop:
			if n.elected != o.Token {
				w.violated(n, "stops %d, and was elected with %d", o.Token, n.elected)
			}
			n.elected = 0
		default:
			w.violated(n, "order %v", o.Kind)
		}
	}
	if v := n.m.View(); v.Elected != (n.elected != 0) || v.Elected && v.Token != n.elected || v.Active {
		w.violated(n, "its view is %+v, and it is elected with %d", v, n.elected)
	}
	for _, s := range n.fx.Sends {
		m := &s.Message
		if m.Type == VoteReply && m.Granted && n.cfg.Position == RequirePosition && protocol.CompareNumbers(in.Message.Position, n.m.position) < 0 {
			w.violated(n, "at %q, votes for one at %q", n.m.position, in.Message.Position)
		}
	}
}

func (n *node) carry() {
	w := n.w
	was := n.view
	n.view = n.m.View()
	if was.Role != n.view.Role {
		w.log(n, "%v → %v, term %d", was.Role, n.view.Role, n.view.Term)
	}
	for _, o := range n.fx.Orders {
		switch o.Kind {
		case protocol.Elected:
			w.log(n, "ELECTED, token %d", o.Token)
		case protocol.Stop:
			w.log(n, "STOP, token %d: %s", o.Token, o.Reason)
			n.later(w.join(), func() {
				n.working = 0
				n.do(protocol.Command{Verb: protocol.Joined, Token: o.Token})
			})
		}
	}
	for _, s := range n.fx.Saves {
		data := bytes.Clone(s.Data)
		failed := n.bad
		n.synced = max(n.synced, w.Now) + w.fsync()
		n.later(n.synced-w.Now, func() {
			if !failed {
				n.disk = data
			}
			n.flush(s.Number, failed)
			n.give(protocol.Input{Kind: protocol.Saved, Number: s.Number, Failed: failed})
		})
	}
	for _, s := range n.fx.Sends {
		if s.After > 0 {
			n.held = append(n.held, s)
		} else {
			n.send(s)
		}
	}
}

// flush sends what has waited for a save.
func (n *node) flush(number uint64, failed bool) {
	held := n.held
	n.held = nil
	for _, s := range held {
		switch {
		case s.After > number:
			n.held = append(n.held, s)
		case !failed:
			n.send(s)
		}
	}
}

func (n *node) send(s protocol.Send) {
	w := n.w
	w.kinds[s.Message.Type]++
	b, err := DecodeBallot(n.disk)
	if err != nil || b.Incarnation < s.Message.Incarnation {
		w.violated(n, "says %s in incarnation %d, and its disk says %+v, %v", s.Message.Type, s.Message.Incarnation, b, err)
	}
	if m := &s.Message; m.Type == VoteReply && m.Granted {
		if b.Term < m.Term || b.Term == m.Term && b.VotedFor != s.To {
			w.violated(n, "grants %s its vote in term %d, and its disk says %+v", s.To, m.Term, b)
		}
		key := fmt.Sprint(n.cfg.Self, m.Term)
		if was, ok := w.votes[key]; ok && was != s.To {
			w.violated(n, "votes for %s and %s in term %d", was, s.To, m.Term)
		}
		w.votes[key] = s.To
	}
	to := w.nodes[members.Place(n.cfg.Members, s.To)]
	if w.cut[n.i][to.i] || w.rng.Float64() < w.loss {
		return
	}
	times := 1
	if w.rng.Float64() < w.dup {
		times++
	}
	for range times {
		w.In(w.delay(), func() {
			if !w.cut[n.i][to.i] {
				to.give(protocol.Input{Kind: protocol.Receive, From: n.cfg.Self, Message: s.Message})
			}
		})
	}
}

// arm schedules the Fire. One that comes too early checks again.
func (n *node) arm() {
	if !n.up {
		return
	}
	next := n.m.NextFire()
	if next == protocol.Never {
		return
	}
	at := max(time.Duration(next-n.zero), n.w.Now)
	if n.fire > n.w.Now && n.fire <= at {
		return
	}
	n.fire = at
	n.later(at-n.w.Now, func() {
		if n.fire != at || n.w.Now < n.paused {
			return
		}
		n.fire = 0
		if n.m.NextFire() > n.local(n.w.Now) {
			n.arm()
			return
		}
		n.give(protocol.Input{Kind: protocol.Fire})
	})
}
