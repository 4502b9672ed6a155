package group

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// called answers a request: of a member's elections, or of somebody who only asks.
func (c *coordinator) called(from *connection, s *wire.Side) {
	var q request
	if s.Method != "announce" {
		if err := json.Unmarshal(s.Body, &q); err != nil {
			c.answer(from, s.Call, fmt.Errorf("the body of %q does not parse; want a JSON object", s.Method))
			return
		}
	}
	if from.readOnly && from.control && slices.Contains([]string{"resign", "move", "unpin", "drain"}, s.Method) {
		c.answer(from, s.Call, fmt.Errorf("the certificate permits to ask, and %s is a change; want one with the role operate", s.Method))
		return
	}
	switch s.Method {
	case "status":
		if q.After >= c.version {
			if c.crowded(from, s.Call, from.calls, maxCalls) {
				return
			}
			from.calls++
			c.waiting = append(c.waiting, waiting{from, s.Call, q.After})
			return
		}
		c.reply(from, s.Call, c.status())
	case "ping":
		c.answer(from, s.Call, nil)
	case "keys":
		c.askKeys(listing{from, s.Call, &q})
	case "slack":
		c.reply(from, s.Call, c.slack())
	case "plan":
		if !c.covered {
			c.answer(from, s.Call, errCovering())
			return
		}
		if c.crowded(from, s.Call, from.lists, maxLists) {
			return
		}
		from.lists++
		c.plan.explain(func(plan *Plan, err error) {
			if err != nil {
				c.answer(from, s.Call, err)
			} else {
				c.reply(from, s.Call, plan)
			}
			c.put(arrival{do: func() { from.lists-- }})
		})
	case "lookup":
		e := c.entry(machine.Key(q.Key))
		switch {
		case e.Member != "":
			c.reply(from, s.Call, leaderOf(c.g.tokens, &e))
		case e.Since < 0:
			c.answer(from, s.Call, errUnknown(e.Since))
		default:
			c.answer(from, s.Call, driver.ErrNoLeader)
		}
	case "resign":
		c.askRelease(from, s.Call, &q)
	case "eligible":
		_, _, err := c.successor(&q)
		c.answer(from, s.Call, err)
	case "move":
		c.answer(from, s.Call, c.move(&q))
	case "unpin":
		c.unpin(from, s.Call, &q)
	case "pinned":
		for _, key := range q.Keys {
			c.pinned(from, machine.Key(key))
		} // there is no answer
	case "drain":
		c.drain(from, s.Call, &q)
	case "dead":
		c.dead(from, s.Call, q.Process)
	case "announce":
		var a announcement
		if err := json.Unmarshal(s.Body, &a); err != nil {
			c.answer(from, s.Call, err)
			return
		}
		c.answer(from, s.Call, c.announce(from, &wire.Entry{Key: a.Key, Token: machine.Token{Tenure: a.Tenure, N: a.N}, Since: a.Since, Metadata: a.Metadata}))
	default:
		c.answer(from, s.Call, fmt.Errorf("no request is called %q; want status, keys, slack, plan, lookup, resign, move, unpin or drain", s.Method))
	}
}

func (c *coordinator) answer(to *connection, call uint64, err error) {
	s := &wire.Side{Kind: wire.Reply, Call: call}
	if err != nil {
		s.Code, s.Body = codeOf(err), []byte(err.Error())
	}
	to.link.Send(wire.Packet{Side: s})
}

// maxReply is the greatest answer. With the rest of its message it fits into one.
const maxReply = wire.MaxWhole - wire.MaxHello

func (c *coordinator) reply(to *connection, call uint64, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		c.answer(to, call, err)
		return
	}
	c.replyText(to, call, b)
}

func (c *coordinator) replyText(to *connection, call uint64, b []byte) {
	if len(b) > maxReply {
		c.answer(to, call, fmt.Errorf("the answer has %d bytes; want at most %d: ask for less", len(b), maxReply))
		return
	}
	to.link.Send(wire.Packet{Side: &wire.Side{Kind: wire.Reply, Call: call, Body: b}})
}

// holder returns the state of a key that is held, under a token if one is given.
func (c *coordinator) holder(q *request) (ks machine.KeyState, err error) {
	ks, ok := c.machine.Key(machine.Key(q.Key))
	switch {
	case !c.machine.Covered() && (!ok || ks.Session == machine.Session{}):
		return ks, errCovering()
	case !ok:
		return ks, errUnknownKey(q.Key)
	case ks.Session == machine.Session{}:
		return ks, fmt.Errorf("%w: nobody holds %q", driver.ErrNoLeader, q.Key)
	case q.Token != 0 && q.Token != c.g.tokens.token(ks.Token):
		return ks, fmt.Errorf("%w: the holder of %q has token %v", driver.ErrSuperseded, q.Key, c.g.tokens.token(ks.Token))
	}
	return ks, nil
}

