package play

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// moment is a moment of a run: an event, or the last event at Time or before.
type moment struct {
	Event *uint64   `json:"event"`
	Time  *sim.Time `json:"time"`
}

// event returns the number of the event at a moment.
func (r *run) event(a moment) (uint64, error) {
	switch {
	case a.Event != nil && a.Time == nil:
		return *a.Event, nil
	case a.Time != nil && a.Event == nil:
		i, _ := slices.BinarySearchFunc(r.lines, *a.Time, func(l line, t sim.Time) int {
			if l.at <= t {
				return -1
			}
			return 1
		})
		if i == 0 {
			return 0, nil
		}
		return r.lines[i-1].event, nil
	}
	return 0, fmt.Errorf("want event or time, and not both")
}

// State is the world after an event.
type State struct {
	Event  uint64   `json:"event"`
	At     sim.Time `json:"at"` // of the event, or the time that was asked for
	Over   bool     `json:"over"`
	Nodes  []Node   `json:"nodes"`
	Links  []Link   `json:"links"`  // those that differ from what the schedule's noise alone makes
	Flying []Letter `json:"flying"` // on their way
	// Token is the greatest token that the guarded resource has accepted.
	Token uint64 `json:"token"`
	Ops   []int  `json:"ops"` // indices in the schedule, of those that go on, in the order of their beginning
}

// Node is one process.
type Node struct {
	ID       protocol.NodeID `json:"id"`
	Place    int             `json:"place"`
	Observer bool            `json:"observer,omitempty"`
	Up       bool            `json:"up"`
	// Unknown: the trace has nothing of it until then.
	Unknown bool            `json:"unknown,omitempty"`
	Frozen  bool            `json:"frozen,omitempty"`
	Waiting int             `json:"waiting,omitempty"` // messages that it has not read, because it is frozen
	Sick    bool            `json:"sick,omitempty"`
	Paused  bool            `json:"paused,omitempty"`
	Idle    bool            `json:"idle,omitempty"` // it is no candidate
	Role    string          `json:"role"`
	Term    uint64          `json:"term,omitempty"`
	Leader  protocol.NodeID `json:"leader,omitempty"`
	Elected bool            `json:"elected,omitempty"`
	Token   uint64          `json:"token,omitempty"`
	// Proven is the answer of Term.Check, and Left for how much longer it holds, by the node's
	// clock.
	Proven bool          `json:"proven,omitempty"`
	Left   time.Duration `json:"left,omitempty"`
	// Lease is how long the proof was when it was last made longer, and Timer how long the wait for Next was when it began.
	Lease time.Duration `json:"lease,omitempty"`
	Timer time.Duration `json:"timer,omitempty"`
	// Next is the true time at which its machine wants to be called; 0 is never.
	Next sim.Time `json:"next,omitempty"`
	// Clock is how far its clock is ahead of one that has always run right. Rate is by how many parts
	// per million the clock is fast.
	Clock time.Duration  `json:"clock"`
	Rate  int64          `json:"rate,omitempty"`
	Votes []int          `json:"votes,omitempty"` // places of the nodes that have granted it their vote in its present term
	Fault string         `json:"fault,omitempty"`
	View  *protocol.View `json:"view,omitempty"`
}

// Link is a link in one direction.
type Link struct {
	From    int           `json:"from"`
	To      int           `json:"to"`
	Cut     bool          `json:"cut,omitempty"`
	Clogged bool          `json:"clogged,omitempty"`
	Loss    float64       `json:"loss,omitempty"`
	Slow    time.Duration `json:"slow,omitempty"`
}

