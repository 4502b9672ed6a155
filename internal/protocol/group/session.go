package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// session is what a coordinator knows of one that is not over.
type session struct {
	id      Session
	slot    uint32
	conn    Conn   // 0 if it is closed
	number  uint64 // of its latest report
	promise protocol.Instant
	longest time.Duration // its D_V,
	cover   time.Duration // and its W; 0: it never coordinates
	traits  Traits
	peer    *peer

	admitted bool
	shown    bool // a poll or the report shows that it knows
	voucher  bool
	since    uint64           // the first version of the registry that contains it; 0: none yet
	acked    uint64           // the version that it keeps
	toldAt   protocol.Instant // when it was last told a version
	arrival  *Registry        // of the mutant registry-of-arrival

	wants    int // how many keys it wants,
	keys     int // and how many it holds
	overruns map[overrun]struct{}

	assigns, revokes []Held // to be sent at the end of the step
}

// overrun is work of an older session of the same process, on the key with that place.
type overrun struct {
	key   uint32
	token Token
}

// refuse takes no connection.
func (c *Coordinator) refuse(conn Conn, fx *Effects, format string, args ...any) {
	fx.Sends = append(fx.Sends, Send{conn, Message{Type: Refuse, Tenure: c.tenure, Text: fmt.Sprintf(format, args...)}})
	fx.Closes = append(fx.Closes, conn)
	if l := c.links[conn]; l != nil {
		if s := c.attached(l, conn); s != nil {
			s.conn = 0
			fx.Members = true
		}
	}
	delete(c.links, conn)
}

// refuseUnfit takes no connection because the member's settings do not fit (G14).
func (c *Coordinator) refuseUnfit(conn Conn, fx *Effects, why string) {
	c.refuse(conn, fx, "%s", why)
	fx.Sends[len(fx.Sends)-1].Message.Misfit = true
}

// unfit says why a member's settings do not fit a promise and a cover that are in use (G14); "" if they do.
func (c *Coordinator) unfit(promise, cover, longest, shortest time.Duration) string {
	switch {
	case promise > shortest && !c.cfg.Mutant.Has("longer-promise-admitted"):
		return fmt.Sprintf("the member's promise is %v, and a cover of this group %v; want a cover of at least the promise: raise group.Config.Cover at all members first", promise, shortest)
	case cover != 0 && cover < longest && !c.cfg.Mutant.Has("shorter-cover-admitted"):
		return fmt.Sprintf("the member's cover is %v, and a promise of this group %v; want a cover of at least the promise: the same group.Config.Promise and Cover at all members", cover, longest)
	}
	return ""
}

// inUse returns the longest promise and the shortest cover of this coordinator and the sessions that are admitted.
func (c *Coordinator) inUse() (promise, cover time.Duration) {
	promise, cover = c.cfg.Promise, c.cfg.Cover
	for _, s := range c.sessions {
		if s.admitted {
			promise, cover = s.uses(promise, cover)
		}
	}
	return promise, cover
}

// uses adds the settings of a session to those in use.
func (s *session) uses(promise, cover time.Duration) (longest, shortest time.Duration) {
	if s.cover != 0 {
		cover = min(cover, s.cover)
	}
	return max(promise, s.longest), cover
}

// life is a process of a member. What one member says of a nonce is about no process of another.
type life struct {
	member  protocol.NodeID
	process protocol.Nonce
}

func lifeOf(s Session) life { return life{s.Member, s.Process} }

// process returns what is known of the process of a session, and makes it known.
func (c *Coordinator) process(s Session) *process {
	l := lifeOf(s)
	p := c.processes[l]
	if p == nil {
		p = &process{}
		c.processes[l] = p
		c.lives[s.Member]++
	}
	return p
}

