package link

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/wire"
)

// Election is this host's part in one election, over the connections of a Link. Make it with [Link.Join], or with
// [Start].
type Election struct {
	link   *Link
	own    bool // the Link serves this election only
	cfg    Config
	name   string
	log    *slog.Logger
	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	busy   sync.WaitGroup // callbacks

	// Guarded by the Link's lock:
	closing   bool
	hello     wire.Enter // without its number
	announced *wire.Welcome
	set       uint64 // counts the calls of SetPeers
	members   map[protocol.NodeID]*member
}

// member is a node in an election.
type member struct {
	id                      protocol.NodeID
	sent, received, dropped atomic.Uint64

	// Guarded by the Link's lock:
	listed    bool     // it is one of Peers
	addrs     []string // to dial, in turn; none: it is not dialled
	open      []*entry // on connections that count, the newest last: that one is used for sending
	lastHeard clock.Boot
	err       error                 // why it has no open entry
	told      map[string]slog.Level // as in peer
}

// Start takes part in one election over a Link of its own, until Close.
func Start(cfg Config) *Election {
	l := Listen(cfg.HostConfig)
	e, _ := l.Join(cfg) // the first one is not refused
	e.own = true
	return e
}

// Join takes part in one more election until Close. There is at most one Election
// with a name, and MaxElections in all.
func (l *Link) Join(cfg Config) (*Election, error) {
	e := &Election{link: l, cfg: cfg, name: cfg.Enter.Election, log: cfg.Logger, hello: cfg.Enter, members: make(map[protocol.NodeID]*member)}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.cfg.Idle <= 0 {
		e.cfg.Idle = l.cfg.Idle
	}
	e.ctx, e.cancel = context.WithCancel(l.ctx)
	l.mu.Lock()
	var err error
	switch {
	case l.closing:
		err = fmt.Errorf("%s is about to end", l.cfg.Hello.ID)
	case l.elections[e.name] != nil:
		err = fmt.Errorf("%s takes part in the election %q already; want it once", l.cfg.Hello.ID, e.name)
	case len(l.elections) >= MaxElections:
		err = fmt.Errorf("%s takes part in %d elections; want no more", l.cfg.Hello.ID, MaxElections)
	}
	if err != nil {
		l.mu.Unlock()
		e.cancel()
		return nil, err
	}
	first := !l.started
	l.started = true
	l.elections[e.name] = e
	retune := l.settle()
	for id, addrs := range cfg.Peers {
		e.list(id, addrs)
	}
	l.mu.Unlock()
	retune()
	if first {
		l.start()
	}
	return e, nil
}

// settle sets the Link's time to the least of the elections. The lock is held. The returned function is to be called
// without it.
func (l *Link) settle() (retune func()) {
	least := l.cfg.Idle
	for _, e := range l.elections {
		least = min(least, e.cfg.Idle)
	}
	if l.least.Swap(int64(least)) == int64(least) {
		return func() {}
	}
	var all []*conn
	for c := range l.live {
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			tune(c.raw, least)
		}
	}
}

// election returns the election with that name and begins a callback of it; nil if there is none.
func (l *Link) election(name string) *Election {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.elections[name]; e != nil && e.beginLocked() {
		return e
	}
	return nil
}

// noElection is the refusal for an election in which this host takes no part.
func (l *Link) noElection(name string) *wire.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := "no other"
	if len(l.elections) > 0 {
		var all []string
		for name := range l.elections {
			all = append(all, fmt.Sprintf("%q", name))
		}
		slices.Sort(all)
		known = all[0]
		if len(all) > 1 {
			known = fmt.Sprintf("%s and %d more", known, len(all)-1)
		}
	}
	return &wire.Refusal{Code: wire.CodeElection, Says: fmt.Sprintf(
		"%s takes no part in the election %q at this address, and takes part in %s: it is not open there yet, an address is wrong, or the name", l.cfg.Hello.ID, name, known)}
}

// begin records a callback for which Close has to wait. It returns false if no callback may begin any more.
func (e *Election) begin() bool {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.beginLocked()
}

func (e *Election) beginLocked() bool {
	if e.closing {
		return false
	}
	e.busy.Add(1)
	return true
}