// Letter is a message between participants, or a request to the store with its answer.
type Letter struct {
	Number   int      `json:"number"`
	From     int      `json:"from"` // a place
	To       int      `json:"to"`   // a place; -1 is the store
	Type     string   `json:"type"`
	Term     uint64   `json:"term,omitempty"`
	Sent     sim.Time `json:"sent"`
	Arrived  sim.Time `json:"arrived"` // or when it was lost; 0: on its way, or not known
	Lost     bool     `json:"lost,omitempty"`
	Routine  bool     `json:"routine,omitempty"`
	Sender   int      `json:"sender"`             // the line of the step that sent it
	Receiver int      `json:"receiver,omitempty"` // the line of its receipt; 0 is none
}

func (r *run) letter(i int) Letter {
	l := &r.all[i]
	return Letter{
		Number: i, From: int(l.from), To: int(l.to), Type: r.types[l.kind], Term: l.term, Sent: l.sent, Arrived: l.arrived,
		Lost: l.lost, Routine: l.routine, Sender: int(l.sender), Receiver: int(l.receiver),
	}
}

// state returns the world after an event.
func (p *Player) state(a *moment) (any, error) {
	if p.run == nil {
		return nil, errNone
	}
	return p.run.state(*a)
}

// keep keeps the present run beside those that were kept before.
func (p *Player) keep(*struct{}) (any, error) {
	switch {
	case p.run == nil:
		return nil, errNone
	case len(p.kept) == MaxKept:
		return nil, fmt.Errorf("%d runs are kept; want no more", MaxKept)
	}
	p.kept, p.run = append(p.kept, p.run), nil
	return len(p.kept), nil
}

