package group

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// member drives the machine of this member: one goroutine owns it. What others want of it they leave in its queue.
type member struct {
	g       *Group
	machine *machine.Member
	fx      machine.Effects
	in      machine.Input
	timer   *time.Timer

	// Owned by the loop.
	conns     map[machine.Conn]*link.Conn
	tenures   map[machine.Key]*tenure // whose work has not returned
	epoch     *epoch
	view      machine.View
	until     protocol.Instant // the last claim that has ended, by time or by a goodbye
	goodbyeOn *link.Conn       // that the last goodbye was sent on
	joined    Event            // of the coordinator that it is attached to
	watch     watches

	mu       sync.Mutex
	wake     chan struct{} // has room for one
	items    []arrival
	choices  []choice
	gone     []machine.Held
	traits   *machine.Traits
	leaving  bool
	left     chan struct{} // closed when all was given up
	owes     bool          // set before that: a coordinator keeps the session until it hears of it
	heard    chan struct{} // closed when one has
	seen     atomic.Pointer[machine.View]
	cover    atomic.Int64 // that of a coordinator of this process, a time.Duration
	active   atomic.Int64 // tenures whose work has not returned
	slots    map[machine.Key]*candidacy
	named    int     // tenures of elections whose work has not returned
	shards   *server // of Run or Serve
	closed   bool
	attached *link.Conn // to the coordinator; nil if there is none; only the loop changes it
	calls    calls
}

// choice is a key that is wanted, or not any more.
type choice struct {
	want machine.Want
	not  bool
}

func newMember(g *Group) (*member, error) {
	cfg := machine.MemberConfig{Settings: g.settings, ID: protocol.NodeID(g.id), Observer: g.cfg.Observer}
	mutateMember(&cfg)
	mc, err := machine.NewMember(cfg)
	if err != nil {
		return nil, err
	}
	m := &member{
		g: g, machine: mc, wake: make(chan struct{}, 1), left: make(chan struct{}), heard: make(chan struct{}), timer: time.NewTimer(time.Hour),
		until: protocol.Always, conns: map[machine.Conn]*link.Conn{}, tenures: map[machine.Key]*tenure{}, slots: map[machine.Key]*candidacy{},
	}
	m.watch.init(m)
	m.calls.init()
	m.in = machine.Input{Kind: machine.Start, Session: machine.Session{Member: protocol.NodeID(g.id), Process: g.process}}
	m.step()
	m.in = machine.Input{Kind: machine.Choose, Traits: new(g.traits())}
	m.step()
	m.cover.Store(int64(mc.Cover()))
	return m, nil
}

func (m *member) ring() { ring(m.wake) }

// ring wakes what waits for a channel that has room for one.
func ring(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// put leaves something for the loop. It reports false after the end.
func (m *member) put(it arrival) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	m.items = append(m.items, it)
	m.mu.Unlock()
	m.ring()
	return true
}

// choose changes what this member wants. Later choices of a key replace earlier ones.
func (m *member) choose(all ...choice) {
	m.mu.Lock()
	m.choices = append(m.choices, all...)
	m.mu.Unlock()
	m.ring()
}

// returns says that the work of a tenure has returned. stays is that its key is still wanted.
func (m *member) returns(t *tenure, stays bool) {
	m.mu.Lock() // for both, so that a choice that follows a return is not before it
	held, first := t.finish()
	if !first {
		m.mu.Unlock()
		return
	}
	m.active.Add(-1)
	if t.named {
		m.named--
	}
	m.g.witnessed.settle(t)
	if !stays && m.slots[t.key] == nil { // another elector of the same name may stand
		m.choices = append(m.choices, choice{machine.Want{Key: t.key}, true})
	}
	m.g.event(Event{Kind: EventReleased, Key: string(t.key), Token: t.fence()}) // before the key can begin again
	m.gone = append(m.gone, held)
	m.mu.Unlock()
	m.ring()
}

// run is the loop.
func (m *member) run(stop <-chan struct{}) {
	var items []arrival
	for {
		m.g.env.arm(m.timer, m.machine.NextFire())
		select {
		case <-stop:
			m.end()
			return
		case <-m.wake:
		case <-m.timer.C:
		}
		m.g.env.gate()
		items = m.turn(items)
	}
}

