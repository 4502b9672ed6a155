package group

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/group/internal/link"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// coordinator drives the machine of one tenure. The goroutine of run owns it.
type coordinator struct {
	g       *Group
	term    *elect.Term
	machine *machine.Coordinator
	fx      machine.Effects
	in      machine.Input
	timer   *time.Timer

	// Owned by the loop.
	conns      map[machine.Conn]*connection
	watchers   map[machine.Key][]*connection
	shown      map[machine.Key]*wire.Entry // what the leaders of named elections announce
	shownBytes map[string]int              // of metadata, by member
	sharing    map[protocol.NodeID]bool    // members that know shards
	loads      map[machine.Key]float64
	pins       map[machine.Key]protocol.NodeID // which member each pinned key is to stay with
	relays     map[uint64]relay                // requests that a member has to answer
	relayed    uint64
	due        []machine.Key // whose watchers are to be told
	covered    bool
	version    uint64 // of the status; rises with each change
	waiting    []waiting
	listings   []listing // the first of them is being written
	resigned   string
	aside      time.Duration
	plan       planning
	pulse      *pulse // of the loop
	bypassed   string // why it resigns without having been asked; "" if it does not
	places     []spot // of those that may be the next coordinator

	mu     sync.Mutex
	wake   chan struct{} // has room for one
	items  []arrival
	polls  []arrival // which overtake the others
	closed bool
	resign bool // asked to
	over   chan struct{}
}

// connection is one at the coordinator, or at a member, for which only conn, link, name and backlog are set.
type connection struct {
	conn    machine.Conn
	link    *link.Conn
	member  string // "" for one that only asks, and has proven to be none
	name    string // the id that it shows
	addr    string
	control bool
	// readOnly means that it may ask, and change nothing.
	readOnly bool
	shards   bool   // the other end knows some
	place    string // where it can be reached if it is the next coordinator; "" if it never is
	backlog  *backlog

	// Owned by the loop.
	watches map[machine.Key]bool // and whether the last it was told of that is a leader, or that there is none
	calls   int                  // that wait for a change, or for a holder
	lists   int                  // of them, that wait for keys or plans
}

// arrival is one thing for a loop: something from a connection, or a function.
type arrival struct {
	from   *connection
	packet wire.Packet
	opened bool
	closed bool
	do     func()
	done   chan<- struct{} // of a member: gets a value when it was handled
}

// relay is a request that waits for a member's answer.
type relay struct {
	from *connection
	call uint64
	to   *connection
	done func() // called before the answer if that is no error
}

// waiting is a status that is asked for when it has changed.
type waiting struct {
	from  *connection
	call  uint64
	after uint64
}

func newCoordinator(g *Group, term *elect.Term, v *vigil) (*coordinator, error) {
	if err := g.tokens.check(term.Token()); err != nil {
		return nil, err
	}
	cfg := machine.CoordinatorConfig{Settings: g.settings, Unclocked: unclocked(g.election)}
	mutateCoordinator(&cfg)
	mc, err := machine.NewCoordinator(cfg)
	if err != nil {
		return nil, err
	}
	c := &coordinator{
		g: g, term: term, machine: mc, timer: time.NewTimer(time.Hour), wake: make(chan struct{}, 1), over: make(chan struct{}),
		conns: map[machine.Conn]*connection{}, watchers: map[machine.Key][]*connection{}, shown: map[machine.Key]*wire.Entry{}, shownBytes: map[string]int{},
		sharing: map[protocol.NodeID]bool{}, loads: map[machine.Key]float64{}, pins: map[machine.Key]protocol.NodeID{}, relays: map[uint64]relay{}, version: 1, pulse: &v.loop,
	}
	if err := c.plan.init(c, &v.plan); err != nil {
		return nil, err
	}
	return c, nil
}

// unclocked reports whether an election depends on no clock.
func unclocked(e *elect.Election) bool { return e.Limits().Lease == 0 }

func (c *coordinator) ring() { ring(c.wake) }

