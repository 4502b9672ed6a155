package demo

import (
	"slices"
	"time"

	"github.com/electd/elect/fence"
)

// size is the number of nodes: the fewest that survive the loss of one.
const size = 3

// ids are the nodes' names.
var ids = [size]string{"n1", "n2", "n3"}

// condition is the state of a node's process.
type condition int

const (
	dead condition = iota // or not yet started
	running
	paused
)

// node is the known state of a node.
type node struct {
	condition condition
	cut       bool
	since     time.Duration // of condition and cut
	ever      bool          // it was started at least once
	left      time.Duration // when it was last paused or cut off
	returned  returned      // how it came back, until it has answered since

	heard time.Duration // when it last answered; negative: never since its start
	reading
	leaseEnd time.Duration // the end of its lease, by its last answer
	renewed  time.Duration // when an answer last extended the lease

	proven    fence.Token   // of the lease that it can prove, by the lease page of its job, or by its answers; 0 is none
	provenEnd time.Duration // of that lease
	paged     bool          // it is of a lease page
	said      []string      // the last lines of its elect run
}

// returned is the event after which a node still has to find the others.
type returned int

const (
	not returned = iota
	started
	woken
	healed
)

// reading is a node's report of itself.
type reading struct {
	role    string
	founded bool
	term    uint64
	follows string      // its leader; "" is none
	token   fence.Token // its token if it leads; 0 otherwise
	active  bool
	lease   time.Duration // the rest of the lease
	hears   []string      // the nodes with which it is connected
}

// act is an action on a node.
type act int

const (
	start act = iota
	kill
	killJob
	pause
	wake
	cut
	heal
	resign
	transfer // to the node
	late     // a write with an old token, of the job before the node's last
)

// model is everything that is shown. It is pure: reports change it, and it reads no clock. Times are since the demo
// began.
type model struct {
	promise time.Duration
	profile string
	dir     string // contains the election's URL

	now      time.Duration
	nodes    [size]node
	selected int
	chaos    bool
	help     bool
	over     bool    // the nodes are being ended
	record   *record // for a page; nil if there is none

	ledger ledger
	tail   []line // the last lines of the log
	strip  strip
	story  []sentence
	blow   *blow // the last one to the leader without a new leader yet

	takeovers int
	took      time.Duration // the duration of the last takeover; 0 before the first
	hint      string        // the answer to a key without effect
	hinted    time.Duration
}

// blow is an act that ends the leader's leadership.
type blow struct {
	act   act
	node  int
	at    time.Duration
	alone bool // no majority is left to elect another
	told  bool // the sentence about the job's end was written
	key   int  // of the open sentence about it; 0 if there is none
}

func newModel(profile string, promise time.Duration) *model {
	m := &model{profile: profile, promise: promise}
	for i := range m.nodes {
		m.nodes[i].heard = -1
	}
	return m
}

// index is the index of the node id, -1 if none.
func index(id string) int { return slices.Index(ids[:], id) }

// silence is how long the log must be silent to show that no job runs. It is many beats: a busy machine must not look
// like a takeover.
const silence = 30 * beat

// worker is the node whose job writes to the log, -1 if none does.
func (m *model) worker() int {
	l, ok := m.ledger.now()
	if !ok || m.now-l.last > silence {
		return -1
	}
	return index(l.id)
}

// reachable reports whether a node can hear others: it runs and is connected.
func (n *node) reachable() bool { return n.condition == running && !n.cut }

// reachable is the number of nodes that can talk to each other.
func (m *model) reachable() (count int) {
	for i := range m.nodes {
		if m.nodes[i].reachable() {
			count++
		}
	}
	return count
}

// majority reports whether enough nodes are left to elect a leader.
func (m *model) majority() bool { return m.reachable() > size/2 }

// settled reports whether all is well: all nodes run, are connected and agree about the leader, and the leader's job
// writes.
func (m *model) settled() bool {
	w := m.worker()
	if w < 0 || m.blow != nil {
		return false
	}
	now, _ := m.ledger.now()
	for i := range m.nodes {
		n := &m.nodes[i]
		if !n.reachable() || n.returned != not || n.heard < 0 || n.heard < n.since || n.follows != ids[w] || len(n.hears) < size-1 {
			return false
		}
		if i == w && n.token != now.token {
			return false
		}
	}
	return true
}

// tick updates the time.
func (m *model) tick(now time.Duration) {
	m.now = max(m.now, now)
	m.strip.advance(m.now, func(i int) mark { return m.nodes[i].mark() })
	m.watchdog()
}

// mark is the strip's mark of a node whose job does not write.
func (n *node) mark() mark {
	switch {
	case n.condition == dead:
		return blank
	case n.condition == paused:
		return frozen
	case n.cut:
		return severed
	}
	return standing
}

// tailLines is how much of the log is kept for the picture.
const tailLines = 12

// wrote handles a line of the log.
func (m *model) wrote(l line) {
	m.record.wrote(l)
	was, wrong := len(m.ledger.lives), m.ledger.overlaps+m.ledger.disorder
	m.ledger.add(l)
	m.tail = append(m.tail, l)
	if extra := len(m.tail) - tailLines; extra > 0 {
		m.tail = slices.Delete(m.tail, 0, extra)
	}
	if l.Number > 0 && l.Seen == 0 {
		m.strip.work(l.At, index(l.ID))
	}
	switch {
	case m.ledger.overlaps+m.ledger.disorder > wrong:
		m.tell(bad, "%s's job wrote, with token %v, although a later job had begun. This must never happen.", l.ID, l.Token)
	case len(m.ledger.lives) > was:
		m.began()
	}
}