func errUnknownKey(key string) error {
	return fmt.Errorf("%w: the coordinator knows no key %q; want one that is held, or that a member wants", driver.ErrNoLeader, key)
}

// askRelease asks the holder of a key to give it up, and answers when it has answered.
func (c *coordinator) askRelease(from *connection, call uint64, q *request) {
	ks, err := c.holder(q)
	if err != nil {
		c.answer(from, call, err)
		return
	}
	c.ask(from, call, ks.Session, &wire.Side{Kind: wire.AskRelease, Entries: []wire.Entry{{Key: q.Key, Token: ks.Token}}}, func() {})
}

// ask asks a member, and answers when that has answered.
func (c *coordinator) ask(from *connection, call uint64, member machine.Session, s *wire.Side, done func()) {
	to := c.connectionOf(member)
	if to == nil {
		c.answer(from, call, fmt.Errorf("%w: %s is not connected", driver.ErrUnreachable, member.Member))
		return
	}
	if c.crowded(from, call, from.calls, maxCalls) {
		return
	}
	from.calls++
	c.relayed++
	s.Call = c.relayed
	c.relays[c.relayed] = relay{from, call, to, done}
	to.link.Send(wire.Packet{Side: s})
}

// connectionOf returns the connection of a session.
func (c *coordinator) connectionOf(id machine.Session) *connection {
	for _, s := range c.plan.sessions() {
		if s.Session == id {
			return c.conns[s.Conn]
		}
	}
	return nil
}

// successor returns the session that a key can be moved to, and its holder.
func (c *coordinator) successor(q *request) (ks machine.KeyState, to machine.Session, err error) {
	if ks, err = c.holder(q); err != nil {
		return ks, to, err
	}
	no := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", driver.ErrIneligible, fmt.Sprintf(format, args...))
	}
	if string(ks.Session.Member) == q.To {
		return ks, to, no("%s holds %q already", q.To, q.Key)
	}
	if !c.machine.Covered() {
		return ks, to, errCovering()
	}
	known, best, most := false, machine.Session{}, driver.NeverLead
	ready := map[machine.Session]bool{}
	for _, s := range c.plan.sessions() {
		ready[s.Session] = s.Admitted && s.Conn != 0 && !s.Traits.Draining
		known = known || string(s.Session.Member) == q.To
	}
	c.machine.Wanted(ks.Key, func(s machine.Session, priority int) bool {
		if priority == 0 {
			priority = driver.DefaultPriority
		}
		if ready[s] && s.Member != ks.Session.Member && priority > most && (q.To == "" || string(s.Member) == q.To) {
			best, most = s, priority
		}
		return true
	})
	switch {
	case best != machine.Session{}:
		return ks, best, nil
	case q.To == "":
		return ks, to, no("nobody else stands for %q", q.Key)
	case !known:
		return ks, to, no("%q is no member of the group; want one that its status lists", q.To)
	}
	return ks, to, no("%s does not stand for %q now, or is not admitted yet, or is being drained", q.To, q.Key)
}

// move moves a key, as an operator, or its holder, wants.
func (c *coordinator) move(q *request) error {
	ks, to, err := c.successor(q)
	if err != nil {
		return err
	}
	if q.To != "" {
		c.pins[ks.Key] = to.Member
	}
	c.in = machine.Input{Kind: machine.Moves, Moves: []machine.Move{{Key: ks.Key, From: ks.Session, To: to}}}
	c.step()
	c.g.counted.move(causeOperator)
	c.plan.dirty(ks.Key)
	if now, _ := c.machine.Key(ks.Key); now.Reserved != to && now.Session != to {
		delete(c.pins, ks.Key)
		return fmt.Errorf("%w: the coordinator resigns, and moves nothing any more; ask again", driver.ErrUnreachable)
	}
	return nil
}

// drain tells a member that it is to be emptied. The member reports it, so a later coordinator knows it too.
func (c *coordinator) drain(from *connection, call uint64, q *request) {
	found := false
	for _, s := range slices.Clone(c.plan.sessions()) {
		if string(s.Session.Member) == q.To && s.Conn != 0 { // of two processes the first that answers counts
			found = true
			c.ask(from, call, s.Session, &wire.Side{Kind: wire.Call, Method: "drain", Body: fmt.Appendf(nil, `{"on":%t}`, q.On)}, func() {})
		}
	}
	if !found {
		c.answer(from, call, fmt.Errorf("%q is not a connected member of the group; want one that its status lists", q.To))
	}
}

// tellStatus answers those who wait for a change.
func (c *coordinator) tellStatus() {
	if len(c.waiting) == 0 {
		return
	}
	kept := c.waiting[:0]
	var status []byte
	for _, w := range c.waiting {
		switch {
		case c.conns[w.from.conn] != w.from:
		case w.after >= c.version:
			kept = append(kept, w)
		default:
			if status == nil {
				status, _ = json.Marshal(c.status())
			}
			w.from.calls--
			c.replyText(w.from, w.call, status)
		}
	}
	clear(c.waiting[len(kept):])
	c.waiting = kept
}