// states returns the worlds of the kept runs at one moment, in the order of keeping. A run that was over before is as it
// was then.
func (p *Player) states(a *moment) (any, error) {
	all := []*State{}
	for _, r := range p.kept {
		s, err := r.state(*a)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (r *run) state(a moment) (*State, error) {
	event, err := r.event(a)
	if err != nil {
		return nil, err
	}
	s := &State{Event: event, Nodes: []Node{}, Links: []Link{}, Flying: []Letter{}, Ops: []int{}}
	if r.tape != nil {
		if err := r.tape.look(r, event, s); err != nil {
			return nil, err
		}
	} else if err := r.history.Visit(event, func(w *sim.World) {
		s.At, s.Over, s.Token = w.Now(), w.Over(), w.Resource()
		all := w.AppendProcesses(nil)
		for i := range all {
			n := nodeOf(&all[i], s.At)
			if n.Up {
				n.Clock = r.ahead(n.ID, all[i].Reading, s.At)
			}
			s.Nodes = append(s.Nodes, n)
		}
		for from := range all {
			for to := range all {
				if l, ok := w.Link(from, to); ok && (l.Cut || l.Clogged || l.Slow > 0 || l.Loss > r.schedule.Links.Loss) {
					s.Links = append(s.Links, Link{from, to, l.Cut, l.Clogged, l.Loss, l.Slow})
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	if a.Time != nil {
		s.At = max(s.At, min(*a.Time, r.now))
	}
	for i := range r.marks {
		if m := &r.marks[i]; m.Op >= 0 && m.From <= s.At && (m.Until == 0 || s.At < m.Until) {
			s.Ops = append(s.Ops, m.Op)
		}
	}
	s.Flying = r.flyingAt(s.At, s.Nodes)
	r.votes(s)
	return s, nil
}

// ahead is how far a clock is ahead of one that has always run right, and began where this one did.
func (r *run) ahead(id protocol.NodeID, shows protocol.Reading, now sim.Time) time.Duration {
	off := time.Duration(shows.Boot) - time.Duration(now)
	if i := r.place(id); i < len(r.schedule.Clocks) { // of a twin: the place of the node whose computer it is on
		off -= r.schedule.Clocks[i].Zero
	}
	return off
}

func nodeOf(n *sim.ProcessState, now sim.Time) Node {
	v := &n.View
	s := Node{
		ID: n.Node, Place: n.Place, Observer: n.Observer, Up: n.Up, Frozen: n.Frozen, Waiting: n.Waiting, Sick: n.Sick,
		Paused: n.Paused, Idle: n.Idle, Role: protocol.Down.String(), Rate: n.Rate,
	}
	if !n.Up {
		return s
	}
	s.shows(v)
	if s.Next = n.Next; n.Next > 0 {
		s.Timer = time.Duration(n.Next - n.Armed)
	}
	if s.Proven = v.Proven(n.Reading); s.Proven && v.LeaseEnd != protocol.Never {
		s.Left, s.Lease = v.LeaseEnd.Sub(n.Reading.Boot), n.Lease
	}
	return s
}

// shows is what an observer sees of its process.
func (n *Node) shows(v *protocol.View) {
	n.Role, n.Term, n.Leader, n.Elected, n.Token, n.Fault, n.View = v.Role.String(), v.Term, v.Leader.ID, v.Elected, v.Token, v.Fault, v
}

// forgotten is how long a letter whose fate is not known is shown.
func (r *run) forgotten() sim.Time {
	l := &r.schedule.Links
	return sim.Time(2*l.Delay + 20*l.Jitter + time.Millisecond)
}

// flyingAt returns the letters that are on their way at a time, without those that wait at a frozen
// process: Node.Waiting counts them.
func (r *run) flyingAt(t sim.Time, nodes []Node) []Letter {
	const most = 400
	all := []Letter{}
	i, _ := slices.BinarySearchFunc(r.all, t, func(l letter, t sim.Time) int {
		if l.sent <= t {
			return -1
		}
		return 1
	})
	frozen := map[int16]bool{}
	for k := range nodes {
		frozen[int16(nodes[k].Place)] = nodes[k].Frozen
	}
	// A letter that is on its way for longer than this waits in front of a cut link or a frozen
	// process.
	oldest := t - sim.Time(10*time.Second)
	forgotten := r.forgotten()
	for i--; i >= 0 && r.all[i].sent >= oldest && len(all) < most; i-- {
		l := &r.all[i]
		if l.arrived != 0 && l.arrived <= t || t > l.sent+forgotten && (l.arrived == 0 || frozen[l.to]) {
			continue
		}
		all = append(all, r.letter(i))
	}
	slices.Reverse(all)
	return all
}

// votes finds the votes of the candidates in their present terms.
func (r *run) votes(s *State) {
	if r.protocol.Grants == nil {
		return
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Up && (n.Role == protocol.Candidate.String() || n.Elected) {
			for _, g := range r.grants {
				if g.at <= s.At && g.term == n.Term && int(g.to) == n.Place && !slices.Contains(n.Votes, int(g.from)) {
					n.Votes = append(n.Votes, int(g.from))
				}
			}
			slices.Sort(n.Votes)
		}
	}
}

// grant is a vote that has arrived.
type grant struct {
	at       sim.Time
	from, to int16
	term     uint64
}

type lettersParams struct {
	From sim.Time `json:"from"` // those that were sent from then on,
	To   sim.Time `json:"to"`   // until then
	// Routine includes heartbeats. Most bounds the answer; 0 is 2,000.
	Routine bool `json:"routine"`
	Most    int  `json:"most"`
}

// letters lists the letters that were sent in a time, in the order of sending.
func (p *Player) letters(a *lettersParams) (any, error) {
	r := p.run
	if r == nil {
		return nil, errNone
	}
	most := cmp.Or(a.Most, 2000)
	first, _ := slices.BinarySearchFunc(r.all, a.From, func(l letter, t sim.Time) int {
		if l.sent < t {
			return -1
		}
		return 1
	})
	all, left := []Letter{}, 0
	for i := first; i < len(r.all) && r.all[i].sent < a.To; i++ {
		switch {
		case r.all[i].routine && !a.Routine:
		case len(all) >= most:
			left++
		default:
			all = append(all, r.letter(i))
		}
	}
	return map[string]any{"letters": all, "left": left}, nil
}