// answered handles a node's report of itself, from the time at.
func (m *model) answered(i int, at time.Duration, r reading) {
	n := &m.nodes[i]
	if n.condition != running || at < n.since {
		return // the answer was in flight when the node was paused or killed
	}
	n.reading, n.heard = r, at
	end := at + r.lease
	if !r.active {
		end = 0
	}
	if end > n.leaseEnd+renewal {
		n.renewed = at
	}
	n.leaseEnd = end
	if !n.paged {
		m.proves(i, r.token, end)
	}
	m.arrived(i)
}

// proves handles until when a node's lease is proven, by its own clock, as a reader of its lease page sees it.
func (m *model) proves(i int, token fence.Token, end time.Duration) {
	n := &m.nodes[i]
	if end <= m.now {
		token = 0
	}
	if n.condition == dead || n.proven == token && (token == 0 || max(end-n.provenEnd, n.provenEnd-end) < renewal) {
		return
	}
	n.proven, n.provenEnd = token, end
}

// renewal is the least extension of a lease that counts as a renewal and not as a difference between two readings of
// the clock.
const renewal = 2 * time.Millisecond

// keptLines is the number of kept lines of each node.
const keptLines = 40

// spoke handles a line of a node's elect run.
func (m *model) spoke(i int, text string) {
	n := &m.nodes[i]
	n.said = append(n.said, text)
	m.record.spoke(i, text, m.now)
	if extra := len(n.said) - keptLines; extra > 0 {
		n.said = slices.Delete(n.said, 0, extra)
	}
}

// refused returns why an act is of no use now, as an answer to the user, and "" if there is no reason.
func (m *model) refused(a act, i int) string {
	n := &m.nodes[i]
	id := ids[i]
	gone := id + " is dead. Press s to start it again."
	switch {
	case m.over:
		return "The demonstration has ended."
	case a == start && n.condition != dead:
		return id + " is running already."
	case a == start:
		return ""
	case a == late:
		if _, ok := m.ledger.earlier(); !ok {
			return "There is no old token yet: no node has taken over so far."
		}
		return ""
	case n.condition == dead:
		return gone
	case a == killJob && (m.worker() != i):
		return id + " runs no job."
	case a == resign && m.worker() != i:
		return id + " does not lead: there is nothing to resign from."
	case a == transfer && m.worker() < 0:
		return "No node leads: there is nothing to hand over."
	case a == transfer && m.worker() == i:
		return id + " leads already."
	case a == resign && n.condition == paused:
		return id + " is paused and receives nothing. Press p to wake it."
	case a == pause && n.condition == paused, a == wake && n.condition != paused, a == cut && n.cut, a == heal && !n.cut:
		return id + " is so already."
	}
	return ""
}

// did records the begin of an act, before any consequence of it.
func (m *model) did(a act, i int, at time.Duration) {
	m.now = max(m.now, at)
	n := &m.nodes[i]
	leads := m.worker() == i
	m.record.did(a, i, m.now)
	forget := func() { n.reading, n.leaseEnd, n.heard, n.proven, n.paged = reading{}, 0, -1, 0, false }
	switch a {
	case start:
		if m.reachable() == 0 && len(m.story) == 0 {
			m.tell(plain, "Three nodes start. Once all three have met, any two of them can elect a leader.")
		}
		n.condition, n.since = running, at
		if n.ever {
			n.returned = started
		}
		n.ever = true
		forget()
	case kill:
		n.condition, n.since, n.returned = dead, at, not
		forget()
	case pause:
		n.condition, n.since, n.left, n.returned = paused, at, at, not
	case wake:
		n.condition, n.since, n.returned = running, at, woken
	case cut:
		n.cut, n.since, n.left, n.returned = true, at, at, not
	case heal:
		n.cut, n.since, n.returned = false, at, healed
	}
	m.narrate(a, i, leads)
}

// ended records that a node's process has ended by itself.
func (m *model) ended(i, code int, at time.Duration) {
	n := &m.nodes[i]
	if n.condition == dead || m.over {
		return
	}
	last := "nothing"
	if len(n.said) > 0 {
		last = n.said[len(n.said)-1]
	}
	n.condition, n.since, n.returned = dead, at, not
	n.reading, n.leaseEnd, n.heard = reading{}, 0, -1
	m.tell(bad, "%s ended by itself with exit code %d. It said last: %s", ids[i], code, last)
}

// deny answers a key without effect.
func (m *model) deny(text string) { m.hint, m.hinted = text, m.now }

// failed records that an act has failed.
func (m *model) failed(a act, i int, err error) {
	if m.over {
		return
	}
	if b := m.blow; b != nil && (b.node == i || a == transfer) && b.act == a {
		m.finish(b.key, plain, "")
		m.blow = nil
	}
	n := &m.nodes[i]
	switch a {
	case start:
		n.condition = dead
	case pause:
		n.condition = running
	}
	m.tell(bad, "That did not work on %s: %v.", ids[i], err)
}