func (m *member) turn(items []arrival) []arrival {
	m.mu.Lock()
	items, m.items = m.items, items[:0]
	choices, gone, traits := m.choices, m.gone, m.traits
	m.choices, m.gone, m.traits = nil, nil, nil
	leaving := m.leaving
	m.mu.Unlock()
	for i := range items {
		m.handle(&items[i])
	}
	clear(items)
	if leaving {
		choices = nil // what it gives up goes with its goodbye
	}
	choices = slices.DeleteFunc(choices, func(c choice) bool { // the candidacy of another elector of the same name
		t := m.tenures[c.want.Key]
		return c.not && t != nil && t.named && !t.returned() && t.over.Load() == nil
	})
	if len(choices) > 0 || traits != nil {
		m.in = machine.Input{Kind: machine.Choose, Traits: traits}
		m.in.Wants, m.in.Unwants = latest(choices)
		m.step()
	}
	if len(gone) > 0 {
		for _, h := range gone {
			if t := m.tenures[h.Key]; t != nil && t.token == h.Token {
				delete(m.tenures, h.Key)
			}
		}
		m.fit(gone)
		m.in = machine.Input{Kind: machine.Returned, Held: gone}
		m.step()
	}
	if leaving {
		m.in = machine.Input{Kind: machine.Leave}
		m.step() // it does nothing the second time
	}
	if m.g.env.now().Boot >= m.machine.NextFire() {
		m.in = machine.Input{Kind: machine.Fire}
		m.step()
	}
	m.watch.send()
	m.g.sight.note(m.steady())
	m.covers(m.machine.Cover())
	m.g.barred.note(!m.machine.Stands())
	if leaving && len(m.tenures) == 0 {
		select {
		case <-m.left:
		default:
			m.owes = m.g.env.now().Boot < m.until
			close(m.left)
		}
	}
	return items
}

// led says who leads the coordinator's election; the zero target is nobody.
func (m *member) led(t target) {
	s := machine.Session{Member: protocol.NodeID(t.id)}
	if t.process == m.g.process.String() {
		s.Process = m.g.process
	}
	m.put(arrival{do: func() {
		m.in = machine.Input{Kind: machine.Led, Tenure: uint64(t.token), Cover: t.cover, Wait: t.wait, Session: s}
		m.step()
	}})
}

// unseen says that the coordinator's election cannot be observed now.
func (m *member) unseen() {
	m.put(arrival{do: func() {
		m.in = machine.Input{Kind: machine.Unseen}
		m.step()
	}})
}

// covers takes in how long a coordinator of this process has to cover. Its next candidacies show that.
func (m *member) covers(d time.Duration) {
	if m.cover.Swap(int64(d)) == int64(d) {
		return
	}
	if err := m.g.showAddress(); err != nil {
		m.g.log.Warn("the candidacy for coordinator does not show how long this member has to cover", "error", err)
	}
}

// refused says that a coordinator does not take this member's settings, before the machines know each other.
func (m *member) refused(t target) {
	m.put(arrival{do: func() {
		m.in = machine.Input{Kind: machine.Receive, Message: machine.Message{Type: machine.Refuse, Tenure: uint64(t.token), Misfit: true}}
		m.step()
	}})
}

// fit drops what is handed over and has no room on the connection: it must not end for that.
func (m *member) fit(gone []machine.Held) {
	m.mu.Lock()
	l := m.attached
	m.mu.Unlock()
	room, dropped := machine.MaxWaiting, 0
	if l != nil {
		room -= l.Queued()
	}
	for i := range gone {
		h := &gone[i]
		if room -= len(h.State); room < 0 && len(h.State) > 0 {
			room += len(h.State)
			h.State = nil
			dropped++
		}
	}
	if dropped > 0 {
		m.g.log.Warn("what keys leave for their next holders is dropped; want less at a time", "keys", dropped, "most", machine.MaxWaiting)
	}
}

// steady reports whether one of the last few polls was answered.
func (m *member) steady() bool {
	now, s := m.g.env.now(), &m.g.settings
	return m.view.Tenure != 0 && m.view.Proven(now) && m.view.Claim.Sub(now.Boot) >= s.Drift.Claim(s.Promise)-missed*s.Poll
}

// missed is after how many polls without an answer a coordinator is in doubt.
const missed = 3

// latest divides choices by what counts last.
func latest(all []choice) (wants []machine.Want, unwants []machine.Key) {
	if len(all) > 1 {
		last := make(map[machine.Key]int, len(all))
		for i := range all {
			last[all[i].want.Key] = i
		}
		if len(last) < len(all) {
			kept := all[:0]
			for i := range all {
				if last[all[i].want.Key] == i {
					kept = append(kept, all[i])
				}
			}
			all = kept
		}
	}
	for _, c := range all {
		if c.not {
			unwants = append(unwants, c.want.Key)
		} else {
			wants = append(wants, c.want)
		}
	}
	return wants, unwants
}

// arm sets the timer of a machine for the instant at which it wants to be called.
func (e *env) arm(timer *time.Timer, at protocol.Instant) {
	if at == protocol.Never {
		timer.Stop()
		return
	}
	timer.Reset(clock.Timer(max(at.Sub(e.now().Boot), 0)))
}

