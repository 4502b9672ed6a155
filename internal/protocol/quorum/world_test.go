package quorum

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/electd/elect/internal/classictest"
	"github.com/electd/elect/internal/protocol"
)

// world is a small deterministic cluster: true time, links, and for each node a clock, a disk and a
// work. It checks the invariants after every event.
type world struct {
	classictest.Agenda // of true time
	rng                *rand.Rand
	nodes              []*node

	cut   [16][16]bool      // from, to
	slow  [16]time.Duration // how much longer messages from and to a node take
	loss  float64
	dup   float64
	delay func() time.Duration // of a message
	late  func() time.Duration // of a duplicate
	fsync func() time.Duration
	join  func() time.Duration // from Stop to the return of the work
	close time.Duration        // until the others see a dead node's connections close; negative: never

	// The time from a CatchUp until the position is reached; nil: it never is.
	catchUp func() time.Duration

	jumps  bool     // clocks may jump
	beyond bool     // clocks run apart: what that breaks is no violation
	ranked bool     // priorities differ
	keep   int      // the number of messages kept for a replay
	kept   []packet // in a ring

	log   func(n *node, format string, args ...any)
	after func(n *node, in *protocol.Input, fx *protocol.Effects)

	wins, leads int
	winner      map[uint64]string // by term
	tokens      map[uint64]bool   // that were ordered Elected
	vote        map[string]string // by the voter's directory and the term
	lastLead    uint64            // token of the latest tenure
	orphans     []orphan          // works that outlive their process
	violations  []string
	tenure      map[led]int // 1: proven, 2: has been proven
	made        map[protocol.ConfigID]*made
	changes     int  // memberships made after the first one
	stale       bool // memberships have changed since they were judged
}

type led struct {
	of    *node
	life  int
	token uint64
}

type packet struct {
	from, to int
	msg      protocol.Message
}

type orphan struct {
	of   string
	node int
	end  time.Duration
}

type node struct {
	w    *world
	i    int
	cfg  Config
	m    *Machine
	up   bool
	life int // counts starts

	rate    int64 // of the clock, parts per million beside 1
	zero    time.Duration
	asleep  time.Duration // how long Mono stood still
	fireGen uint64

	disk    []byte // durable
	ballot  Ballot // on it
	pending []pendingSave
	waiting []protocol.Send
	badDisk bool
	fsync   time.Duration // the least time of a save

	paused time.Duration
	inbox  []protocol.Input

	campaign bool
	idle     bool   // by the operator's word; it survives the process
	position string // of its work's log; it survives the process
	told     orders
	ms       *protocol.Membership // of the latest step
	view     protocol.View
	work     bool // of token
	elected  uint64
	led      bool
	until    protocol.Instant // when the driver kills the work
	read     protocol.Reading
	fx       protocol.Effects
}

// orders is what the owner told this incarnation of a machine.
type orders struct {
	candidate, sick, paused bool
	position                string
	priority                int
}

type pendingSave struct {
	number uint64
	data   []byte
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	fixed := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	return &world{
		rng: rng, delay: fixed(time.Millisecond), late: fixed(10 * time.Millisecond), fsync: fixed(2 * time.Millisecond),
		join: fixed(5 * time.Millisecond), close: time.Millisecond,
		winner: map[uint64]string{}, tokens: map[uint64]bool{}, vote: map[string]string{}, tenure: map[led]int{},
		made: map[protocol.ConfigID]*made{},
		log:  func(*node, string, ...any) {},
	}
}

func voter(i int) protocol.Voter {
	v := protocol.Voter{ID: protocol.NodeID(fmt.Sprintf("n%d", i+1))}
	for j := range v.Dir {
		v.Dir[j] = byte(i + 1)
	}
	return v
}

func members(n int) *protocol.Membership {
	ms := &protocol.Membership{Version: 1}
	for i := range n {
		ms.Voters = append(ms.Voters, voter(i))
	}
	return ms
}

// add adds a node that is not started yet.
func (w *world) add(cfg Config) *node {
	n := &node{w: w, i: len(w.nodes), cfg: cfg, campaign: true}
	w.nodes = append(w.nodes, n)
	w.register(n, cfg.Membership, nil)
	w.made[cfg.Membership.ID()].durable = true // it needs no save: all nodes were given it
	return n
}

func (w *world) at(at time.Duration, do func()) { w.In(at-w.Now, do) }

// run runs the world until a time.
func (w *world) run(until time.Duration) {
	for len(w.violations) == 0 && w.Next(until) {
	}
	w.Now = until
}

