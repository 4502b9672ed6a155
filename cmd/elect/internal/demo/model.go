package demo

import (
	"slices"
	"time"

	"github.com/electd/elect/fence"
)

// size is how many nodes there are: the fewest that survive the loss of one.
const size = 3

// ids are the nodes' names.
var ids = [size]string{"n1", "n2", "n3"}

// condition is what was done to a node's process.
type condition int

const (
	dead condition = iota // or not started yet
	running
	paused
)

// node is what is known of one of them.
type node struct {
	condition condition
	cut       bool
	since     time.Duration // of condition and cut
	ever      bool          // it was started at least once
	left      time.Duration // when it was last paused or cut off
	returned  returned      // how it came back, until it has said something since

	heard time.Duration // when it last answered; negative: never since it was started
	reading
	leaseEnd time.Duration // when its lease runs out, by its last answer
	renewed  time.Duration // when an answer last put the end further away
	said     []string      // the last lines of its elect run
}

// returned says after what a node has still to find its way.
type returned int

const (
	not returned = iota
	started
	woken
	healed
)

// reading is what a node says of itself.
type reading struct {
	role    string
	founded bool
	follows string      // whom it takes for the leader; "" nobody
	token   fence.Token // with which it leads; 0 if it does not
	active  bool
	lease   time.Duration // left
	hears   []string      // the nodes that it is connected with
}

// act is something that is done to a node.
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
	late // a write with an old token, of the node's last job but one
)

// model is all that is seen, and it is pure: it changes by what it is told, and
// reads no clock. Times are since the demo began.
type model struct {
	promise time.Duration
	profile string
	dir     string // where to find the election's URL

	now      time.Duration
	nodes    [size]node
	selected int
	chaos    bool
	help     bool
	over     bool // the nodes are being ended

	ledger ledger
	tail   []line // the last lines of the log
	strip  strip
	story  []sentence
	blow   *blow // the last one to the leader that nobody has answered yet

	takeovers int
	took      time.Duration // the last takeover; 0 before the first
	hint      string        // the answer to a key that could not be served
	hinted    time.Duration
}

// blow is an act that takes the leader's leadership away.
type blow struct {
	act   act
	node  int
	at    time.Duration
	alone bool // no majority was left to elect another
	told  bool // that the job has ended because of that
	key   int  // of the open sentence about it; 0 if there is none
}

func newModel(profile string, promise time.Duration) *model {
	m := &model{profile: profile, promise: promise}
	for i := range m.nodes {
		m.nodes[i].heard = -1
	}
	return m
}

// index returns which node has the id, -1 if none.
func index(id string) int { return slices.Index(ids[:], id) }

// silence is how long no line in the log means that no job runs. It is many
// beats: a busy machine is not to be taken for a takeover.
const silence = 30 * beat

// worker is the node whose job writes to the log, and -1 if none does.
func (m *model) worker() int {
	l, ok := m.ledger.now()
	if !ok || m.now-l.last > silence {
		return -1
	}
	return index(l.id)
}

// reachable reports whether a node can hear others: it runs and is connected.
func (n *node) reachable() bool { return n.condition == running && !n.cut }

// reachable is how many of the nodes can talk to each other.
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

// settled reports whether all is well: all nodes run, are connected and agree
// about who leads, and that one's job writes.
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

// tick is told how late it is.
func (m *model) tick(now time.Duration) {
	m.now = max(m.now, now)
	m.strip.advance(m.now, func(i int) mark { return m.nodes[i].mark() })
	m.watchdog()
}

// mark is what the strip shows of a node whose job does not write.
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

// tailLines is how much of the log is kept to be shown.
const tailLines = 12

// wrote is told of one more line of the log.
func (m *model) wrote(l line) {
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
		m.tell(bad, "%s's job wrote, with token %v, although a later one had begun. That must never be.", l.ID, l.Token)
	case len(m.ledger.lives) > was:
		m.began()
	}
}

// answered is told what a node says of itself, and when it said so.
func (m *model) answered(i int, at time.Duration, r reading) {
	n := &m.nodes[i]
	if n.condition != running || at < n.since {
		return // the answer was on its way when the node was paused or killed
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
	m.arrived(i)
}

// renewal is by how much an answer must put off the end of the lease to count
// as a renewal and not as a difference between two readings of the clock.
const renewal = 2 * time.Millisecond

// keptLines is how many lines of each node are kept.
const keptLines = 40

// spoke is told a line of a node's elect run.
func (m *model) spoke(i int, text string) {
	n := &m.nodes[i]
	n.said = append(n.said, text)
	if extra := len(n.said) - keptLines; extra > 0 {
		n.said = slices.Delete(n.said, 0, extra)
	}
}

// refused returns why an act is of no use now, in words for who wanted it, and
// "" if there is no reason.
func (m *model) refused(a act, i int) string {
	n := &m.nodes[i]
	id := ids[i]
	gone := id + " is dead. Press s to start it again."
	switch {
	case a == start && n.condition != dead:
		return id + " is running already."
	case a == start:
		return ""
	case a == late:
		if _, ok := m.ledger.earlier(); !ok {
			return "There is no old token yet: nobody has taken over so far."
		}
		return ""
	case n.condition == dead:
		return gone
	case a == killJob && (m.worker() != i):
		return id + " runs no job."
	case a == resign && m.worker() != i:
		return id + " does not lead: there is nothing to resign from."
	case a == resign && n.condition == paused:
		return id + " is paused and hears nothing. Press p to wake it."
	case a == pause && n.condition == paused, a == wake && n.condition != paused, a == cut && n.cut, a == heal && !n.cut:
		return id + " is so already."
	}
	return ""
}

// did is told that an act has been begun. It is told before anything can have
// come of it.
func (m *model) did(a act, i int, at time.Duration) {
	m.now = max(m.now, at)
	n := &m.nodes[i]
	leads := m.worker() == i
	forget := func() { n.reading, n.leaseEnd, n.heard = reading{}, 0, -1 }
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

// ended is told that a node's process has ended by itself.
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

// deny answers a key that could not be served.
func (m *model) deny(text string) { m.hint, m.hinted = text, m.now }

// failed is told that an act could not be done.
func (m *model) failed(a act, i int, err error) {
	if m.over {
		return
	}
	if b := m.blow; b != nil && b.node == i && b.act == a {
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
