package group

import (
	"fmt"
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
	set      Settings
	mutate   func(*MemberConfig, *CoordinatorConfig) // nil: no mutant
	before   time.Duration                           // the cover that the next coordinator's member knows
	observer bool                                    // the members that start do not stand in E
	clocked  bool                                    // its coordinators' election depends on no clock
	now      protocol.Instant
	c        *Coordinator
	fx       Effects
	resign   string
	aside    time.Duration
	members  map[protocol.NodeID]*node
	order    []*node
	conns    map[Conn]*node
	next     Conn
	lose     func(from, to string, msg *Message) bool // what is true for is lost
	proven   bool
	jump     protocol.Instant // of all Boot clocks
	changes  []Change
	queue    []func()
	busy     bool
	sent     map[MessageType]int
}

type node struct {
	w       *world
	id      protocol.NodeID
	m       *Member
	conn    Conn
	fx      Effects
	running map[Key]Token // begun, not returned
	stopped map[Key]Stop
	got     map[Key][]byte // the states that it began with
	hang    bool           // its work does not return when it is stopped
}

// wrong is what a world panics with.
type wrong string

func (w *world) fail(format string, args ...any) { panic(wrong(fmt.Sprintf(format, args...))) }

func newWorld(mutate func(*MemberConfig, *CoordinatorConfig), set Settings, ids ...protocol.NodeID) *world {
	w := &world{mutate: mutate, set: set, now: 1e9, members: make(map[protocol.NodeID]*node), conns: make(map[Conn]*node), proven: true, sent: make(map[MessageType]int)}
	for i, id := range ids {
		w.start(id, uint64(i+1))
	}
	return w
}

func (w *world) start(id protocol.NodeID, process uint64) *node {
	cfg := MemberConfig{Settings: w.set, ID: id, Observer: w.observer}
	if w.mutate != nil {
		w.mutate(&cfg, &CoordinatorConfig{})
	}
	m, err := NewMember(cfg)
	if err != nil {
		w.fail("%v", err)
	}
	n := &node{w: w, id: id, m: m, running: make(map[Key]Token), stopped: make(map[Key]Stop), got: make(map[Key][]byte)}
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

func (w *world) reading() protocol.Reading {
	return protocol.Reading{Boot: w.now + w.jump, Mono: w.now}
}

// begin begins a tenure, and connects all members.
func (w *world) begin(tenure uint64, connect ...protocol.NodeID) {
	cfg := CoordinatorConfig{Settings: w.set, Unclocked: w.clocked}
	if w.mutate != nil {
		w.mutate(&MemberConfig{}, &cfg)
	}
	c, err := NewCoordinator(cfg)
	if err != nil {
		w.fail("%v", err)
	}
	w.c, w.resign = c, ""
	clear(w.conns)
	w.coordinate(Input{Kind: Begin, Tenure: tenure, Cover: w.before})
	for _, id := range connect {
		w.connect(id)
	}
	w.run()
}

// led shows a member who leads E.
func (w *world) led(to protocol.NodeID, tenure uint64, leader protocol.NodeID, cover time.Duration) {
	in := Input{Kind: Led, Tenure: tenure, Cover: cover}
	if n := w.members[leader]; n != nil {
		in.Session = n.m.View().Session
	}
	w.members[to].give(in)
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
		w.resign, w.aside = w.fx.Reason, w.fx.Aside
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
			n.w.fail("%s: a stop of %v, which does not run", n.id, s)
		}
		n.stopped[s.Key] = s
		if !n.hang {
			delete(n.running, s.Key)
			back = append(back, Held{Key: s.Key, Token: s.Token, State: fmt.Appendf(nil, "by %s", n.id)})
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
			n.w.fail("%s: %v begins while it runs", n.id, h)
		}
		n.running[h.Key], n.got[h.Key] = h.Token, h.State
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
			w.fail("it never ends")
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
		if at == protocol.Never || at-w.jump > end {
			break
		}
		w.now = max(w.now, at-w.jump)
		for _, n := range w.order {
			if n.m.NextFire() <= w.now+w.jump {
				n.give(Input{Kind: Fire})
			}
		}
		w.run()
		if w.c.NextFire() <= w.now+w.jump {
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

// move moves a key from its holder.
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

// raw hands the coordinator a message that a member's machine did not send.
func (w *world) raw(conn Conn, from protocol.NodeID, msg Message) {
	w.coordinate(Input{Kind: Receive, Conn: conn, From: from, Message: msg})
	w.run()
}

// dies stops a member without a word.
func (w *world) dies(id protocol.NodeID) Session {
	n := w.members[id]
	for conn, o := range w.conns {
		if o == n {
			delete(w.conns, conn)
		}
	}
	for i, o := range w.order {
		if o == n {
			w.order = append(w.order[:i:i], w.order[i+1:]...)
			break
		}
	}
	delete(w.members, id)
	return n.m.View().Session
}

// ready is a world after cover whose members want the keys a to d, and hold a, b and c in turn.
func ready(mutate func(*MemberConfig, *CoordinatorConfig), set Settings, ids ...protocol.NodeID) *world {
	w := newWorld(mutate, set, ids...)
	for _, id := range ids {
		w.want(id, "a", "b", "c", "d")
	}
	w.begin(1, ids...)
	w.sleep(set.Cover + set.Poll)
	for i, k := range []Key{"a", "b", "c"} {
		w.move(k, ids[i%len(ids)])
	}
	return w
}

func (w *world) session(id protocol.NodeID) Session { return w.members[id].m.View().Session }

// standing returns what the coordinator knows of a member's session.
func (w *world) standing(s Session) (Standing, bool) {
	for _, st := range w.c.Sessions(nil) {
		if st.Session == s {
			return st, true
		}
	}
	return Standing{}, false
}