// report is G2: it makes the latest attachment of its session.
func (c *Coordinator) report(l *link, conn Conn, msg *Message, now protocol.Instant, fx *Effects) {
	id := msg.Session
	switch {
	case msg.Tenure != c.tenure:
		return
	case id.Member != l.from || id.Member == "" || id.Process == (protocol.Nonce{}) || id.Epoch == 0:
		c.refuse(conn, fx, "a report of the session %v; want one of %q, from epoch 1", id, l.from)
		return
	}
	why := c.unfit(msg.Promise, msg.Cover, c.cfg.Promise, c.cfg.Cover)
	if why != "" && msg.Admitted && !c.covered && !c.cfg.Mutant.Has("misfit-goes-on") {
		c.end(fx, Misfit, c.GivesWay())
		return
	}
	if why == "" {
		promise, cover := c.inUse()
		why = c.unfit(msg.Promise, msg.Cover, promise, cover)
	}
	if why != "" {
		c.refuseUnfit(conn, fx, why)
		return
	}
	if excess := c.excess(msg); excess != "" {
		c.refuse(conn, fx, "%s", excess)
		return
	}
	p := c.process(id)
	if p.dead {
		c.refuse(conn, fx, "a witness has said that the process of %v is dead; want the report of a new process", id)
		return
	}
	if msg.Number <= p.number && !c.cfg.Mutant.Has("reports-by-arrival") {
		return
	}
	p.number = msg.Number
	l.session, l.number = id, msg.Number
	if id.Epoch <= p.over {
		fx.Sends = append(fx.Sends, Send{conn, Message{Type: Over, Tenure: c.tenure, Number: msg.Number, Session: id}})
		return
	}
	s := p.session
	again := s != nil && s.id.Epoch == id.Epoch
	if !again {
		older := s
		s = &session{id: id, promise: protocol.Always}
		c.listOverruns(s, msg.Overruns, fx) // before the older session's keys are free
		p.over = max(p.over, id.Epoch-1)
		if older != nil {
			c.finish(older, fx)
		}
	}
	if c.cfg.Mutant.Has("new-life-ends-old") {
		for _, o := range slices.Clone(c.sessions) {
			if o.id.Member == id.Member && o.id.Process != id.Process {
				c.finish(o, fx)
			}
		}
	}
	if !again {
		c.addSession(s, p, fx)
		// Admitted by an earlier coordinator: what reports after cover cannot have a claim of that any more.
		s.admitted = msg.Admitted && !c.covered
		s.voucher = s.admitted && (c.cfg.Vouchers == 0 || msg.Registry != nil) && !c.cfg.Mutant.Has("inherited-not-vouchers")
	} else if !msg.Admitted && !c.cfg.Mutant.Has("report-keeps-admission") {
		s.admitted, s.voucher = false, false
	}
	s.longest, s.cover = msg.Promise, msg.Cover
	s.conn, s.number, s.traits, s.shown, s.acked = conn, msg.Number, msg.Traits, s.admitted && msg.Admitted, 0
	fx.Members = true
	if msg.Registry != nil && msg.Registry.Tenure == c.tenure {
		s.acked = msg.Registry.Version
	}
	s.toldAt = protocol.Always
	c.enrolment.pass = true
	promise := c.longestPromise()
	if c.cfg.Mutant.Has("report-promised-as-a-poll") {
		promise = c.cfg.Promise
	}
	c.promise(s, now, now.Add(promise))
	if !c.covered && msg.Registry != nil && msg.Admitted {
		c.account.vouch(msg.Registry.Sessions)
		for i := range c.account.all {
			c.known.add(c.account.all[i].Member)
		}
	} else if !c.covered && msg.Registry != nil && (c.cfg.Mutant.Has("unadmitted-vouches") || c.cfg.Mutant.Has("lapsed-vouches")) {
		c.account.vouch(msg.Registry.Sessions)
	}
	c.known.told = max(c.known.told, min(msg.Members, mostMembers))
	c.answer(conn, msg, fx)
	c.list(s, msg, again, fx)
}

// addSession adds a new session.
func (c *Coordinator) addSession(s *session, p *process, fx *Effects) {
	if c.gone > 16+len(c.sessions) {
		c.sweep(fx)
	}
	s.slot, s.peer = uint32(len(c.slots)), c.known.add(s.id.Member)
	c.slots = append(c.slots, s)
	p.session = s
	i, _ := c.find(s.id)
	c.sessions = slices.Insert(c.sessions, i, s)
	c.enrolment.changed = true
	c.away = slices.DeleteFunc(c.away, func(a Absence) bool { return a.Member == s.id.Member })
}

// promise extends the promise to a session.
func (c *Coordinator) promise(s *session, now, until protocol.Instant) {
	s.peer.heard = now
	if until > s.promise {
		s.promise = until
	}
	c.wake = min(c.wake, s.promise)
}

