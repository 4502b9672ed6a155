package check

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// Which states count as equal, and why that is sound:
//
//   - Readings of a clock and numbers of saves count from the present: see
//     Normalize of package quorum.
//   - The network keeps no order, so that what is in flight is a set in which a
//     message may be more than once.
//   - A message is lost only when there is no room for another. To lose it
//     earlier changes nothing but the room: no judge looks at what is in flight,
//     and whatever can happen without it can happen while it stays where it is.
//     Then any of those in flight may be lost, the new ones among them, so that
//     every message may get lost.
//   - A message whose arrival changes nothing and sends nothing is not
//     delivered: for the same reason, what comes after can come after a state in
//     which it is still in flight.
//   - A message that can make no difference to its receiver any more is not in
//     flight: see Deaf of package quorum.
//   - A node that is down hears nothing; what arrives is lost.
//   - In which of several lives a node is counts only by the incarnation that is
//     on its disk and in its machine.

// budget is what happens a bounded number of times.
type budget uint8

const (
	spentFires budget = iota
	spentWaits
	spentCrashes
	spentDuplicates
	spentHints
	spentWitnesses
	spentFailures
	spentResigns
	spentSaves
	spentTransfers
	spentPauses
	spentChanges
	budgets
)

// state is a state of the world.
type state struct {
	node     [MaxNodes]uint32
	messages [MaxMessages]uint32 // in flight, ordered by hash; 0 is none
	spent    [budgets]uint8
	rate     [MaxNodes]uint8 // of each clock, unless they swing
	elected  uint16          // by term: it has been won
	led      uint8           // mode Timed: the greatest token that was led with
}

// kind is what happened between two states.
type kind uint8

const (
	atFirst kind = iota
	toNode       // an input of a node
	arrived      // a message, which is in flight no more
	copied       // a message, which is in flight still
	ticked       // true time
)

// change is what leads from a state to the next one.
type change struct {
	kind    kind
	node    int
	input   input
	message uint32
	out     *outcome
	inputs  [MaxNodes]input // ticked
}

// succ is a state that follows.
type succ struct {
	state state
	wrong *Violation
}

// expander enumerates what follows from a state, always in the same order.
type expander struct {
	e    *engine
	succ []succ
	how  []change // of each, if asked for
	tell bool
	won  uint8  // the highest term
	cuts uint64 // steps that go beyond the bounds
}

// fingerprint identifies a state, except for collisions.
func (e *engine) fingerprint(s *state) uint64 {
	var h uint64
	for i := range e.w.Nodes {
		h += mix(e.nodes.at(s.node[i]).hash + uint64(s.rate[i]))
	}
	for _, l := range s.messages {
		if l == 0 {
			break
		}
		h += mix(e.messages.at(l).hash)
	}
	x := uint64(s.elected)<<16 | uint64(s.led)<<8
	for i, n := range s.spent {
		x ^= uint64(n) << (8 * uint(i) % 64) * 0x9e3779b97f4a7c15
		x = mix(x + uint64(i))
	}
	h = mix(h ^ mix(x))
	if h == 0 {
		h = 1
	}
	return h
}

// expand finds all that can happen at this instant of true time.
func (x *expander) expand(s *state) {
	e, w := x.e, x.e.w
	x.succ, x.how = x.succ[:0], x.how[:0]
	for j, l := range s.messages {
		if l == 0 {
			break
		}
		if j > 0 && s.messages[j-1] == l {
			continue
		}
		if e.plain {
			x.lose(s, j)
		}
		to := e.messages.at(l).to
		if !e.nodes.at(s.node[to]).up {
			continue
		}
		o := e.step(s.node[to], arrives+input(l))
		if o.nothing {
			continue
		}
		next := *s
		copy(next.messages[j:], s.messages[j+1:])
		next.messages[MaxMessages-1] = 0
		x.both(&next, s.node[to], o, change{kind: arrived, node: to, input: arrives + input(l), message: l})
		if int(s.spent[spentDuplicates]) < w.Duplicates {
			next = *s
			next.spent[spentDuplicates]++
			x.both(&next, s.node[to], o, change{kind: copied, node: to, input: arrives + input(l), message: l})
		}
	}
	for i := range w.Nodes {
		x.local(s, i)
	}
}

// lose adds the state in which a message is lost: only without reductions.
func (x *expander) lose(s *state, j int) {
	next := *s
	copy(next.messages[j:], s.messages[j+1:])
	next.messages[MaxMessages-1] = 0
	x.succ = append(x.succ, succ{next, nil})
}

// local finds what can happen to a node without a message.
func (x *expander) local(s *state, i int) {
	w, n := x.e.w, x.e.nodes.at(s.node[i])
	can := func(b budget, most int) bool { return int(s.spent[b]) < most }
	free := func(in input) { x.input(s, i, in, budgets) }
	if !n.up {
		free(starts)
		if n.disk != 0 && n.orphan == protocol.Always && can(spentWitnesses, w.Witnesses) {
			x.input(s, i, buried, spentWitnesses)
		}
		return
	}
	if len(n.saves) > 0 {
		free(saveDone)
		if len(n.saves) > 1 {
			free(allDone)
		}
		if can(spentFailures, w.Failures) {
			x.input(s, i, saveFails, spentFailures)
		}
	}
	if n.unjoined != 0 {
		free(returns)
	}
	if n.next != protocol.Never && (w.Mode == Async || n.next <= 0) && can(spentFires, w.Fires) {
		x.input(s, i, fires, spentFires)
	}
	if w.Mode == Async && can(spentWaits, w.Waits) {
		x.input(s, i, idles, spentWaits)
	}
	if l := n.view.Leader.ID; l != "" && l != id(i) && can(spentHints, w.Hints) {
		x.input(s, i, hinted, spentHints)
	}
	if n.token != 0 && can(spentResigns, w.Resigns) {
		x.input(s, i, resigns, spentResigns)
	}
	if n.token != 0 && can(spentTransfers, w.Transfers) {
		for to := range w.Nodes {
			if to != i {
				x.input(s, i, moves+input(to), spentTransfers)
			}
		}
	}
	switch {
	case n.paused:
		free(resumes)
	case can(spentPauses, w.Pauses):
		x.input(s, i, pauses, spentPauses)
	}
	if n.token != 0 && can(spentChanges, w.Changes) {
		for k := range w.Memberships {
			x.input(s, i, changes+input(k), spentChanges)
		}
	}
	if can(spentCrashes, w.Crashes) {
		for done := range len(n.saves) + 1 {
			x.input(s, i, crashes+input(done), spentCrashes)
		}
	}
}