// handle handles what has arrived.
func (m *member) handle(it *arrival) {
	if it.done != nil {
		defer func() { it.done <- struct{}{} }()
	}
	if it.do != nil {
		it.do()
		return
	}
	from := it.from
	if from.backlog != nil && !it.closed {
		from.backlog.done(&it.packet)
	}
	switch {
	case it.closed:
		delete(m.conns, from.conn)
		m.in = machine.Input{Kind: machine.Closed, Conn: from.conn}
		m.step()
		m.detached(from.link)
	case it.packet.Message != nil:
		if m.conns[from.conn] == nil {
			m.conns[from.conn] = from.link
		}
		m.in = machine.Input{Kind: machine.Receive, Conn: from.conn, Message: *it.packet.Message}
		m.step()
		if it.packet.Message.Type == machine.Greet && m.view.Tenure != 0 && m.view.Tenure == it.packet.Message.Tenure {
			m.attach(from)
		}
		if it.packet.Message.Type == machine.Over && from.link == m.goodbyeOn {
			m.goodbyeOn = nil
			select {
			case <-m.heard:
			default:
				close(m.heard)
			}
		}
	case it.packet.Side != nil:
		m.mu.Lock()
		latest := m.attached == from.link
		m.mu.Unlock()
		if latest {
			m.side(from.link, it.packet.Side)
		}
	}
}

// attach begins what goes on beside the machine with a coordinator.
func (m *member) attach(from *connection) {
	if before := m.attached; before != nil { // its end is handled later
		m.detached(before)
	}
	l := from.link
	m.joined = Event{Kind: EventAttached, Token: fence.Token(m.view.Tenure), Member: from.name}
	m.g.event(m.joined)
	var all []wire.Entry
	for _, t := range m.tenures {
		if t.named {
			all = append(all, t.announcement())
		}
	}
	if len(all) > 0 {
		l.Send(wire.Packet{Side: &wire.Side{Kind: wire.Announce, Entries: all}})
	}
	m.tellPins(l.Send)
	m.mu.Lock()
	m.attached = l
	m.mu.Unlock()
	m.watch.attached(l)
	m.calls.attached(l)
}

func (m *member) detached(l *link.Conn) {
	m.mu.Lock()
	was := m.attached == l
	if was {
		m.attached = nil
	}
	m.mu.Unlock()
	if was {
		m.watch.detached()
		e := m.joined
		e.Kind, e.Err = EventDetached, cmp.Or(l.Err(), link.ErrClosed)
		m.g.event(e)
	}
	m.calls.detached(l) // those of an earlier connection, too
}

// side handles what the coordinator's runtime says.
func (m *member) side(l *link.Conn, s *wire.Side) {
	switch s.Kind {
	case wire.States:
		m.watch.states(s.Entries)
	case wire.Reply:
		if s.Call == 0 {
			m.g.refused(errorOf(s.Code, string(s.Body)))
		}
		m.calls.reply(s)
	case wire.Call: // of an operator, by the coordinator
		var q request
		if json.Unmarshal(s.Body, &q) != nil {
			return
		}
		switch s.Method {
		case "pin":
			m.pin(&q)
		case "drain":
			m.mu.Lock()
			if t := m.g.traits(); !m.leaving {
				t.Draining = q.On
				m.traits = &t
			}
			m.mu.Unlock()
			m.ring()
		}
		if s.Call != 0 {
			l.Send(wire.Packet{Side: &wire.Side{Kind: wire.Reply, Call: s.Call}})
		}
	case wire.Places:
		m.g.witnessed.knows(func(e *remains) { e.Others = spots(s, m.g.id) })
	case wire.AskRelease:
		reply := &wire.Side{Kind: wire.Reply, Call: s.Call}
		for i := range s.Entries {
			e := &s.Entries[i]
			t := m.tenures[machine.Key(e.Key)]
			if t == nil || t.token != e.Token {
				reply.Code = codeNoLeader
				continue
			}
			m.tell(t, fmt.Errorf("%w: asked to", driver.ErrResigned))
		}
		l.Send(wire.Packet{Side: reply})
	}
}

// tell ends the context of work, and has its call-back called.
func (m *member) tell(t *tenure, why error) {
	t.end(why)
	m.stop(t)
}

// stop has the call-back of work called that has to end.
func (m *member) stop(t *tenure) {
	m.mu.Lock()
	s := m.shards
	m.mu.Unlock()
	if s != nil && !t.named {
		s.stop(t)
	}
}

