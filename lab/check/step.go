package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// input is what happens to one node.
type input uint32

// The inputs. To arrives is added the number of a message, to passes the place of
// a rate, to changes that of a membership, to moves that of the target, and to
// crashes how many of the saves in flight have become durable.
const (
	_ input = iota
	fires
	saveDone  // the first of those in flight
	allDone   // all of them
	saveFails // the first
	starts    // the process
	hinted    // its leader has closed the last connection
	returns   // the work
	resigns   // it is told to
	idles     // for so long that all that it waits for is over
	buried    // its keeper says that all its lives are over
	pauses
	resumes
	crashes     input = 32
	passes      input = 64
	moves       input = 96  // it is told to transfer; the place of the target is added
	changes     input = 128 // it is told to change the membership
	arrives     input = 1 << 23
	atOnce      input = 1 << 24 // added to any: what is saved is durable at once
	mostNumbers       = 1 << 23
)

// outcome is the result of an input in a state of a node.
type outcome struct {
	node    uint32 // what it is then
	sends   []uint32
	elected uint8 // a token that was won
	led     uint8 // a token that was led with
	cut     bool  // it goes beyond the bounds
	saves   bool  // it has begun a save
	deaf    bool  // the message that arrives can make no difference any more
	nothing bool  // nothing has changed and nothing is sent
	wrong   *Violation
	orders  []protocol.Order
}

// engine computes steps, and keeps the results.
type engine struct {
	w     *World
	steps memo // node and input to outcome

	mu       sync.Mutex // held while something new is computed
	machines []*quorum.Machine
	outcomes list[outcome]
	nodes    list[node]
	messages list[message]
	blobs    list[blob]
	ballots  map[uint32]quorum.Ballot
	numbers  map[sum]uint32
	fx       protocol.Effects
	buf      []byte
	bytes    uint64 // of what is kept, about
	rates    []int
	members  *protocol.Membership // at first
	plain    bool                 // without reductions; for tests
}

type blob struct {
	data []byte
	sum  sum
}

func newEngine(w *World) (*engine, error) {
	e := &engine{w: w, numbers: map[sum]uint32{}, ballots: map[uint32]quorum.Ballot{}, rates: w.rates(), members: w.membership()}
	if len(e.rates) > 32 {
		return nil, fmt.Errorf("%d rates; want at most 32", len(e.rates))
	}
	for i := range w.Nodes {
		c, err := w.config(i)
		if err != nil {
			return nil, err
		}
		m, err := quorum.New(c)
		if err != nil {
			return nil, err
		}
		e.machines = append(e.machines, m)
	}
	return e, nil
}

