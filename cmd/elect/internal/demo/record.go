package demo

import (
	"slices"
	"time"
)

// record is what has happened, as events for a page in a browser, which draws the present from them, and the past. It
// is pure, as the model is. A nil record keeps nothing.
type record struct {
	events []event
	last   uint64        // the number of the last event
	now    time.Duration // of that event
	views  [size]nodeView
	proved figures
	told   map[int]sentence // the last form of the sentences that may still change
	key    int              // of the last sentence that was seen
	batch  writes           // accepted writes that have no event yet
	since  time.Duration    // of the first of them
}

// event is something that has happened, with one of the fields after Node.
type event struct {
	Number uint64        `json:"n"`
	At     time.Duration `json:"at"`   // since the demo began; it does not fall
	Node   int           `json:"node"` // -1 is none
	Is     *nodeView     `json:"is,omitempty"`
	Did    string        `json:"did,omitempty"` // the verb of an act
	Said   string        `json:"said,omitempty"`
	Told   *told         `json:"told,omitempty"`
	Writes *writes       `json:"writes,omitempty"`
	Proved *figures      `json:"proved,omitempty"`
}

// nodeView is what is known of a node. Token is that of its leadership, as far as it believes in it; Until is until when
// its lease is proven by its own clock, which is that of the demo, 0 if it is not.
type nodeView struct {
	Up     bool          `json:"up,omitempty"`
	Frozen bool          `json:"frozen,omitempty"`
	Cut    bool          `json:"cut,omitempty"`
	Role   string        `json:"role,omitempty"`
	Leader string        `json:"leader,omitempty"`
	Term   uint64        `json:"term,omitempty"`
	Token  uint64        `json:"token,omitempty"`
	Until  time.Duration `json:"until,omitempty"`
	Hears  [size]bool    `json:"hears"`
}

// told is a sentence. One that is told again with the same key has got its outcome.
type told struct {
	Key  int    `json:"key"`
	Mood string `json:"mood"`
	Text string `json:"text"`
}

// writes are writes that reached the log one after the other, all of one token: the last one at At.
type writes struct {
	Token uint64        `json:"token"`
	Count int           `json:"count"`
	OK    bool          `json:"ok"`
	At    time.Duration `json:"at"`
	node  int
}

// figures are what the log proves.
type figures struct {
	Overlaps  int           `json:"overlaps"`
	Disorder  int           `json:"disorder"`
	Late      int           `json:"late"` // refused writes
	Leaked    int           `json:"leaked"`
	Lives     int           `json:"lives"` // of the job
	Takeovers int           `json:"takeovers"`
	Took      time.Duration `json:"took"`
	Chaos     bool          `json:"chaos"`
}

// gathered is the time of the accepted writes in one event.
const gathered = 100 * time.Millisecond

// keptEvents is the number of events from which on the older half is dropped: some 20 minutes and more.
const keptEvents = 40_000

func newRecord() *record { return &record{told: map[int]sentence{}} }

func (r *record) add(e event) {
	r.last++
	r.now = max(r.now, e.At)
	e.Number, e.At = r.last, r.now
	r.events = append(r.events, e)
	if len(r.events) > keptEvents {
		r.drop(len(r.events) / 2)
	}
}

// drop forgets the first n events, but for the last of each node that says how it is, and the last figures.
func (r *record) drop(n int) {
	var kept []event
	seen := map[int]bool{}
	for _, e := range slices.Backward(r.events[:n]) {
		of := e.Node
		if e.Proved != nil {
			of = size
		}
		if (e.Is != nil || e.Proved != nil) && !seen[of] {
			seen[of] = true
			kept = append(kept, e)
		}
	}
	slices.Reverse(kept)
	r.events = append(kept, r.events[n:]...)
}

// after returns the events after the one with the number.
func (r *record) after(number uint64) []event {
	i, found := slices.BinarySearchFunc(r.events, number, func(e event, n uint64) int {
		switch {
		case e.Number < n:
			return -1
		case e.Number > n:
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	return slices.Clone(r.events[i:])
}

// did records an act, which begins.
func (r *record) did(a act, node int, at time.Duration) {
	if r != nil {
		r.add(event{At: at, Node: node, Did: verbs[a]})
	}
}

// spoke records a line of a node.
func (r *record) spoke(node int, text string, at time.Duration) {
	if r != nil {
		r.add(event{At: at, Node: node, Said: text})
	}
}

// wrote records a line of the log.
func (r *record) wrote(l line) {
	if r == nil {
		return
	}
	w := writes{Token: uint64(l.Token), Count: 1, OK: l.Seen == 0 && l.Number > 0, At: l.At, node: index(l.ID)}
	if !w.OK || w.node != r.batch.node || w.Token != r.batch.Token {
		r.flush()
	}
	switch {
	case !w.OK:
		w.OK = l.Seen == 0 // a late write that was not refused
		r.add(event{Node: w.node, Writes: &w})
	case r.batch.Count == 0:
		r.batch, r.since = w, l.At
	default:
		r.batch.Count++
		r.batch.At = l.At
	}
}

// flush makes an event of the writes that have none.
func (r *record) flush() {
	if w := r.batch; w.Count > 0 {
		r.add(event{Node: w.node, Writes: &w})
	}
	r.batch = writes{}
}

// look records what has changed in the model.
func (r *record) look(m *model) {
	if r == nil {
		return
	}
	r.now = max(r.now, m.now)
	if r.batch.Count > 0 && m.now-r.since >= gathered {
		r.flush()
	}
	for i := range m.nodes {
		if f := m.nodeView(i); f != r.views[i] {
			r.views[i] = f
			r.add(event{At: m.now, Node: i, Is: &f})
		}
	}
	for _, s := range m.story {
		was, open := r.told[s.key]
		if s.key <= r.key && (!open || was == s) {
			continue
		}
		r.key = max(r.key, s.key)
		delete(r.told, s.key)
		if s.open {
			r.told[s.key] = s
		}
		if was.text != s.text {
			r.add(event{At: m.now, Node: -1, Told: &told{s.key, moods[s.mood], s.text}})
		}
	}
	g := &m.ledger
	f := figures{g.overlaps, g.disorder, g.late, g.leaked, len(g.lives), m.takeovers, m.took, m.chaos}
	if f != r.proved {
		r.proved = f
		r.add(event{At: m.now, Node: -1, Proved: &f})
	}
}

var moods = [...]string{plain: "plain", good: "good", struck: "struck", bad: "bad"}

// nodeView is what a page shows of a node.
func (m *model) nodeView(i int) nodeView {
	n := &m.nodes[i]
	if n.condition == dead {
		return nodeView{Cut: n.cut}
	}
	f := nodeView{Up: true, Frozen: n.condition == paused, Cut: n.cut, Role: n.role, Leader: n.follows, Term: n.term, Token: uint64(n.token)}
	switch {
	case n.proven != 0 && n.provenEnd > m.now: // its answer may be older than its lease page
		f.Role, f.Leader, f.Token, f.Until = "leader", ids[i], uint64(n.proven), n.provenEnd
	case n.heard < 0:
		f.Role = "starts"
	case !n.founded:
		f.Role = "meets others"
	}
	for k := range m.nodes {
		f.Hears[k] = slices.Contains(n.hears, ids[k])
	}
	return f
}