// input gives an input to a node.
func (x *expander) input(s *state, i int, in input, b budget) {
	o := x.e.step(s.node[i], in)
	if o.nothing {
		return
	}
	next := *s
	if b < budgets {
		next.spent[b]++
	}
	x.both(&next, s.node[i], o, change{kind: toNode, node: i, input: in})
}

// both follows an outcome in which a save was begun twice: the save takes time, if the budget
// allows it; and it is durable at once.
func (x *expander) both(s *state, node uint32, o *outcome, how change) {
	e := x.e
	if !o.saves {
		next := *s
		how.out = o
		x.follow(&next, how.node, o, how)
		return
	}
	if int(s.spent[spentSaves]) < e.w.Saves {
		next := *s
		next.spent[spentSaves]++
		how.out = o
		x.follow(&next, how.node, o, how)
	}
	how.input |= atOnce
	how.out = e.step(node, how.input)
	next := *s
	x.follow(&next, how.node, how.out, how)
}

// follow adds the states that an outcome leads to: several, if messages have to
// be lost.
func (x *expander) follow(s *state, i int, o *outcome, how change) {
	if o.cut && o.wrong == nil {
		x.cuts++
		return
	}
	e := x.e
	wrong := o.wrong
	s.node[i] = o.node
	if o.elected != 0 {
		if wrong == nil {
			wrong = e.won(s, i, o.elected)
		}
		x.won = max(x.won, o.elected)
		s.elected |= 1 << min(o.elected, 15)
	}
	if o.led != 0 && e.w.Mode == Timed {
		if wrong == nil && o.led <= s.led {
			wrong = &Violation{TokensRise, id(i), fmt.Sprintf("becomes active with token %d after %d", o.led, s.led)}
		}
		s.led = max(s.led, o.led)
	}
	if wrong == nil {
		wrong = e.judge(s)
	}
	if !e.plain {
		e.forget(s, i)
	}
	add := func(s *state) {
		x.succ = append(x.succ, succ{*s, wrong})
		if x.tell {
			x.how = append(x.how, how)
		}
	}
	if len(o.sends) == 0 {
		add(s)
		return
	}
	// All messages, ordered.
	var all [2 * MaxMessages]uint32
	n := 0
	for n < MaxMessages && s.messages[n] != 0 {
		all[n] = s.messages[n]
		n++
	}
	for _, l := range o.sends {
		if !e.plain && e.deaf(s.node[e.messages.at(l).to], l) {
			continue
		}
		if n == len(all) {
			break // more cannot be in flight anyway
		}
		h := e.messages.at(l).hash
		j := n
		for ; j > 0 && e.messages.at(all[j-1]).hash > h; j-- {
			all[j] = all[j-1]
		}
		all[j] = l
		n++
	}
	most := e.w.Messages
	if n <= most {
		copy(s.messages[:], all[:n])
		add(s)
		return
	}
	x.choose(s, all[:n], most, 0, add)
}

// forget drops the messages to a node that can make no difference to it any more.
func (e *engine) forget(s *state, i int) {
	k := 0
	for _, l := range s.messages {
		if l == 0 {
			break
		}
		if e.messages.at(l).to == i && e.deaf(s.node[i], l) {
			continue
		}
		s.messages[k] = l
		k++
	}
	clear(s.messages[k:])
}

// choose adds a state for each way to keep some of the messages.
func (x *expander) choose(s *state, from []uint32, keep, at int, add func(*state)) {
	if keep == 0 {
		for i := at; i < MaxMessages; i++ {
			s.messages[i] = 0
		}
		add(s)
		return
	}
	for i := 0; i+keep <= len(from); i++ {
		if i > 0 && from[i] == from[i-1] {
			continue
		}
		s.messages[at] = from[i]
		x.choose(s, from[i+1:], keep-1, at+1, add)
	}
}

// tick lets a tick of true time pass.
func (x *expander) tick(s *state) {
	x.succ, x.how = x.succ[:0], x.how[:0]
	x.clocks(s, *s, 0, change{kind: ticked})
}

func (x *expander) clocks(s *state, next state, i int, how change) {
	e := x.e
	if i == e.w.Nodes {
		x.succ = append(x.succ, succ{next, e.judge(&next)})
		if x.tell {
			x.how = append(x.how, how)
		}
		return
	}
	rates := e.rates
	first := 0
	if !e.w.Swing {
		first = int(s.rate[i])
		rates = rates[first : first+1]
	}
	for r := range rates {
		in := passes + input(first+r)
		o := e.step(s.node[i], in)
		next.node[i] = o.node
		how.inputs[i] = in
		if o.wrong != nil {
			x.succ = append(x.succ, succ{next, o.wrong})
			if x.tell {
				x.how = append(x.how, how)
			}
			continue
		}
		x.clocks(s, next, i+1, how)
	}
}