func (w *world) violated(n *node, format string, args ...any) {
	if w.beyond {
		return
	}
	text := fmt.Sprintf(format, args...)
	w.violations = append(w.violations, fmt.Sprintf("%v %s: %s", w.Now, n.cfg.Self.ID, text))
	w.log(n, "VIOLATION: %s", text)
}

func (n *node) local(t time.Duration) protocol.Instant {
	return protocol.Instant(n.zero + t + t/1_000_000*time.Duration(n.rate) + t%1_000_000*time.Duration(n.rate)/1_000_000)
}

// when is the first true time at which the clock shows an instant.
func (n *node) when(at protocol.Instant) time.Duration {
	t := time.Duration(float64(time.Duration(at)-n.zero) / (1 + float64(n.rate)/1e6))
	for n.local(t) >= at {
		t -= 500
	}
	for n.local(t) < at {
		t += 100
	}
	return t
}

func (n *node) reading() protocol.Reading {
	at := n.local(n.w.Now)
	return protocol.Reading{Boot: at, Mono: at - protocol.Instant(n.asleep)}
}

func (n *node) name() string {
	return fmt.Sprintf("%s#%d", n.cfg.Self.ID, n.life)
}

func (n *node) start() {
	if n.up {
		return
	}
	m, err := New(n.cfg)
	if err != nil {
		panic(err)
	}
	n.m, n.up, n.life, n.paused, n.inbox = m, true, n.life+1, 0, nil
	n.pending, n.waiting, n.view, n.work, n.elected, n.led = nil, nil, protocol.View{}, false, 0, false
	n.ms, n.told = nil, orders{priority: n.m.cfg.Priority}
	n.give(protocol.Input{Kind: protocol.Boot, Durable: n.disk})
	if n.idle {
		n.do(protocol.Command{Verb: protocol.Pause})
	}
	if n.position != "" {
		n.do(protocol.Command{Verb: protocol.Locate, Position: n.position})
	}
	if n.campaign {
		n.do(protocol.Command{Verb: protocol.Campaign})
	}
}

// crash ends the process. Saves in flight may or may not have become durable; the work may go on
// until the end of its lease.
func (n *node) crash(workToo bool) {
	if !n.up {
		return
	}
	w := n.w
	n.log("crashes")
	if w.rng.IntN(2) == 0 {
		for _, p := range n.pending[:w.rng.IntN(len(n.pending)+1)] {
			n.write(p.data)
		}
	}
	if n.running() && !workToo {
		end := n.when(n.until)
		end = w.Now + time.Duration(w.rng.Int64N(int64(max(end-w.Now, 1))+1))
		w.orphans = append(w.orphans, orphan{n.name(), n.i, end})
	}
	inc := uint64(0)
	if n.m != nil {
		inc = n.m.ballot.Incarnation
	}
	n.up, n.view, n.work, n.ms, n.told = false, protocol.View{}, false, nil, orders{}
	n.fireGen++
	w.stale = true
	if w.close >= 0 {
		for _, o := range w.nodes {
			if o != n && !w.cut[n.i][o.i] {
				w.In(w.close, func() {
					o.give(protocol.Input{Kind: protocol.PeerClosed, From: n.cfg.Self.ID, Incarnation: inc})
				})
			}
		}
	}
}

// witness tells all nodes that the latest incarnation of a dead node, and those before it, are
// over, as soon as all their works are.
func (n *node) witness() {
	if n.up || n.m == nil {
		return
	}
	if n.ballot.Incarnation < n.m.ballot.Incarnation {
		return // it never sent anything
	}
	end := n.w.Now
	for _, o := range n.w.orphans {
		if o.node == n.i {
			end = max(end, o.end)
		}
	}
	msg := protocol.Message{Type: WitnessRelease, Dir: n.cfg.Self.Dir, Echo: n.m.ballot.Incarnation}
	n.w.at(end, func() {
		for _, o := range n.w.nodes {
			if o != n {
				n.w.carry(n.i, o.i, msg)
			}
		}
	})
}

// running reports whether the work may act: until it has returned, or is killed at the end of the
// lease, or its own check fails.
func (n *node) running() bool {
	return n.work && n.local(n.w.Now) < n.until && !n.reading().Jumped(n.read)
}

func (n *node) log(format string, args ...any) { n.w.log(n, format, args...) }

func (n *node) do(c protocol.Command) { n.give(protocol.Input{Kind: protocol.Do, Command: c}) }

// locate moves the node's position.
func (n *node) locate(position string) {
	n.position = position
	n.do(protocol.Command{Verb: protocol.Locate, Position: position})
}