// step looks up the outcome of an input, or computes it.
func (e *engine) step(n uint32, in input) *outcome {
	key := uint64(n)<<32 | uint64(in)
	if o := e.steps.get(key); o != 0 {
		return e.outcomes.at(o)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if o := e.steps.get(key); o != 0 { // another was faster
		return e.outcomes.at(o)
	}
	o := e.outcomes.add(e.compute(n, in))
	e.steps.put(key, o)
	return e.outcomes.at(o)
}

// stepping is a step that is being computed.
type stepping struct {
	e     *engine
	place int
	node  node
	out   outcome
}

func (e *engine) compute(number uint32, in input) outcome {
	before := e.nodes.at(number)
	t := &stepping{e: e, place: before.place, node: *before}
	t.node.saves, t.node.wait = slices.Clone(before.saves), slices.Clone(before.wait)
	func() {
		defer func() {
			if r := recover(); r != nil {
				t.wrong(NoPanic, "%v", r)
				t.out.wrong = &Violation{NoPanic, id(t.place), fmt.Sprint(r)}
			}
		}()
		t.run(in &^ atOnce)
		for in&atOnce != 0 && len(t.node.saves) > 0 {
			t.run(allDone)
		}
	}()
	t.out.node = e.intern(&t.node)
	t.out.nothing = t.out.node == number && len(t.out.sends) == 0 && len(t.out.orders) == 0 && t.out.wrong == nil && !t.out.cut
	e.bytes += 120 + 4*uint64(len(t.out.sends))
	return t.out
}

func (t *stepping) run(in input) {
	n := &t.node
	do := func(c protocol.Command) { t.give(&protocol.Input{Kind: protocol.Do, Command: c}, 0) }
	switch {
	case in >= arrives:
		l := t.e.messages.at(uint32(in - arrives))
		m, before := t.load(), protocol.ConfigID{}
		if ms := t.e.durable(n.disk).Membership; ms != nil {
			before = ms.ID()
		}
		t.out.deaf = m.Deaf(id(l.from), &l.msg) && l.ms.Compare(before) <= 0
		t.feed(m, &protocol.Input{Kind: protocol.Receive, From: id(l.from), Message: l.msg}, 0)
	case in >= changes:
		do(protocol.Command{Verb: protocol.Reconfigure, Membership: t.e.w.members(t.e.w.Memberships[in-changes])})
	case in >= moves:
		do(protocol.Command{Verb: protocol.Transfer, Target: id(int(in - moves))})
	case in >= passes:
		t.elapse(time.Duration(t.e.rates[in-passes]) * tick / 100)
	case in >= crashes:
		t.crash(int(in - crashes))
	case in == fires:
		t.give(&protocol.Input{Kind: protocol.Fire}, max(n.next, 0))
	case in == saveDone || in == allDone:
		last := 0
		if in == allDone {
			last = len(n.saves) - 1
		}
		p := n.saves[last]
		n.saves = n.saves[last+1:]
		t.saved(p.data)
		rest := n.wait[:0]
		for _, w := range n.wait {
			if w.after <= p.number {
				l := t.e.messages.at(w.message)
				t.leave(l.to, &l.msg)
			} else {
				rest = append(rest, w)
			}
		}
		n.wait = rest
		t.give(&protocol.Input{Kind: protocol.Saved, Number: p.number}, 0)
	case in == saveFails:
		p := n.saves[0]
		n.saves = n.saves[1:]
		n.wait = slices.DeleteFunc(n.wait, func(w waiting) bool { return w.after <= p.number })
		t.give(&protocol.Input{Kind: protocol.Saved, Number: p.number, Failed: true}, 0)
	case in == starts:
		t.start()
	case in == hinted:
		l := n.view.Leader
		t.give(&protocol.Input{Kind: protocol.PeerClosed, From: l.ID, Incarnation: l.Incarnation}, 0)
	case in == returns:
		token := n.unjoined
		n.unjoined, n.work, n.until = 0, false, protocol.Always
		do(protocol.Command{Verb: protocol.Joined, Token: token})
	case in == resigns:
		do(protocol.Command{Verb: protocol.Resign})
	case in == pauses:
		n.paused = true
		do(protocol.Command{Verb: protocol.Pause})
	case in == resumes:
		n.paused = false
		do(protocol.Command{Verb: protocol.Resume})
	case in == idles:
		t.elapse(quorum.LongestPromise)
	case in == buried:
		b := t.e.durable(n.disk)
		for i := range t.e.w.Nodes {
			if i != t.place {
				t.leave(i, &protocol.Message{Type: quorum.WitnessRelease, Dir: voter(t.place).Dir, Echo: b.Incarnation})
			}
		}
	default:
		panic(fmt.Sprintf("input %d", in))
	}
}

// load returns the node's machine in its state.
func (t *stepping) load() *quorum.Machine {
	m := t.e.machines[t.place]
	if err := m.LoadState(t.e.blobs.at(t.node.state).data); err != nil {
		panic(err)
	}
	return m
}

// give hands an input in, at an instant of the node's clock, and carries out its effects.
func (t *stepping) give(in *protocol.Input, at protocol.Instant) {
	t.feed(t.load(), in, at)
}

func (t *stepping) feed(m *quorum.Machine, in *protocol.Input, at protocol.Instant) {
	e, n := t.e, &t.node
	in.Now = protocol.Reading{Boot: at, Mono: at}
	e.fx.Reset()
	m.Step(in, &e.fx)
	n.pass(time.Duration(at))
	t.out.orders = append(t.out.orders, e.fx.Orders...)
	for _, o := range e.fx.Orders {
		t.obey(o)
	}
	for _, s := range e.fx.Saves {
		n.saves = append(n.saves, pending{s.Number, e.blob(s.Data)})
		t.out.saves = true
	}
	for i := range e.fx.Sends {
		s := &e.fx.Sends[i]
		to := placeOf(s.To)
		switch {
		case to < 0 || to >= e.w.Nodes:
		case s.After == 0:
			t.leave(to, &s.Message)
		default:
			n.wait = append(n.wait, waiting{s.After, to, e.message(t.place, to, &s.Message)})
		}
	}
	t.keep(m, protocol.Reading{Boot: at, Mono: at})
}

// keep makes the machine normal, and its state the node's.
func (t *stepping) keep(m *quorum.Machine, at protocol.Reading) {
	n := &t.node
	base := m.Normalize(at)
	for i := range n.saves {
		n.saves[i].number -= base
	}
	for i := range n.wait {
		n.wait[i].after -= base
	}
	t.e.buf = m.AppendState(t.e.buf[:0])
	n.state = t.e.blob(t.e.buf)
	n.view, n.next = m.View(), m.NextFire()
	ms, _ := m.Membership()
	n.ms, n.membership = ms, votersOf(ms)
	t.settle()
}

// elapse lets time pass for the node: nothing happens to its machine.
func (t *stepping) elapse(d time.Duration) {
	n := &t.node
	n.pass(d)
	if n.up {
		t.keep(t.load(), protocol.Reading{Boot: protocol.Instant(d), Mono: protocol.Instant(d)})
	}
}

// pass moves the instants that the checks remember of a node's clock.
func (n *node) pass(d time.Duration) {
	for _, i := range [...]*protocol.Instant{&n.until, &n.orphan} {
		if *i = i.Add(-d); *i <= 0 {
			*i = protocol.Always
		}
	}
}

func (t *stepping) start() {
	n := &t.node
	n.up, n.saves, n.wait = true, nil, nil
	n.token, n.unjoined, n.led, n.lapsed, n.work, n.until, n.paused = 0, 0, false, false, false, protocol.Always, false
	c, err := t.e.w.config(t.place)
	if err != nil {
		panic(err)
	}
	m, err := quorum.New(c)
	if err != nil {
		panic(err)
	}
	in := protocol.Input{Kind: protocol.Boot}
	if n.disk != 0 {
		in.Durable = t.e.blobs.at(n.disk).data
	}
	t.feed(m, &in, 0)
	if t.place < t.e.w.candidates() {
		t.give(&protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}}, 0)
	}
}

