package groupbench

import (
	"fmt"
	"slices"
	"time"
)

// Kind is what is brought about in a round.
type Kind string

// The kinds.
const (
	Member      Kind = "member"      // SIGKILL to the program of a member that does not coordinate
	Power       Kind = "power"       // SIGKILL to all processes of such a member, as if its machine had died
	Coordinator Kind = "coordinator" // SIGKILL to the program that coordinates
	Leave       Kind = "leave"       // a member leaves in good order
	Move        Kind = "move"        // single keys are moved, or given up
	Joins       Kind = "joins"       // one more member joins
)

func kinds() []Kind { return []Kind{Member, Power, Coordinator, Leave, Move, Joins} }

// of reports whether the kind is one of a system: shards have keepers, and are moved for balance.
func (k Kind) of(s *System) bool {
	switch k {
	case Power, Joins:
		return s.Use == Shards
	case Coordinator:
		return s.Group
	}
	return true
}

// ofNode is an event at a node.
type ofNode struct {
	event
	node int
}

// addLog adds what a node has recorded.
func addLog(all []ofNode, node int, log []byte) ([]ofNode, error) {
	events, err := decode(log)
	for _, e := range events {
		all = append(all, ofNode{e, node})
	}
	return all, err
}

// state is what is known of a key.
type state struct {
	node  int // that leads it, if led
	led   bool
	token uint64 // the greatest so far
	ended int64  // when its last term ended; 0: it was killed, or there was none
}

// mine are the keys that a node leads.
func (s *setup) mine(node int) map[int32]bool {
	all := map[int32]bool{}
	for key := range s.state {
		if st := &s.state[key]; st.led && st.node == node {
			all[int32(key)] = true
		}
	}
	return all
}

// killed notes that a node tells nothing any more.
func (s *setup) killed(node int) {
	for key := range s.state {
		if st := &s.state[key]; st.led && st.node == node {
			st.led, st.ended = false, 0
		}
	}
}

// judge takes events into what is known, and finds two leaders at once and tokens that do not rise. The end of a term
// that was lost is recorded when its work is told, and so is no overlap: the claim was over before.
func (s *setup) judge(events []ofNode) {
	slices.SortStableFunc(events, func(a, b ofNode) int { return byTime(a.event, b.event) })
	for _, e := range events {
		st := &s.state[e.Key]
		switch {
		case e.Ended:
			if st.led && st.node == e.node && st.token == e.Token {
				st.led, st.ended = false, e.At
			}
			continue
		case st.led && !s.loses(events, st, &e):
			s.result.found("key %d: n%d began with token %d while n%d led with token %d", e.Key, e.node+1, e.Token, st.node+1, st.token)
		}
		if e.Token <= st.token {
			s.result.found("key %d: n%d began with token %d after token %d", e.Key, e.node+1, e.Token, st.token)
		}
		st.led, st.node, st.token = true, e.node, max(st.token, e.Token)
	}
}

// loses reports whether the term that seems to go on at a begin is one that was lost.
func (s *setup) loses(events []ofNode, st *state, e *ofNode) bool {
	return slices.ContainsFunc(events, func(o ofNode) bool {
		return o.Ended && o.Lost && o.Key == e.Key && o.node == st.node && o.Token == st.token
	})
}

// gaps are how long keys were without a leader: from an instant, or from the end of the term before where there was one.
func gaps(events []ofNode, keys map[int32]bool, from time.Duration) (all []time.Duration) {
	ended, seen := map[int32]int64{}, map[int32]bool{}
	slices.SortStableFunc(events, func(a, b ofNode) int { return byTime(a.event, b.event) })
	for _, e := range events {
		if !keys[e.Key] || seen[e.Key] {
			continue
		}
		if e.Ended {
			ended[e.Key] = e.At
			continue
		}
		at, ok := ended[e.Key]
		if !ok {
			at = int64(from)
		}
		seen[e.Key] = true
		all = append(all, time.Duration(e.At-at))
	}
	slices.Sort(all)
	return all
}

// interrupted are terms of other keys that have ended.
func interrupted(events []ofNode, keys map[int32]bool) (n int) {
	for _, e := range events {
		if e.Ended && !keys[e.Key] {
			n++
		}
	}
	return n
}

func (r *Result) found(format string, args ...any) {
	const most = 20
	if len(r.Violations) < most {
		r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
	}
}
