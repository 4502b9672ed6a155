package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// settings are those of the tests: short, and so that each is told apart from the others.
func settings() Settings {
	return Settings{
		Promise: 3 * time.Second, Cover: 4 * time.Second, Poll: 300 * time.Millisecond, Drain: 200 * time.Millisecond,
		Drift: protocol.DefaultDrift(), Bits: 16,
	}
}

// world is one coordinator at a time and its members, with one clock and connections that deliver at once. What it
// sends can be held back.
type world struct {
	t       testing.TB
	set     Settings
	now     protocol.Instant
	c       *Coordinator
	fx      Effects
	resign  string
	members map[protocol.NodeID]*node
	order   []*node
	conns   map[Conn]*node
	next    Conn
	lose    func(from, to string, msg *Message) bool
	proven  bool
	changes []Change
	queue   []func()
	busy    bool
	sent    map[MessageType]int
}

type node struct {
	w       *world
	id      protocol.NodeID
	m       *Member
	conn    Conn
	fx      Effects
	running map[Key]Token // begun, not returned
	stopped map[Key]Stop
	hang    bool // its work does not return when it is stopped
}

func newWorld(t testing.TB, set Settings, ids ...protocol.NodeID) *world {
	w := &world{t: t, set: set, now: 1e9, members: make(map[protocol.NodeID]*node), conns: make(map[Conn]*node), proven: true, sent: make(map[MessageType]int)}
	for i, id := range ids {
		w.start(id, uint64(i+1))
	}
	return w
}