func (c *coordinator) put(it arrival) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	if it.packet.Urgent() {
		c.polls = append(c.polls, it)
	} else {
		c.items = append(c.items, it)
	}
	c.mu.Unlock()
	c.ring()
	return true
}

// take queues what a connection brings, and waits if too much of it waits already.
func (c *coordinator) take(from *connection, p wire.Packet) {
	if from.backlog.add(&p, from.link.Done(), c.over) {
		c.put(arrival{from: from, packet: p})
	}
}

// run coordinates until the term has ended or is to be given up. It returns why, and how long not to stand again.
func (c *coordinator) run(ctx context.Context) (why string, aside time.Duration) {
	defer c.end()
	c.in = machine.Input{Kind: machine.Begin, Tenure: uint64(c.term.Token()), Cover: time.Duration(c.g.member.cover.Load())}
	c.step()
	c.g.acceptor.set(c)
	var items []arrival
	for c.resigned == "" {
		c.g.env.arm(c.timer, c.machine.NextFire())
		c.pulse.end()
		ended := false
		select {
		case <-ctx.Done():
			ended = true
		case <-c.wake:
		case <-c.timer.C:
		}
		c.g.env.gate()
		c.pulse.begin()
		if ended {
			return fmt.Sprint(context.Cause(ctx)), 0
		}
		items = c.turn(items)
	}
	if c.bypassed != "" {
		return c.bypassed, hang * c.g.settings.Promise
	}
	return c.resigned, c.aside
}

func (c *coordinator) turn(items []arrival) []arrival {
	c.mu.Lock()
	items, c.items = c.items, items[:0]
	resign := c.resign
	c.resign = false
	c.mu.Unlock()
	for i := range items {
		c.renew()
		c.handle(&items[i])
		if c.resigned != "" { // the connections among the rest are ended with all others
			c.mu.Lock()
			c.items = append(items[i+1:], c.items...)
			c.mu.Unlock()
			return nil
		}
	}
	clear(items)
	c.renew()
	if resign {
		c.in = machine.Input{Kind: machine.Resign}
		c.step()
	}
	if c.g.env.now().Boot >= c.machine.NextFire() {
		c.in = machine.Input{Kind: machine.Fire}
		c.step()
	}
	if covered := c.machine.Covered(); covered && !c.covered {
		c.covered = true
		c.version++
		for k := range c.watchers {
			c.due = append(c.due, k)
		}
	}
	c.plan.feed()
	c.renew()
	c.tellWatchers()
	c.tellStatus()
	return items
}

// renew handles the polls that have come: they wait for nothing that takes long, of no connection.
func (c *coordinator) renew() {
	c.mu.Lock()
	polls := c.polls
	c.polls = nil
	c.mu.Unlock()
	for i := range polls {
		c.handle(&polls[i])
	}
}

func (c *coordinator) handle(it *arrival) {
	switch from := it.from; {
	case it.do != nil:
		it.do()
	case it.opened:
		c.conns[from.conn] = from
		c.placed(from)
		if !from.control {
			c.sharing[protocol.NodeID(from.member)] = from.shards
			c.in = machine.Input{Kind: machine.Opened, Conn: from.conn, From: protocol.NodeID(from.member)}
			c.step()
		}
	case it.closed:
		c.disconnected(from)
	default:
		from.backlog.done(&it.packet)
		switch {
		case c.conns[from.conn] != from:
		case it.packet.Message != nil && !from.control:
			c.receive(from, it.packet.Message)
		case it.packet.Side != nil:
			c.side(from, it.packet.Side)
		}
	}
}

// disconnected handles the end of a connection.
func (c *coordinator) disconnected(from *connection) {
	if c.conns[from.conn] != from {
		return
	}
	delete(c.conns, from.conn)
	c.placed(from)
	for k := range from.watches {
		c.unwatch(from, k)
	}
	for n, r := range c.relays { // what it has asked for itself goes on: a member may have done it
		if r.to == from {
			delete(c.relays, n)
			r.from.calls--
			c.answer(r.from, r.call, fmt.Errorf("%w: the connection with %s has ended before it answered; ask again", driver.ErrUnreachable, from.member))
		}
	}
	if !from.control {
		c.in = machine.Input{Kind: machine.Closed, Conn: from.conn}
		c.step()
	}
}