// polled is G3.
func (c *Coordinator) polled(s *session, conn Conn, msg *Message, now protocol.Instant, fx *Effects) {
	if msg.Tenure != c.tenure {
		return
	}
	until := now.Add(c.cfg.Promise)
	if c.cfg.Mutant.Has("poll-renews-nothing") {
		until = s.promise
	}
	c.promise(s, now, until)
	if msg.Acked > s.acked {
		s.acked = msg.Acked
		c.enrolment.pass = c.enrolment.pass || c.enrolment.waiting
	}
	if s.admitted && msg.Admitted && !s.shown {
		s.shown, fx.Members = true, true
	}
	c.answer(conn, msg, fx)
	switch {
	case s.admitted && !s.shown && !c.cfg.Mutant.Has("admission-told-once"):
		c.admit(s, now, fx)
	case s.voucher && c.enrolment.registry != nil && s.acked < c.enrolment.registry.Version && now >= s.toldAt.Add(c.cfg.Poll):
		c.tell(s, now, fx)
	}
}

func (c *Coordinator) answer(conn Conn, msg *Message, fx *Effects) {
	fx.Sends = append(fx.Sends, Send{conn, Message{Type: Answer, Tenure: c.tenure, Number: msg.Number, Seq: msg.Seq, Promise: c.cfg.Promise, Members: c.members()}})
}

// goodbye is G6: the session ends, because its work was joined. It needs no report before.
func (c *Coordinator) goodbye(l *link, conn Conn, msg *Message, now protocol.Instant, fx *Effects) {
	id := msg.Session
	if id.Member != l.from || id.Process == (protocol.Nonce{}) || !c.knows(id) {
		return
	}
	p := c.process(id)
	if msg.Number <= p.number {
		return
	}
	p.number = msg.Number
	p.over = max(p.over, id.Epoch)
	fx.Closes = append(fx.Closes, conn)
	delete(c.links, conn)
	s := p.session
	if s == nil || s.id.Epoch > id.Epoch {
		c.forget(id.Member)
		return
	}
	c.finish(s, fx)
	c.forget(id.Member)
	if lasts := min(msg.Traits.Back, longest); lasts > 0 && !slices.ContainsFunc(c.sessions, func(s *session) bool { return s.id.Member == id.Member }) {
		until := now.Add(lasts)
		i, found := slices.BinarySearchFunc(c.away, id.Member, func(a Absence, id protocol.NodeID) int { return a.Member.Compare(id) })
		if !found {
			c.away = slices.Insert(c.away, i, Absence{})
		}
		c.away[i] = Absence{id.Member, until}
		c.wake = min(c.wake, until)
	}
}

// dead is G6: a witness says that a process is dead with all its work.
func (c *Coordinator) dead(id Session, fx *Effects) {
	if id.Process == (protocol.Nonce{}) {
		return
	}
	if c.cfg.Mutant.Has("word-about-a-member") {
		for _, s := range slices.Clone(c.sessions) {
			if s.id.Member == id.Member {
				c.finish(s, fx)
			}
		}
	}
	if !c.knows(id) {
		return
	}
	p := c.process(id)
	p.dead, p.over = true, ^uint64(0)
	if s := p.session; s != nil {
		c.finish(s, fx)
	}
	c.forget(id.Member)
}

// finish ends a session. Its keys are free.
func (c *Coordinator) finish(s *session, fx *Effects) {
	p := c.processes[lifeOf(s.id)]
	p.session = nil
	p.over = max(p.over, s.id.Epoch)
	if s.conn != 0 {
		if l := c.links[s.conn]; l != nil {
			fx.Sends = append(fx.Sends, Send{s.conn, Message{Type: Over, Tenure: c.tenure, Number: s.number, Session: s.id}})
		}
		s.conn = 0
	}
	if i, ok := c.find(s.id); ok {
		c.sessions = slices.Delete(c.sessions, i, i+1)
	}
	c.slots[s.slot] = nil
	c.gone++
	c.enrolment.changed, c.enrolment.pass = true, true
	fx.Members = true
	c.unreserve(s, fx)
	c.freeAll(s, fx)
}

// expire ends what is promised, or kept, no longer.
func (c *Coordinator) expire(now protocol.Instant, fx *Effects) {
	for _, s := range slices.Clone(c.sessions) {
		if now >= s.promise {
			c.finish(s, fx)
		}
	}
	if n := len(c.away); n > 0 {
		c.away = slices.DeleteFunc(c.away, func(a Absence) bool { return now >= a.Until })
		fx.Members = fx.Members || len(c.away) < n
	}
	c.wake = protocol.Never
	for _, s := range c.sessions {
		c.wake = min(c.wake, s.promise)
	}
	for _, a := range c.away {
		c.wake = min(c.wake, a.Until)
	}
}

