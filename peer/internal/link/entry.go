package link

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/peer/internal/wire"
)

// entry is one election on one connection. A side that wants it sends an Enter, and the other one answers with its
// own. Each Enter is also answered by a Welcome or a Refusal. The entry is open, and letters flow, when both sides
// were welcomed. A refusal, sent or received, cancels both Enters, and a side that wants the entry tries again after
// a while, as it would dial again. So each attempt asks both sides anew, even one that begins while the other side
// decides about an earlier one.
type entry struct {
	c        *conn
	election *Election
	m        *member

	// order keeps the callbacks in the order of the connection: the goroutine that opens the entry holds it until
	// Welcomed has returned, and the reader holds it for each letter.
	order sync.Mutex

	// Guarded by the Link's lock:
	mine        uint32        // the number of this side's Enter; 0: there is none
	welcome     *wire.Welcome // the other side's answer to mine; nil: none yet
	theirs      *wire.Enter   // of the other side; nil: there is none
	admitted    bool          // this side has answered theirs with a Welcome
	deciding    bool          // Admit is being asked
	open        bool
	incarnation *atomic.Uint64 // of the other side; shared by the entries of one process
	pauses      pauses
	again       *time.Timer // the timer of the next attempt; nil: none
	since       time.Time   // when it was opened
}

// entry returns that of an election. The lock is held.
func (c *conn) entry(e *Election, m *member) *entry {
	n := c.entries[e]
	if n == nil {
		n = &entry{c: c, election: e, m: m}
		c.entries[e] = n
	}
	n.m = m
	return n
}

// enter sends an Enter unless one was sent. An answer replaces an earlier Enter. The lock is held.
func (l *Link) enter(n *entry, answer bool) {
	c := n.c
	if n.again != nil {
		n.again.Stop()
		n.again = nil
	}
	if n.mine != 0 && !answer || c.left || c.over || n.election.closing {
		return
	}
	delete(c.mine, n.mine)
	c.numbers++
	n.mine, n.welcome = c.numbers, nil
	c.mine[n.mine] = n
	says := n.election.hello
	says.Number, says.Answer = n.mine, answer
	c.say(&wire.Frame{Enter: &says})
}

// entered answers an Enter. An error ends the connection.
func (l *Link) entered(c *conn, f *wire.Enter) error {
	l.mu.Lock()
	if f.Number <= c.highest {
		l.mu.Unlock()
		return fmt.Errorf("%s enters with number %d after %d; want rising ones", c.peer.id, f.Number, c.highest)
	}
	c.highest = f.Number
	e := l.elections[f.Election]
	switch {
	case c.left || l.closing:
		l.mu.Unlock()
		return nil
	case e == nil:
		l.mu.Unlock()
		r := l.noElection(f.Election)
		r.Number = f.Number
		c.say(&wire.Frame{Refusal: r})
		l.strange.log(l.log, string(c.peer.id)+string(r.Code), "refused", "who", c.peer.id, "from", c.addr(), "code", r.Code, "cause", r.Says)
		return nil
	}
	defer l.mu.Unlock()
	m := e.member(c.peer.id)
	n := c.entry(e, m)
	if n.open { // it begins again
		n.reset()
	} else if n.theirs != nil {
		delete(c.theirs, n.theirs.Number)
	}
	n.theirs, n.admitted = f, false
	c.theirs[f.Number] = n
	if !f.Answer {
		l.enter(n, true)
	}
	if !n.deciding && e.beginLocked() {
		n.deciding = true
		l.work.Go(func() { l.decide(n) })
	}
	return nil
}