// give hands an input in, at once or when a paused process resumes.
func (n *node) give(in protocol.Input) {
	if !n.up {
		return
	}
	if n.w.Now < n.paused {
		n.inbox = append(n.inbox, in)
		return
	}
	n.step(in)
}

func (n *node) pause(d time.Duration, asleep bool) {
	if !n.up || n.w.Now < n.paused {
		return
	}
	n.log("pauses for %v", d)
	n.paused = n.w.Now + d
	if asleep {
		n.asleep += d
	}
	life := n.life
	n.w.at(n.paused, func() {
		if !n.up || n.life != life {
			return
		}
		n.log("goes on")
		inbox := n.inbox
		n.inbox = nil
		for _, in := range inbox {
			if n.up {
				n.step(in)
			}
		}
		n.arm()
	})
}

func (n *node) step(in protocol.Input) {
	w := n.w
	in.Now, in.Rand = n.reading(), w.rng.Uint64()
	fx := &n.fx
	fx.Reset()
	n.note(&in)
	n.m.Step(&in, fx)
	before := n.view
	n.view = n.m.View()
	n.watch()
	if w.after != nil {
		w.after(n, &in, fx)
	}
	if n.view.Role == protocol.Leader || n.view.Role == protocol.Fencing && n.view.LeaseEnd != 0 {
		n.until, n.read = n.view.LeaseEnd, n.view.Read
	}
	for _, s := range fx.Sends {
		if leads := n.view.Role == protocol.Leader; leads && (s.Message.Type == PreVote || s.Message.Type == Vote) {
			n.log("sends a %s for term %d, and goes on leading%s", s.Message.Type, s.Message.Term, why(&in))
			break
		}
	}
	if n.view.Elected && before.Elected && n.view.Leader.Term != before.Leader.Term {
		n.log("leads in term %d now, still with token %d", n.view.Leader.Term, n.view.Token)
	}
	if before.Role == 0 {
		n.log("starts as %v, term %d", n.view.Role, n.view.Term)
	} else if before.Role != n.view.Role {
		n.log("%v → %v, term %d%s", before.Role, n.view.Role, n.view.Term, why(&in))
	}
	for _, o := range fx.Orders {
		n.obey(o)
	}
	n.willing(&in, fx)
	for _, s := range fx.Saves {
		n.save(s)
	}
	for _, s := range fx.Sends {
		if s.After == 0 {
			n.leave(s)
		} else {
			n.waiting = append(n.waiting, s)
		}
	}
	w.judge()
	n.arm()
}

// arm sets the timer.
func (n *node) arm() {
	n.fireGen++
	at := n.m.NextFire()
	if at == protocol.Never || n.w.Now < n.paused {
		return
	}
	gen := n.fireGen
	n.w.at(max(n.when(at), n.w.Now), func() {
		if n.fireGen == gen && n.up {
			n.give(protocol.Input{Kind: protocol.Fire})
		}
	})
}

func (n *node) obey(o protocol.Order) {
	w := n.w
	switch o.Kind {
	case protocol.Elected:
		w.wins++
		n.log("ELECTED, token %d", o.Token)
		if n.elected != 0 {
			w.violated(n, "elected with %d before %d was stopped", o.Token, n.elected)
		}
		if who, ok := w.winner[o.Token]; ok && (who != n.name() || w.tokens[o.Token]) {
			w.violated(n, "term %d was won twice: by %s and by %s", o.Token, who, n.name())
		}
		w.winner[o.Token], w.tokens[o.Token] = n.name(), true
		if b := &n.ballot; b.Term < o.Token || b.Term == o.Token && b.VotedFor != n.cfg.Self {
			w.violated(n, "won term %d with its own vote not saved", o.Token)
		}
		if t := &n.told; t.paused || t.sick || !t.candidate || t.priority == protocol.NeverLead {
			w.violated(n, "elected though it was told: %+v", *t)
		}
		n.elected, n.led = o.Token, false
	case protocol.CatchUp:
		n.log("is to catch up from %s, which is at %s", o.From, o.Position)
		if w.catchUp == nil {
			return
		}
		w.In(w.catchUp(), func() {
			if protocol.CompareNumbers(n.position, o.Position) < 0 {
				n.locate(o.Position)
			}
		})
	case protocol.Lead:
		w.leads++
		n.log("LEADS, token %d", o.Token)
		if n.elected != o.Token || n.led {
			w.violated(n, "ordered to lead with %d; elected with %d, led %v", o.Token, n.elected, n.led)
		}
		if o.Token <= w.lastLead {
			w.violated(n, "token %d after %d", o.Token, w.lastLead)
		}
		w.lastLead = o.Token
		for _, other := range w.nodes {
			if other != n && other.running() {
				w.violated(n, "leads while the work of %s may run", other.name())
			}
		}
		w.orphans = slices.DeleteFunc(w.orphans, func(o orphan) bool { return o.end <= w.Now })
		for _, o := range w.orphans {
			w.violated(n, "leads while the orphan of %s runs", o.of)
		}
		n.work, n.led = true, true
	case protocol.Stop:
		n.log("STOP, token %d: %s", o.Token, o.Reason)
		if n.elected != o.Token {
			w.violated(n, "stopped %d; elected with %d", o.Token, n.elected)
		}
		n.elected = 0
		d := time.Duration(0)
		if n.work {
			d = w.join()
		}
		life := n.life
		w.In(d, func() {
			if n.life == life && n.up {
				n.work = false
				n.do(protocol.Command{Verb: protocol.Joined, Token: o.Token})
			}
		})
	}
}