// crash ends the process. Of the saves in flight, the first done are durable.
func (t *stepping) crash(done int) {
	n := &t.node
	for _, p := range n.saves[:done] {
		t.saved(p.data)
	}
	if t.e.w.Outlives {
		n.orphan = max(n.orphan, n.until)
	}
	n.up, n.state, n.saves, n.wait = false, 0, nil, nil
	n.token, n.unjoined, n.led, n.lapsed, n.work, n.until, n.paused = 0, 0, false, false, false, protocol.Always, false
	n.view, n.next = protocol.View{Role: protocol.Down}, protocol.Never
}

// intern is the number of a state of a node.
func (e *engine) intern(n *node) uint32 {
	e.buf = n.encode(append(e.buf[:0], 'n'), e)
	s := sumOf(e.buf)
	if number, ok := e.numbers[s]; ok {
		return number
	}
	n.hash = s.hash()
	n.durable = e.durable(n.disk).Membership
	if n.durable == nil {
		n.durable = e.members
	} else {
		n.held = n.durable.ID()
	}
	if !n.up {
		n.ms = n.durable
	}
	number := e.nodes.add(*n)
	if number >= 1<<32-1 {
		panic("too many states of nodes")
	}
	e.numbers[s] = number
	e.bytes += 500 + 40*uint64(len(n.saves)+len(n.wait))
	return number
}

// blob is the number of some bytes, which are copied. The empty ones have none.
func (e *engine) blob(data []byte) uint32 {
	s := sumOf(data)
	s[0] ^= 1 // apart from what else has a number
	if number, ok := e.numbers[s]; ok {
		return number
	}
	number := e.blobs.add(blob{slices.Clone(data), s})
	e.numbers[s] = number
	e.bytes += 120 + uint64(len(data))
	return number
}

func (e *engine) appendSum(dst []byte, number uint32) []byte {
	if number == 0 {
		return append(dst, 0)
	}
	return append(dst, e.blobs.at(number).sum[:]...)
}

// message is the number of a message between two nodes.
func (e *engine) message(from, to int, msg *protocol.Message) uint32 {
	data, err := json.Marshal(msg) // all fields, those that are added later too
	if err != nil {
		panic(err)
	}
	s := sumOf(append(data, byte(from), byte(to), 'l'))
	if number, ok := e.numbers[s]; ok {
		return number
	}
	l := message{from: from, to: to, msg: *msg, hash: s.hash()}
	if msg.Membership != nil {
		l.ms = msg.Membership.ID()
	}
	number := e.messages.add(l)
	if number >= mostNumbers {
		panic("too many messages")
	}
	e.numbers[s] = number
	e.bytes += 600
	return number
}

// durable is the ballot on a disk; the zero Ballot if it is empty.
func (e *engine) durable(disk uint32) quorum.Ballot {
	if disk == 0 {
		return quorum.Ballot{}
	}
	b, ok := e.ballots[disk]
	if !ok {
		var err error
		if b, err = quorum.DecodeBallot(e.blobs.at(disk).data); err != nil {
			panic(err)
		}
		e.ballots[disk] = b
	}
	return b
}

// votersOf returns the voters, by place.
func votersOf(ms *protocol.Membership) uint16 {
	var set uint16
	for _, v := range ms.Voters {
		if i := placeOf(v.ID); i >= 0 && v == voter(i) {
			set |= 1 << i
		}
	}
	return set
}

// deaf reports whether a message that is in flight cannot make a difference any
// more.
func (e *engine) deaf(n uint32, l uint32) bool {
	at := e.nodes.at(n)
	if at.up {
		return e.step(n, arrives+input(l)).deaf
	}
	m := e.messages.at(l)
	switch m.msg.Type {
	case quorum.PreVoteReply, quorum.VoteReply, quorum.HeartbeatAck: // to a life that is over
		return m.ms.Compare(at.held) <= 0 && at.disk != 0
	}
	return false
}