// decide asks Admit about the other side, and sends the answer.
func (l *Link) decide(n *entry) {
	c, e := n.c, n.election
	defer e.busy.Done()
	for {
		l.mu.Lock()
		f, set := n.theirs, e.set
		if f == nil || c.over || e.closing {
			n.deciding = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		w, r := e.cfg.Admit(c.peer.id, f, wire.Node)

		n.order.Lock()
		l.mu.Lock()
		if n.theirs != f || e.set != set || e.closing { // something has changed meanwhile
			l.mu.Unlock()
			n.order.Unlock()
			continue
		}
		n.deciding = false
		if r != nil {
			l.refuse(n, r)
			l.mu.Unlock()
			n.order.Unlock()
			l.strange.log(e.log, string(c.peer.id)+r.Says, "refused", "who", string(c.peer.id), "from", c.addr(), "code", r.Code, "cause", r.Says)
			return
		}
		if w == nil {
			w = l.welcome()
		}
		answer := *w
		answer.Number = f.Number
		c.say(&wire.Frame{Welcome: &answer})
		n.admitted = true
		opened := l.opens(n)
		l.mu.Unlock()
		opened()
		n.order.Unlock()
		return
	}
}

// refuse cancels an entry and tells the other side why. The lock is held.
func (l *Link) refuse(n *entry, r *wire.Refusal) {
	switch {
	case n.theirs != nil:
		refusal := *r
		refusal.Number = n.theirs.Number
		n.c.say(&wire.Frame{Refusal: &refusal})
	case n.mine != 0:
		n.c.say(&wire.Frame{Leave: &wire.Leave{Number: n.mine}})
	}
	n.reset()
	n.part()
	l.retry(n)
}

// opens opens an entry if both sides are welcomed. The lock is held. The returned function reports it, and is to be
// called without the lock and while order is held.
func (l *Link) opens(n *entry) func() {
	if !n.admitted || n.welcome == nil || n.open {
		return func() {}
	}
	c, e, m := n.c, n.election, n.m
	if n.incarnation = c.proc.parts[e]; n.incarnation == nil {
		if c.proc.parts == nil {
			c.proc.parts = make(map[*Election]*atomic.Uint64)
		}
		n.incarnation = new(atomic.Uint64)
		c.proc.parts[e] = n.incarnation
	}
	raise(n.incarnation, n.theirs.Incarnation)
	n.open, n.since = true, time.Now()
	if !c.left {
		// The newest connection is last, in whichever order the entries were opened.
		m.open = append(m.open, n)
		slices.SortStableFunc(m.open, func(a, b *entry) int {
			return cmp.Compare(slices.Index(c.peer.conns, a.c), slices.Index(c.peer.conns, b.c))
		})
	}
	level := c.level
	for _, told := range m.told {
		level = max(level, told)
	}
	m.err, m.told = nil, nil
	if e.announced != nil {
		n.announce(e.announced)
	}
	outgrown := l.outgrown(c.peer)
	w, ready := n.welcome, e.beginLocked()
	return func() {
		if ready {
			e.cfg.Welcomed(m.id, w)
			e.busy.Done()
		}
		e.log.Log(l.ctx, level, "connected", "peer", m.id, "addr", c.addr(), "dialled", c.dialled, "program", c.proc.program)
		for _, o := range outgrown {
			o.abort()
		}
	}
}

// announce sends a Welcome to a node that has entered. The lock is held.
func (n *entry) announce(w *wire.Welcome) {
	again := *w
	again.Number = n.theirs.Number
	n.c.say(&wire.Frame{Welcome: &again})
}

// welcomed handles the other side's answer to an Enter, or its announcement.
func (l *Link) welcomed(c *conn, w *wire.Welcome) {
	l.mu.Lock()
	n := c.mine[w.Number]
	if n == nil || !n.election.beginLocked() { // it was cancelled meanwhile
		l.mu.Unlock()
		return
	}
	defer n.election.busy.Done()
	l.mu.Unlock()
	n.order.Lock()
	defer n.order.Unlock()
	l.mu.Lock()
	if c.mine[w.Number] != n {
		l.mu.Unlock()
		return
	}
	n.welcome = w
	again := n.open
	opened := l.opens(n)
	l.mu.Unlock()
	opened()
	if again {
		n.election.cfg.Welcomed(c.peer.id, w)
	}
}

// refused handles the other side's refusal of an Enter.
func (l *Link) refused(c *conn, r *wire.Refusal) {
	l.mu.Lock()
	n := c.mine[r.Number]
	if n == nil || !n.election.beginLocked() {
		l.mu.Unlock()
		return
	}
	e, m := n.election, n.m
	defer e.busy.Done()
	open := n.open
	n.reset()
	n.part()
	l.retry(n)
	m.err = r
	level := slog.LevelWarn
	if !r.Final {
		level = slog.LevelInfo // Config.Refused decides how loud it is
	}
	news := len(m.open) == 0 && tellOnce(&m.told, r.Says, level)
	l.mu.Unlock()
	e.cfg.Refused(m.id, r)
	switch {
	case news && open:
		e.log.Info("disconnected", "peer", m.id, "addr", c.addr(), "closed_by_it", true, "cause", error(r))
	case news:
		e.log.Log(l.ctx, level, "cannot connect", "peer", m.id, "addr", c.addr(), "cause", error(r))
	}
}

// gone handles that the other side has left an election.
func (l *Link) gone(c *conn, number uint32) {
	l.mu.Lock()
	n := c.theirs[number]
	if n == nil || !n.election.beginLocked() {
		l.mu.Unlock()
		return
	}
	e, m := n.election, n.m
	defer e.busy.Done()
	open := n.open
	n.reset()
	last := open && n.part()
	m.err = errLeave
	l.retry(n)
	incarnation := n.incarnation
	l.mu.Unlock()
	if last {
		e.cfg.Closed(m.id, incarnation.Load())
		e.log.Info("disconnected", "peer", m.id, "addr", c.addr(), "closed_by_it", true, "cause", errLeave)
	}
}

var errLeave = errors.New("it has left the election")

// letter passes a letter on. It drops a letter for an election that its sender is not in.
func (l *Link) letter(c *conn, letter *wire.Letter) {
	l.mu.Lock()
	n := c.theirs[letter.Number]
	if n == nil || !n.open || !n.election.beginLocked() {
		l.mu.Unlock()
		l.strange.log(l.log, string(c.peer.id)+" letter", "a letter is dropped: its sender is not in the election", "from", c.peer.id, "addr", c.addr(), "number", letter.Number)
		return
	}
	m, incarnation := n.m, n.incarnation
	l.mu.Unlock()
	defer n.election.busy.Done()
	n.order.Lock()
	defer n.order.Unlock()
	m.received.Add(1)
	raise(incarnation, letter.Message.Incarnation)
	n.election.cfg.Receive(m.id, letter)
}

// retry tries a refused entry again after a while, if this side wants the connection. An entry that was open for a
// while begins with short pauses again. The lock is held.
func (l *Link) retry(n *entry) {
	if !n.m.listed || n.again != nil || n.c.over || n.c.left {
		if n.c.peer.passing {
			l.reap(n.c.peer)
		}
		return
	}
	if !n.since.IsZero() {
		n.pauses.reset(time.Since(n.since))
		n.since = time.Time{}
	}
	n.again = time.AfterFunc(n.retryLater(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		n.again = nil
		if n.m.listed && n.c.entries[n.election] == n && !l.closing {
			l.enter(n, false)
		}
	})
}

// reset cancels both sides' part. The lock is held.
func (n *entry) reset() {
	n.shut()
	if n.open {
		n.m.lastHeard = clock.Boot(n.c.peer.lastHeard.Load())
	}
	delete(n.c.mine, n.mine)
	if n.theirs != nil {
		delete(n.c.theirs, n.theirs.Number)
	}
	n.mine, n.welcome, n.theirs, n.admitted, n.open = 0, nil, nil, false, false
}

// shut stops sending. The lock is held.
func (n *entry) shut() {
	if i := slices.Index(n.m.open, n); i >= 0 {
		n.m.open = slices.Delete(n.m.open, i, i+1)
	}
}

// part forgets that the other process takes part, and reports true, unless it takes part on another connection. The
// lock is held.
func (n *entry) part() bool {
	if slices.ContainsFunc(n.m.open, func(o *entry) bool { return o.c.proc == n.c.proc }) {
		return false
	}
	delete(n.c.proc.parts, n.election)
	return true
}

// unsend stops sending on a connection. What arrives still counts. The lock is held.
func (l *Link) unsend(c *conn) {
	c.left = true
	for _, n := range c.entries {
		n.shut()
		if n.again != nil {
			n.again.Stop()
			n.again = nil
		}
	}
}

// forget ends all entries of a connection that is not read any more, and reports those that were the last ones.
func (l *Link) forget(c *conn, byThem bool, cause error) {
	var logs []*slog.Logger
	l.mu.Lock()
	c.over = true
	closing := l.closing
	for e, n := range c.entries {
		open := n.open
		n.reset()
		if open && len(n.m.open) == 0 && !e.closing {
			logs = append(logs, e.log)
		}
		if !n.m.listed && !slices.ContainsFunc(c.peer.conns, func(o *conn) bool { return o.entries[e] != nil }) {
			delete(e.members, n.m.id)
		}
	}
	clear(c.entries)
	l.mu.Unlock()
	if closing {
		return
	}
	for _, log := range logs {
		log.Info("disconnected", "peer", c.peer.id, "addr", c.addr(), "closed_by_it", byThem, "cause", cause)
	}
}

// reap ends the connections with a host that no election has in its Peers, if no entry is open after a while. The
// lock is held.
func (l *Link) reap(p *peer) {
	time.AfterFunc(max(l.idle(), steady), func() {
		l.mu.Lock()
		var all []*conn
		for _, c := range p.conns {
			for _, n := range c.entries {
				if n.open || n.deciding {
					l.mu.Unlock()
					return
				}
			}
			all = append(all, c)
		}
		passing := p.passing && !l.closing
		l.mu.Unlock()
		for _, c := range all {
			if passing {
				c.finish(nil, flushTime)
			}
		}
	})
}
