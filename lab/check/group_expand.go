package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol/group"
)

type groupSucc struct {
	state groupState
	wrong *Violation
}

// groupExpander enumerates what follows from a state, always in the same order.
type groupExpander struct {
	e    *groupEngine
	succ []groupSucc
	how  []string // of each, if asked for
	tell bool
	cuts uint64 // steps that go beyond the bounds
}

// first is the beginning: members that want the key, and a coordinator to which the first ones are admitted.
func (x *groupExpander) first() (s groupState, wrong *Violation) {
	e := x.e
	for i := range e.w.Members {
		s.member[i] = e.memberStep(i, 0, groupStart).state
	}
	if e.w.Settled == 0 {
		return s, nil
	}
	took := func() { // the only thing that has just happened
		if n := len(x.succ) - 1; wrong == nil && n >= 0 {
			s, wrong = x.succ[n].state, x.succ[n].wrong
		}
		x.succ = x.succ[:0]
	}
	quiet := func() {
		for busy := true; busy && wrong == nil; {
			busy = false
			for i := range e.w.Settled {
				busy = x.deliverUp(&s, i) || busy
				took()
				busy = x.deliverDown(&s, i) || busy
				took()
			}
		}
	}
	next := s
	next.tenure = 1
	x.begin(&next)
	took()
	for i := range e.w.Settled {
		x.connect(&s, i)
		took()
	}
	quiet()
	x.coordinate(&s, groupCover, "")
	took()
	quiet()
	if wrong == nil && x.cuts > 0 {
		wrong = &Violation{NoPanic, "", "the world cannot begin: its versions of the registry are too few"}
	}
	return s, wrong
}

// begin begins the tenure of a state.
func (x *groupExpander) begin(s *groupState) {
	next, from := *s, uint32(0)
	if x.e.again {
		from, next.older = s.older, s.coordinator
	}
	next.coordinator = from
	x.coordinate(&next, groupStart|groupInput(next.tenure), "tenure %d begins", next.tenure)
}

// connect connects a member with the present coordinator, and no longer with an earlier one.
func (x *groupExpander) connect(s *groupState, i int) {
	next := *s
	if s.conn[i] != 0 {
		x.hangUp(&next, i)
	}
	next.conns[i]++
	next.conn[i] = groupConn(s.tenure, uint8(i), next.conns[i])
	x.coordinate(&next, groupOpened|groupInput(next.conn[i]), "%s connects", id(i))
}

// hangUp closes a member's connection, and loses what is on its way.
func (x *groupExpander) hangUp(s *groupState, i int) {
	s.member[i] = x.e.memberStep(i, s.member[i], groupClosed|groupInput(s.conn[i])).state
	s.conn[i], s.up[i], s.down[i] = 0, [groupQueue]uint32{}, [groupQueue]uint32{}
}

// deliverUp has the coordinator receive a member's next message, if there is one.
func (x *groupExpander) deliverUp(s *groupState, i int) bool {
	l := s.up[i][0]
	if l == 0 || s.conn[i] == 0 || tenureOf(s.conn[i]) != s.tenure {
		return false
	}
	next := *s
	pop(&next.up[i])
	x.coordinate(&next, groupReceive|groupInput(l), "the coordinator receives from %s: %s", id(i), x.text(l))
	return true
}

// deliverDown has a member receive its coordinator's next message, if there is one.
func (x *groupExpander) deliverDown(s *groupState, i int) bool {
	l := s.down[i][0]
	if l == 0 {
		return false
	}
	next := *s
	pop(&next.down[i])
	o := x.e.memberStep(i, s.member[i], groupReceive|groupInput(l))
	msg := &x.e.messages[l].msg
	if msg.Type == group.Answer && o.state != s.member[i] {
		next.by[i] = uint8(msg.Tenure)
	}
	x.member(&next, i, o, "%s receives from tenure %d: %s", id(i), tenureOf(s.conn[i]), x.text(l))
	return true
}

// expand finds all that can happen.
func (x *groupExpander) expand(s *groupState) {
	e, w := x.e, x.e.w
	x.succ, x.how = x.succ[:0], x.how[:0]
	if int(s.tenure) < w.Tenures {
		next := *s
		next.tenure++
		for i := range next.up {
			next.up[i], next.conns[i] = [groupQueue]uint32{}, 0
		}
		x.begin(&next)
	}
	if s.tenure == 0 {
		return
	}
	c := &e.blobs[s.coordinator]
	old := false // somebody's claim is of an earlier coordinator
	for i := range w.Members {
		if s.member[i] != 0 && e.blobs[s.member[i]].live && s.by[i] != s.tenure {
			old = true
		}
	}
	if !c.covered && !old {
		next := *s
		for i := range next.down { // answers of earlier tenures would come too late
			if tenureOf(s.conn[i]) == s.tenure {
				continue
			}
			kept := 0
			for _, l := range s.down[i] {
				if l != 0 && e.messages[l].msg.Type != group.Answer {
					next.down[i][kept] = l
					kept++
				}
			}
			clear(next.down[i][kept:])
		}
		x.coordinate(&next, groupCover, "cover ends by time")
	}
	for i := range w.Members {
		x.of(s, i, c)
	}
}