func (n *node) save(s protocol.Save) {
	n.pending = append(n.pending, pendingSave{s.Number, slices.Clone(s.Data)})
	life, failed := n.life, n.badDisk
	n.w.In(max(n.w.fsync(), n.fsync), func() {
		if n.life != life || !n.up {
			return
		}
		i := slices.IndexFunc(n.pending, func(p pendingSave) bool { return p.number == s.Number })
		if i < 0 {
			return // replaced by a later one
		}
		if failed {
			n.pending = slices.Delete(n.pending, i, i+1)
			n.waiting = slices.DeleteFunc(n.waiting, func(p protocol.Send) bool { return p.After == s.Number })
		} else {
			n.write(n.pending[i].data)
			n.pending = n.pending[i+1:]
		}
		n.give(protocol.Input{Kind: protocol.Saved, Number: s.Number, Failed: failed})
		if failed {
			return
		}
		ready := n.waiting
		n.waiting = nil
		for _, p := range ready {
			if p.After <= s.Number {
				n.leave(p)
			} else {
				n.waiting = append(n.waiting, p)
			}
		}
	})
}

// leave puts a message on its link and checks what it promises.
func (n *node) leave(s protocol.Send) {
	w := n.w
	msg := &s.Message
	if msg.Type == VoteReply && msg.Granted {
		key := fmt.Sprintf("%v/%d", n.cfg.Self, msg.Term)
		if was, ok := w.vote[key]; ok && was != string(s.To) {
			w.violated(n, "voted for %s and for %s in term %d", was, s.To, msg.Term)
		}
		w.vote[key] = string(s.To)
		if b := &n.ballot; b.Term < msg.Term || b.Term == msg.Term && b.VotedFor.ID != s.To {
			w.violated(n, "its vote in term %d left before it was saved", msg.Term)
		}
	}
	if n.ballot.Incarnation < msg.Incarnation {
		w.violated(n, "a %s left before the incarnation was saved", msg.Type)
	}
	n.sends(msg)
	if to := slices.IndexFunc(w.nodes, func(o *node) bool { return o.cfg.Self.ID == s.To }); to >= 0 {
		w.carry(n.i, to, s.Message)
	}
}

func (w *world) carry(from, to int, msg protocol.Message) {
	if len(w.kept) < w.keep {
		w.kept = append(w.kept, packet{from, to, msg})
	} else if w.keep > 0 {
		w.kept[w.rng.IntN(w.keep)] = packet{from, to, msg}
	}
	if w.cut[from][to] {
		return
	}
	deliver := func() {
		if w.cut[from][to] {
			return
		}
		w.nodes[to].give(protocol.Input{Kind: protocol.Receive, From: w.nodes[from].cfg.Self.ID, Message: msg})
	}
	if w.rng.Float64() >= w.loss {
		w.In(w.delay()+w.slow[from]+w.slow[to], deliver)
	}
	if w.rng.Float64() < w.dup {
		w.In(w.late(), deliver)
	}
}

func why(in *protocol.Input) string {
	switch in.Kind {
	case protocol.Receive:
		s := fmt.Sprintf(" (%s from %s", in.Message.Type, in.From)
		if in.Message.Reason != "" {
			s += ": " + string(in.Message.Reason)
		}
		return s + ")"
	case protocol.Saved:
		if in.Failed {
			return " (a save failed)"
		}
	case protocol.Do:
		return fmt.Sprintf(" (%v)", in.Command.Verb)
	case protocol.PeerClosed:
		return fmt.Sprintf(" (%s closed its connections)", in.From)
	}
	return fmt.Sprintf(" (%v)", in.Kind)
}