func (w *world) start(id protocol.NodeID, process uint64) *node {
	m, err := NewMember(MemberConfig{Settings: w.set, ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{w: w, id: id, m: m, running: make(map[Key]Token), stopped: make(map[Key]Stop)}
	if w.members[id] == nil {
		w.order = append(w.order, n)
	} else {
		for i, o := range w.order {
			if o.id == id {
				w.order[i] = n
			}
		}
	}
	w.members[id] = n
	n.give(Input{Kind: Start, Session: Session{Member: id, Process: protocol.Nonce{process, 7}}})
	return n
}

func (w *world) reading() protocol.Reading { return protocol.Reading{Boot: w.now, Mono: w.now} }

// begin begins a tenure, and connects all members.
func (w *world) begin(tenure uint64, connect ...protocol.NodeID) {
	c, err := NewCoordinator(CoordinatorConfig{Settings: w.set})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c, w.resign = c, ""
	clear(w.conns)
	w.coordinate(Input{Kind: Begin, Tenure: tenure})
	for _, id := range connect {
		w.connect(id)
	}
	w.run()
}

func (w *world) connect(id protocol.NodeID) Conn {
	w.next++
	conn := w.next
	w.conns[conn] = w.members[id]
	w.coordinate(Input{Kind: Opened, Conn: conn, From: id})
	w.run()
	return conn
}

func (w *world) coordinate(in Input) {
	in.Now, in.Proven = w.reading(), w.proven
	w.fx.Reset()
	w.c.Step(&in, &w.fx)
	w.changes = append(w.changes, w.fx.Changes...)
	if w.fx.Resign {
		w.resign = w.fx.Reason
	}
	c := w.c
	for _, s := range w.fx.Sends {
		w.sent[s.Message.Type]++
		n := w.conns[s.Conn]
		if n == nil || w.lose != nil && w.lose("c", string(n.id), &s.Message) {
			continue
		}
		w.queue = append(w.queue, func() {
			if w.c == c && w.conns[s.Conn] == n {
				n.conn = s.Conn
				n.give(Input{Kind: Receive, Conn: s.Conn, Message: s.Message})
			}
		})
	}
}

func (n *node) give(in Input) {
	in.Now = n.w.reading()
	n.fx.Reset()
	n.m.Step(&in, &n.fx)
	var back []Held
	for _, s := range n.fx.Stops {
		if _, ok := n.running[s.Key]; !ok {
			n.w.t.Fatalf("%s: a stop of %v, which does not run", n.id, s)
		}
		n.stopped[s.Key] = s
		if !n.hang {
			delete(n.running, s.Key)
			back = append(back, Held{Key: s.Key, Token: s.Token, State: []byte(fmt.Sprintf("by %s", n.id))})
		}
	}
	for _, s := range n.fx.Sends {
		w, id := n.w, n.id
		w.sent[s.Message.Type]++
		if w.conns[s.Conn] != n || w.lose != nil && w.lose(string(id), "c", &s.Message) {
			continue
		}
		c := w.c
		w.queue = append(w.queue, func() {
			if w.c == c {
				w.coordinate(Input{Kind: Receive, Conn: s.Conn, From: id, Message: s.Message})
			}
		})
	}
	for _, h := range n.fx.Starts {
		if _, ok := n.running[h.Key]; ok {
			n.w.t.Fatalf("%s: %v begins while it runs", n.id, h)
		}
		n.running[h.Key] = h.Token
	}
	if back != nil {
		n.w.queue = append(n.w.queue, func() { n.give(Input{Kind: Returned, Held: back}) })
	}
}

// run delivers all that is under way.
func (w *world) run() {
	if w.busy {
		return
	}
	w.busy = true
	for i := 0; len(w.queue) > 0; i++ {
		if i > 1e6 {
			w.t.Fatal("it never ends")
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		next()
	}
	w.busy = false
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) {
	end := w.now.Add(d)
	for {
		at := w.c.NextFire()
		for _, n := range w.order {
			at = min(at, n.m.NextFire())
		}
		if at > end {
			break
		}
		w.now = max(w.now, at)
		for _, n := range w.order {
			if n.m.NextFire() <= w.now {
				n.give(Input{Kind: Fire})
			}
		}
		w.run()
		if w.c.NextFire() <= w.now {
			w.coordinate(Input{Kind: Fire})
		}
		w.run()
	}
	w.now = end
}

func (w *world) want(id protocol.NodeID, keys ...Key) {
	var wants []Want
	for _, k := range keys {
		wants = append(wants, Want{Key: k})
	}
	w.members[id].give(Input{Kind: Choose, Wants: wants})
	w.run()
}

// move moves a key from whoever has it.
func (w *world) move(k Key, to protocol.NodeID) {
	mv := Move{Key: k}
	if s, ok := w.c.Key(k); ok {
		mv.From = s.Session
	}
	if to != "" {
		mv.To = w.members[to].m.View().Session
	}
	w.coordinate(Input{Kind: Moves, Moves: []Move{mv}})
	w.run()
}

func (w *world) holder(k Key) protocol.NodeID {
	s, _ := w.c.Key(k)
	return s.Session.Member
}

func TestHappy(t *testing.T) {
	w := newWorld(t, settings(), "n1", "n2", "n3")
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		w.want(id, "a", "b", "c")
	}
	w.begin(1, "n1", "n2", "n3")
	w.move("a", "n1")
	if w.holder("a") != "" {
		t.Fatal("assigned during cover")
	}
	w.sleep(4 * time.Second)
	if !w.c.Covered() {
		t.Fatal("cover does not end")
	}
	w.move("a", "n1")
	w.move("b", "n2")
	w.move("c", "n2")
	if w.members["n1"].running["a"] != (Token{1, 1}) || w.members["n2"].running["c"] != (Token{1, 1}) {
		t.Fatalf("%v %v; want work begun", w.members["n1"].running, w.members["n2"].running)
	}
	w.move("a", "n3")
	if w.members["n3"].running["a"] != (Token{1, 2}) || len(w.members["n1"].running) != 0 {
		t.Fatalf("%v; want it moved", w.members["n3"].running)
	}
	w.sleep(time.Minute)
	if len(w.members["n2"].running) != 2 || w.resign != "" {
		t.Fatalf("%v %q; want all to go on", w.members["n2"].running, w.resign)
	}
	// A new coordinator: cover ends by account, and the work goes on.
	w.begin(2, "n1", "n2", "n3")
	if !w.c.Covered() {
		t.Fatal("cover does not end by account")
	}
	if w.holder("b") != "n2" || w.members["n2"].running["b"] != (Token{1, 1}) {
		t.Fatal("the key is not adopted")
	}
	w.move("b", "n1")
	if w.members["n1"].running["b"] != (Token{2, 1}) {
		t.Fatalf("%v; want it moved", w.members["n1"].running)
	}
	// A member dies.
	w.coordinate(Input{Kind: Dead, Session: w.members["n2"].m.View().Session})
	w.run()
	if w.holder("c") != "" {
		t.Fatal("the key of a dead member is held")
	}
	w.move("c", "n3")
	if w.members["n3"].running["c"] != (Token{2, 1}) {
		t.Fatalf("%v; want the key of the dead", w.members["n3"].running)
	}
}