// of finds what can happen to one member.
func (x *groupExpander) of(s *groupState, i int, c *groupBlob) {
	e, w := x.e, x.e.w
	present := s.conn[i] != 0 && tenureOf(s.conn[i]) == s.tenure
	if s.member[i] == 0 {
		x.coordinate(s, groupDead|groupInput(i), "a witness says that %s is dead", id(i))
		return
	}
	x.deliverUp(s, i)
	x.deliverDown(s, i)
	if !present && s.conns[i] < groupConns {
		x.connect(s, i)
	}
	if present && int(s.cuts) < w.Cuts {
		next := *s
		next.cuts++
		x.hangUp(&next, i)
		x.coordinate(&next, groupClosed|groupInput(s.conn[i]), "the connection of %s is cut", id(i))
	}
	if int(s.kills) < w.Kills {
		next := *s
		next.kills++
		next.member[i], next.conn[i], next.up[i], next.down[i], next.by[i] = 0, 0, [groupQueue]uint32{}, [groupQueue]uint32{}, 0
		if present {
			x.coordinate(&next, groupClosed|groupInput(s.conn[i]), "%s dies", id(i))
		} else {
			x.add(&next, nil, "%s dies", id(i))
		}
	}
	if e.blobs[s.member[i]].live && int(s.lapses) < w.Lapses {
		next := *s
		next.lapses++
		next.by[i] = 0
		x.member(&next, i, e.memberStep(i, s.member[i], groupLapse), "the claim of %s ends", id(i))
	}
	if c.covered && int(s.moves) < w.Moves {
		next := *s
		next.moves++
		x.coordinate(&next, groupMove|groupInput(i), "placement gives the key to %s", id(i))
	}
}

// coordinate gives the coordinator an input.
func (x *groupExpander) coordinate(s *groupState, in groupInput, format string, args ...any) {
	e := x.e
	o := e.coordinatorStep(s.coordinator, in)
	if o.nothing && in&^groupMask != groupReceive && in&^groupMask != groupClosed {
		return
	}
	next := *s
	next.coordinator = o.state
	if o.wrong == nil && e.blobs[o.state].version > uint64(e.w.Versions) {
		x.cuts++
		return
	}
	for _, l := range o.sends {
		i := memberOf(e.messages[l].conn)
		if next.conn[i] == e.messages[l].conn && !push(&next.down[i], l) {
			x.cuts++
			return
		}
	}
	x.add(&next, o.wrong, format, args...)
}

// member follows the outcome of a member's input.
func (x *groupExpander) member(s *groupState, i int, o *groupOutcome, format string, args ...any) {
	e, wrong := x.e, o.wrong
	next := *s
	next.member[i] = o.state
	for _, l := range o.sends {
		if next.conn[i] == e.messages[l].conn && tenureOf(next.conn[i]) == next.tenure && !push(&next.up[i], l) {
			x.cuts++
			return
		}
	}
	for _, t := range o.starts {
		token := uint16(t.Tenure<<8 | min(t.N, 255))
		if wrong == nil && token <= next.last {
			wrong = &Violation{GroupOrdered, id(i), fmt.Sprintf("begins the key under %v, after %d.%d", t, next.last>>8, next.last&255)}
		}
		next.last = max(next.last, token)
	}
	x.add(&next, wrong, format, args...)
}

// add adds a state, and judges it.
func (x *groupExpander) add(s *groupState, wrong *Violation, format string, args ...any) {
	if wrong == nil {
		wrong = x.judge(s)
	}
	x.succ = append(x.succ, groupSucc{*s, wrong})
	if x.tell {
		x.how = append(x.how, fmt.Sprintf(format, args...))
	}
}

func (x *groupExpander) judge(s *groupState) *Violation {
	holder := -1
	for i := range x.e.w.Members {
		if s.member[i] == 0 {
			continue
		}
		m := &x.e.blobs[s.member[i]]
		if m.running && m.live {
			if holder >= 0 {
				return &Violation{GroupOneHolder, id(i), fmt.Sprintf("holds the key, and so does %s", id(holder))}
			}
			holder = i
		}
		if m.vouches == nil {
			continue
		}
		for j := range x.e.w.Members {
			if s.member[j] == 0 {
				continue
			}
			if o := &x.e.blobs[s.member[j]]; o.admitted && o.live && !slices.Contains(m.vouches.Sessions, o.session) {
				return &Violation{GroupVouched, id(i), fmt.Sprintf("would vouch for the registry %d.%d, in which %v is missing", m.vouches.Tenure, m.vouches.Version, o.session)}
			}
		}
	}
	return nil
}

// text is a message in a few words.
func (x *groupExpander) text(l uint32) string {
	if !x.tell {
		return ""
	}
	m := &x.e.messages[l].msg
	var text strings.Builder
	text.WriteString(string(m.Type))
	if m.Session != (group.Session{}) {
		text.WriteString(" " + m.Session.String())
	}
	if m.Admitted {
		text.WriteString(" admitted")
	}
	if m.Acked > 0 {
		text.WriteString(fmt.Sprintf(" acked %d", m.Acked))
	}
	if m.Registry != nil {
		text.WriteString(fmt.Sprintf(" %d.%d%v", m.Registry.Tenure, m.Registry.Version, m.Registry.Sessions))
	}
	for _, h := range m.Held {
		text.WriteString(" " + h.Token.String())
	}
	return text.String()
}

func push(queue *[groupQueue]uint32, l uint32) bool {
	for i := range queue {
		if queue[i] == 0 {
			queue[i] = l
			return true
		}
	}
	return false
}

func pop(queue *[groupQueue]uint32) {
	copy(queue[:], queue[1:])
	queue[groupQueue-1] = 0
}