// account is what the sessions that vouch agree on (G9): the sessions that may hold keys.
type account struct {
	vouched bool
	all     []Session // in the order of Compare
}

// vouch takes what one session vouches for.
func (a *account) vouch(sessions []Session) {
	if !a.vouched {
		a.vouched, a.all = true, slices.Clone(sessions)
		slices.SortFunc(a.all, Session.Compare)
		return
	}
	sessions = slices.Clone(sessions)
	slices.SortFunc(sessions, Session.Compare)
	a.all = slices.DeleteFunc(a.all, func(s Session) bool {
		_, vouched := slices.BinarySearchFunc(sessions, s, Session.Compare)
		return !vouched
	})
}

// accounted reports whether cover can end because each session of the account has reported, or is over.
func (c *Coordinator) accounted() bool {
	if !c.account.vouched && !c.cfg.Mutant.Has("no-voucher-needed") {
		return false
	}
	missing := 0
	for _, id := range c.account.all {
		p := c.processes[lifeOf(id)]
		if p == nil || id.Epoch > p.over && (p.session == nil || p.session.id != id) {
			missing++
		}
	}
	return missing == 0 || missing == 1 && c.cfg.Mutant.Has("one-may-be-missing")
}

// peer is a member by its id, for G13.
type peer struct {
	heard protocol.Instant
}

// knownMembers are the members that a coordinator knows of.
type knownMembers struct {
	peers map[protocol.NodeID]*peer
	told  uint64           // how many there were, by what members heard of the coordinator before
	check protocol.Instant // when to look next
}

// members is how many there are. During cover not all have reported; after it those that have not are not counted, so
// that the next coordinator does not miss them too.
func (c *Coordinator) members() uint64 {
	n := uint64(len(c.sessions))
	if !c.covered {
		n = max(n, c.known.told)
	}
	return n
}

func (k *knownMembers) add(id protocol.NodeID) *peer {
	p := k.peers[id]
	if p == nil {
		if k.peers == nil {
			k.peers = make(map[protocol.NodeID]*peer)
		}
		p = &peer{heard: protocol.Always}
		k.peers[id] = p
	}
	return p
}

// forget forgets a member that has said goodbye, or is dead, unless another process of it is here.
func (c *Coordinator) forget(id protocol.NodeID) {
	if !slices.ContainsFunc(c.sessions, func(s *session) bool { return s.id.Member == id }) {
		if c.known.peers[id] != nil {
			c.known.told -= min(c.known.told, 1)
		}
		delete(c.known.peers, id)
	}
}

// heardAll counts all as heard at an instant.
func (k *knownMembers) heardAll(now protocol.Instant) {
	for _, p := range k.peers {
		p.heard = now
	}
}

// patience is until when a coordinator waits at first: those that are gone for good are out of the registry, and not
// counted any more, so that the next coordinator is not deserted too.
func (c *Coordinator) patience() protocol.Instant { return c.begunAt.Add(c.wait + c.cfg.Promise) }

// deserted is G13: more than half of the members have been silent for 2·D_V. It says when to look next. Members whose
// sessions have ended are forgotten when most of the others are there.
func (c *Coordinator) deserted(now protocol.Instant) bool {
	heard := make([]protocol.Instant, 0, max(uint64(len(c.known.peers)), c.known.told))
	for _, p := range c.known.peers {
		heard = append(heard, max(p.heard, c.begunAt))
	}
	for len(heard) < cap(heard) {
		heard = append(heard, c.begunAt)
	}
	if len(heard) == 0 {
		c.known.check = now.Add(2 * c.cfg.Promise)
		return false
	}
	slices.Sort(heard)
	// The instant since when half of them have been heard.
	half := heard[len(heard)/2]
	c.known.check = max(half.Add(2*c.cfg.Promise), c.patience())
	if now >= c.known.check {
		if c.cfg.Mutant.Has("no-deserted") {
			c.known.check = now.Add(2 * c.cfg.Promise)
			return false
		}
		return true
	}
	if since := now.Add(-c.longestPromise()); half >= since && c.begunAt < since {
		c.known.told = 0
		for id, p := range c.known.peers {
			// Those that have fallen silent with half of all may be cut off with them.
			if max(p.heard, c.begunAt).Add(c.longestPromise()) < half && !slices.ContainsFunc(c.sessions, func(s *session) bool { return s.peer == p }) {
				delete(c.known.peers, id)
			}
		}
	}
	return false
}

// clone keeps a key apart from the message that it came in.
func clone(k Key) Key { return Key(strings.Clone(string(k))) }