// receive passes a member's message to the machine.
func (c *coordinator) receive(from *connection, m *machine.Message) {
	if m.Type == machine.Report || m.Type == machine.Wish {
		if err := c.g.admissible(m.Wants); err != nil {
			from.link.Send(wire.Packet{Message: &machine.Message{Type: machine.Refuse, Text: err.Error()}})
			from.link.Finish()
			return
		}
	}
	if m.Type == machine.Released {
		c.handedOver(from, m.Held)
	}
	c.in = machine.Input{Kind: machine.Receive, Conn: from.conn, From: protocol.NodeID(from.member), Message: *m}
	c.step()
	if m.Type == machine.Report {
		c.tellPins(from)
	}
}

// step passes c.in to the machine and carries out the effects, in order. The clock is read, and then leadership proven,
// after what arrived was taken.
func (c *coordinator) step() {
	c.pulse.next()
	c.in.Now = c.g.env.now()
	c.in.Proven = c.term.Check() == nil
	c.in.Rand = rand.Uint64()
	c.fx.Reset()
	c.machine.Step(&c.in, &c.fx)
	if r := c.g.coordinatorRecord; r != nil {
		r.Turn(uint64(c.term.Token()), &c.in, &c.fx, func() []byte { return c.machine.AppendState(nil) })
	}
	for i := range c.fx.Sends {
		s := &c.fx.Sends[i]
		if from := c.conns[s.Conn]; from != nil {
			m := s.Message
			from.link.Send(wire.Packet{Message: &m})
		}
	}
	for _, n := range c.fx.Closes {
		if from := c.conns[n]; from != nil {
			if m := &c.in.Message; c.in.Kind == machine.Receive && m.Type == machine.Goodbye { // who leaves waits for that
				from.link.Send(wire.Packet{Message: &machine.Message{Type: machine.Over, Tenure: m.Tenure, Number: m.Number, Session: m.Session}})
			}
			from.link.Finish()
		}
	}
	if c.fx.Members {
		c.plan.members = true
		c.version++
	}
	for _, k := range c.fx.Wanted {
		c.plan.dirty(k)
	}
	if len(c.fx.Changes) > 0 {
		c.version++
		c.g.counted.changes.Add(uint64(len(c.fx.Changes)))
		for i := range c.fx.Changes {
			ch := &c.fx.Changes[i]
			if e := c.shown[ch.Key]; e != nil && e.Token != ch.Token {
				c.unshow(ch.Key)
			}
			if c.watchers[ch.Key] != nil {
				c.due = append(c.due, ch.Key)
			}
			c.keepPin(ch.Key)
			c.plan.dirty(ch.Key)
		}
	}
	if c.fx.Resign {
		c.resigned, c.aside = c.fx.Reason, c.fx.Aside
	}
}

// end closes all connections, and what waits.
func (c *coordinator) end() {
	c.g.acceptor.close(c)
	c.shut()
	for _, from := range c.conns {
		from.link.Finish() // what was sent before, a last release, may still leave
	}
	c.timer.Stop()
	c.plan.stop()
}

// shut takes nothing any more, and closes the connections that were to be taken.
func (c *coordinator) shut() {
	c.mu.Lock()
	items := c.items
	c.items = nil
	if !c.closed {
		c.closed = true
		close(c.over)
	}
	c.mu.Unlock()
	for i := range items {
		if items[i].opened {
			items[i].from.link.Finish()
		}
	}
}