func (c *coordinator) status() *Status {
	s := &Status{Group: c.g.cfg.Name, Coordinator: c.g.id, Token: c.term.Token(), Covering: !c.machine.Covered(), Version: c.version,
		Keys: c.machine.Known(), Moving: len(c.plan.inFlux), Moves: c.g.counted.total()}
	for _, m := range c.plan.sessions() {
		info := Member{
			ID: string(m.Session.Member), Attached: m.Conn != 0, Admitted: m.Admitted, Draining: m.Traits.Draining,
			Weight: m.Traits.Weight, Zone: m.Traits.Zone, Keys: m.Keys,
		}
		if from := c.conns[m.Conn]; from != nil {
			info.Address = from.addr
		}
		s.Members = append(s.Members, info)
		s.Held += m.Keys
	}
	return s
}

// listing is a request for keys.
type listing struct {
	from *connection
	call uint64
	*request
}

// page is some of the keys.
type page struct {
	Token fence.Token `json:"token"` // of the coordinator's term, in which Next is valid
	Keys  []KeyStatus `json:"keys"`
	Next  uint32      `json:"next,omitempty"` // where the rest begins; 0 is that there is none
}

// askKeys answers a request for keys. Pages are written one after the other, beside the loop.
func (c *coordinator) askKeys(l listing) {
	switch {
	case l.Key != "":
		c.reply(l.from, l.call, c.keys(l.request))
	case c.crowded(l.from, l.call, l.from.lists, maxLists):
	case len(c.listings) >= maxAllLists:
		c.answer(l.from, l.call, fmt.Errorf("%d requests for all keys wait; want fewer at a time, or elect group keys KEY", maxAllLists))
	default:
		l.from.lists++
		if c.listings = append(c.listings, l); len(c.listings) == 1 {
			c.writeKeys()
		}
	}
}

// writeKeys answers the first of the requests that wait, and then the next.
func (c *coordinator) writeKeys() {
	for len(c.listings) > 0 && c.conns[c.listings[0].from.conn] != c.listings[0].from {
		c.listings = c.listings[1:]
	}
	if len(c.listings) == 0 {
		c.listings = nil
		return
	}
	l, some := c.listings[0], c.keys(c.listings[0].request)
	c.g.own.Go(func() { // a loop that hung may begin it while the Group is closed
		c.reply(l.from, l.call, some)
		c.put(arrival{do: func() {
			l.from.lists--
			c.listings = c.listings[1:]
			c.writeKeys()
		}})
	})
}

// slack is for how long each member's keys stay its own without another renewal. Of two sessions of one member it is the
// longer one.
func (c *coordinator) slack() map[string]time.Duration {
	now := c.g.env.now().Boot
	all := map[string]time.Duration{}
	for _, s := range c.plan.sessions() {
		if id := string(s.Session.Member); s.Promise != protocol.Always {
			all[id] = max(all[id], s.Promise.Sub(now))
		}
	}
	return all
}

// keys are a page of all keys and their holders, or only one, which need not be known.
func (c *coordinator) keys(q *request) page {
	p := page{Token: c.term.Token(), Keys: []KeyStatus{}}
	add := func(ks *machine.KeyState) bool {
		k := KeyStatus{Key: string(ks.Key), Holder: string(ks.Session.Member), Overrun: ks.Overrun}
		if (ks.Session != machine.Session{}) {
			k.Token = c.g.tokens.token(ks.Token)
		}
		if (ks.Reserved != machine.Session{}) {
			k.Next = string(ks.Reserved.Member)
		}
		_, k.Pinned = c.pins[ks.Key]
		p.Keys = append(p.Keys, k)
		return len(p.Keys) < pageSize
	}
	if q.Key == "" {
		p.Next = c.machine.KeysFrom(q.From, add)
	} else if ks, ok := c.machine.Key(machine.Key(q.Key)); ok {
		add(&ks)
	}
	return p
}

// allKeys asks for all keys, page by page, or for one. A new coordinator is asked from the beginning.
func allKeys(ctx context.Context, only string, call func(ctx context.Context, method string, in, out any) error) ([]KeyStatus, error) {
	all, first := []KeyStatus{}, page{}
	for q := (request{Key: only}); ; {
		var p page
		if err := call(ctx, "keys", q, &p); err != nil {
			return nil, err
		}
		if q.From != 0 && p.Token != first.Token {
			all, q.From = all[:0], 0
			continue
		}
		all, first = append(all, p.Keys...), p
		if q.From = p.Next; p.Next == 0 {
			return all, nil
		}
	}
}