// Send queues a letter for a node. It never blocks. Without a connection the letter is dropped. If the queue is full
// its oldest letter is dropped. The letter is copied; what its message points to must not change.
func (e *Election) Send(to protocol.NodeID, letter *wire.Letter) {
	l := e.link
	var c *conn
	var number uint32
	l.mu.Lock()
	m := e.members[to]
	if m != nil && len(m.open) > 0 {
		n := m.open[len(m.open)-1]
		c, number = n.c, n.mine
	}
	l.mu.Unlock()
	switch {
	case c != nil:
		c.push(m, number, letter)
		l.signs(clock.Now())
	case m != nil:
		m.dropped.Add(1)
	}
}

// SetIncarnation changes the Enter of later connections. The other nodes on existing ones learn it from the letters.
func (e *Election) SetIncarnation(n uint64) {
	e.link.mu.Lock()
	e.hello.Incarnation = n
	e.link.mu.Unlock()
}

// Announce sends a further Welcome to all connected nodes, and to each later one, beside the one that Admit returns.
func (e *Election) Announce(w *wire.Welcome) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.announced = w
	for _, m := range e.members {
		for _, n := range m.open {
			n.announce(w)
		}
	}
}

// Peers returns the state of the connections, ordered by id. It asks the kernel about each.
func (e *Election) Peers() []PeerInfo {
	l := e.link
	l.mu.Lock()
	var all []PeerInfo
	var newest []*conn
	for id, m := range e.members {
		p := l.peers[id]
		if p == nil || !m.listed && len(m.open) == 0 {
			continue
		}
		i := PeerInfo{
			ID: id, Addr: p.at(), Connected: len(m.open) > 0, LastHeard: m.lastHeard, Program: p.program,
			Sent: m.sent.Load(), Received: m.received.Load(), Dropped: m.dropped.Load(), Err: p.err,
		}
		if i.Addr == "" {
			i.Addr = p.from
		}
		var c *conn
		switch {
		case i.Connected:
			i.Err = nil
			c = m.open[len(m.open)-1].c
			i.Speaks, i.LastHeard = c.speaks, clock.Boot(p.lastHeard.Load())
		case len(p.conns) > 0:
			i.Err = m.err
		}
		all, newest = append(all, i), append(newest, c)
	}
	l.mu.Unlock()
	for n, c := range newest {
		if c != nil {
			all[n].RTT, all[n].Retransmits = measure(c.raw)
		}
	}
	slices.SortFunc(all, func(a, b PeerInfo) int { return a.ID.Compare(b.ID) })
	return all
}

// Close leaves the election. The other nodes are told that this node's part has ended, as the end of the process
// would tell them. Close waits until no callback runs any more. A Link of its own is closed too, after writing what
// is queued, for a quarter of a second at most.
func (e *Election) Close() error {
	l := e.link
	e.cancel()
	if e.own {
		err := l.Close()
		l.mu.Lock()
		e.closing = true
		l.mu.Unlock()
		e.busy.Wait()
		return err
	}
	l.mu.Lock()
	again := e.closing
	e.closing = true
	retune := func() {}
	if !again {
		delete(l.elections, e.name)
		for c := range l.live {
			n := c.entries[e]
			if n == nil {
				continue
			}
			if n.mine != 0 {
				c.say(&wire.Frame{Leave: &wire.Leave{Number: n.mine}})
			}
			n.reset()
			delete(c.entries, e)
			delete(c.proc.parts, e)
		}
		for _, m := range e.members {
			e.unlist(m)
		}
		retune = l.settle()
	}
	l.mu.Unlock()
	retune()
	e.busy.Wait()
	return nil
}

// tellOnce decides whether a failure is new: each is new until the next success, or until its level rises. The lock
// is held.
func tellOnce(told *map[string]slog.Level, why string, level slog.Level) bool {
	before, known := (*told)[why]
	if known && before >= level {
		return false
	}
	if *told == nil || len(*told) >= maxTold {
		*told = make(map[string]slog.Level)
	}
	(*told)[why] = level
	return true
}

// retryLater is the pause before a refused entry is tried again.
func (n *entry) retryLater() time.Duration { return jitter(n.pauses.next()) }