// side handles what a member's runtime says.
func (c *coordinator) side(from *connection, s *wire.Side) {
	switch s.Kind {
	case wire.WatchKeys:
		for i := range s.Entries {
			k := machine.Key(s.Entries[i].Key)
			if !c.watch(from, k) {
				c.deny(from, "%d keys are watched; want at most %d", len(from.watches)+len(s.Entries)-i, from.mostWatches())
				s.Entries = s.Entries[:i]
				break
			}
			s.Entries[i] = c.tells(from, k)
		}
		from.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.States, Entries: s.Entries}})
	case wire.Unwatch:
		for i := range s.Entries {
			c.unwatch(from, machine.Key(s.Entries[i].Key))
		}
	case wire.Announce:
		for i := range s.Entries {
			if err := c.announce(from, &s.Entries[i]); err != nil && !errors.Is(err, driver.ErrUnknownOutcome) {
				c.deny(from, "%w", err)
			}
		}
	case wire.Loads:
		for i := range s.Entries {
			k := machine.Key(s.Entries[i].Key)
			known := s.Entries[i].Load >= 0 && s.Entries[i].Load <= placement.MaxLoad // and is no NaN
			if ks, ok := c.machine.Key(k); known && ok && string(ks.Session.Member) == from.member {
				c.loads[k] = s.Entries[i].Load
				c.plan.dirty(k)
			}
		}
	case wire.Reply:
		if r, ok := c.relays[s.Call]; ok && r.to == from {
			delete(c.relays, s.Call)
			r.from.calls--
			if s.Code == "" {
				r.done()
			}
			c.answer(r.from, r.call, codeError(s.Code))
		}
	case wire.Call:
		c.called(from, s)
	}
}

func codeError(code string) error {
	if code == "" {
		return nil
	}
	return errorOf(code, "")
}

func (c *coordinator) unwatch(from *connection, k machine.Key) {
	delete(from.watches, k)
	all := c.watchers[k]
	for i, w := range all {
		if w == from {
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			break
		}
	}
	if len(all) == 0 {
		delete(c.watchers, k)
	} else {
		c.watchers[k] = all
	}
}

// announce notes what a holder shows beside itself. If that is not the holder the error is of an unknown outcome.
func (c *coordinator) announce(from *connection, e *wire.Entry) error {
	k := machine.Key(e.Key)
	ks, ok := c.machine.Key(k)
	if !ok || ks.Token != e.Token || string(ks.Session.Member) != from.member {
		return fmt.Errorf("%w: the coordinator does not know %s as the leader of %q under that token, and shows nothing of it", driver.ErrUnknownOutcome, from.member, e.Key)
	}
	err := c.show(&wire.Entry{Key: e.Key, Member: from.member, Token: e.Token, Since: e.Since, Metadata: e.Metadata})
	c.version++
	if c.watchers[k] != nil {
		c.due = append(c.due, k)
	}
	return err
}

// entry is what is known of a key.
func (c *coordinator) entry(k machine.Key) wire.Entry {
	e := wire.Entry{Key: string(k)}
	ks, ok := c.machine.Key(k)
	held := ok && ks.Session != machine.Session{}
	switch shown := c.shown[k]; {
	case held && shown != nil && shown.Token == ks.Token:
		e = *shown
	case held && (c.g.isShard(k) || len(c.g.shards) == 0 && c.sharing[ks.Session.Member]): // no Keys: it may be one
		e.Member, e.Token = string(ks.Session.Member), ks.Token
	case held:
		e.Since = unannounced
	case !c.machine.Covered():
		e.Since = covering
	}
	return e
}

// tells returns what an observer is told of a key. While a holder has not announced itself, those who know of an earlier
// one are told that this one leads no more; the others could take that for something newer than the holder's victory.
func (c *coordinator) tells(to *connection, k machine.Key) wire.Entry {
	e := c.entry(k)
	if e.Since == unannounced && to.watches[k] && !to.control {
		e.Since = 0
	}
	to.watches[k] = e.Since >= 0
	return e
}

// tellWatchers tells observers what has changed in a turn.
func (c *coordinator) tellWatchers() {
	if len(c.due) == 0 {
		return
	}
	told := make(map[machine.Key]bool, len(c.due))
	to := map[*connection][]wire.Entry{}
	for _, k := range c.due {
		if told[k] {
			continue
		}
		told[k] = true
		for _, w := range c.watchers[k] {
			to[w] = append(to[w], c.tells(w, k))
		}
	}
	c.due = c.due[:0]
	for w, all := range to {
		w.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.States, Entries: all}})
	}
}