// step passes m.in to the machine and carries out the effects, in order.
func (m *member) step() {
	m.in.Now, m.in.Rand = m.g.env.now(), rand.Uint64()
	m.fx.Reset()
	m.machine.Step(&m.in, &m.fx)
	if r := m.g.memberRecord; r != nil {
		r.Turn(0, &m.in, &m.fx, func() []byte { return m.machine.AppendState(nil) })
	}
	for i := range m.fx.Stops {
		s := &m.fx.Stops[i]
		t := m.tenures[s.Key]
		if t == nil || t.token != s.Token {
			continue
		}
		if t.named { // a candidacy ends with its victory; that of the next Campaign comes later
			m.mu.Lock()
			if !t.returned() && m.slots[t.key] == nil {
				m.choices = append(m.choices, choice{machine.Want{Key: t.key}, true})
				m.ring()
			}
			m.mu.Unlock()
		}
		m.tell(t, plain(s.Reason))
	}
	m.publish()
	for i := range m.fx.Sends {
		s := &m.fx.Sends[i]
		if l := m.conns[s.Conn]; l != nil {
			msg := s.Message
			l.Send(wire.Packet{Message: &msg})
			if msg.Type == machine.Goodbye {
				m.goodbyeOn = l
			}
		}
	}
	for i := range m.fx.Starts {
		m.start(&m.fx.Starts[i])
	}
	for _, c := range m.fx.Closes {
		if l := m.conns[c]; l != nil {
			l.Finish()
		}
	}
}

// publish shows the view to the work. Each session has an object of its own.
func (m *member) publish() {
	v := m.machine.View()
	if m.epoch != nil && v == m.view {
		return
	}
	before := m.view
	m.view = v
	if v.Claim == protocol.Always && m.epoch != nil && before.Claim != protocol.Always {
		m.until = before.Claim
	}
	if m.epoch == nil || m.epoch.session != v.Session {
		if m.epoch != nil {
			m.lapsed()
		}
		m.epoch = &epoch{session: v.Session}
	}
	m.epoch.view.Store(&v)
	m.seen.Store(&v)
	m.g.counted.view(before, v)
}

// lapsed reports the work that goes on after its session.
func (m *member) lapsed() {
	m.g.counted.lapsed.Add(1)
	m.g.event(Event{Kind: EventExpired})
	m.g.log.Warn("the claim of this member has ended, and with it all its keys", "session", m.epoch.session)
	n, one := 0, (*tenure)(nil)
	for _, t := range m.tenures {
		if t.epoch == m.epoch && !t.returned() {
			n, one = n+1, t
			m.g.counted.overruns.Add(1)
			m.g.event(Event{Kind: EventOverrun, Key: string(t.key), Token: t.fence()})
		}
	}
	if n > 0 {
		m.g.log.Error("the claim of keys has ended and their work has not returned", "keys", n, "one", one.key, "token", one.fence())
	}
}

// start begins the work of a key: that of the candidacy, or that of Run.
func (m *member) start(h *machine.Held) {
	t := &tenure{m: m, key: h.Key, token: h.Token, epoch: m.epoch}
	if h.State != nil {
		t.rest = &extra{state: h.State}
	}
	m.tenures[h.Key] = t
	m.active.Add(1)
	m.g.counted.starts.Add(1)
	m.g.event(Event{Kind: EventBegan, Key: string(t.key), Token: t.fence()})
	m.mu.Lock()
	c, s := m.slots[h.Key], m.shards
	delete(m.slots, h.Key)
	if t.named = c != nil; t.named {
		m.named++
	}
	unwanted := c == nil && (s == nil || !m.g.isShard(h.Key))
	if unwanted { // before a Campaign that comes now
		m.choices = append(m.choices, choice{machine.Want{Key: h.Key}, true})
	}
	m.mu.Unlock()
	if c != nil || m.g.cfg.Guardian == nil {
		m.g.witnessed.bare(t)
	}
	switch {
	case c != nil:
		t.more().since, t.more().metadata = time.Now().UnixNano(), c.metadata
		m.mu.Lock()
		l := m.attached
		m.mu.Unlock()
		if l != nil {
			m.watch.announce(t.announcement())
		}
		c.result <- t
	case !unwanted:
		s.start(t)
	default: // nobody wants it any more
		t.lose(plain(protocol.Withdrawn))
		m.returns(t, true)
	}
}

// end ends what waits. Nothing is given up.
func (m *member) end() {
	m.mu.Lock()
	m.closed = true
	items := m.items
	m.items = nil
	m.mu.Unlock()
	for i := range items {
		if items[i].done != nil {
			items[i].done <- struct{}{}
		}
	}
	m.timer.Stop()
	for _, t := range m.tenures {
		m.tell(t, driver.ErrClosed)
	}
	if m.attached != nil {
		m.detached(m.attached)
	}
	m.watch.close()
	m.calls.detached(nil)
}
