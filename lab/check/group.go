package check

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/group"
)

// The greatest bounds of a GroupWorld.
const (
	MaxMembers = 4
	MaxTenures = 3
	groupQueue = 8  // messages on their way, of one connection in one direction
	groupConns = 15 // connections of a member in a tenure
)

// GroupWorld is the object of an exploration of the machines of package group: one key, which all members want, and
// coordinators, each of which begins when E, an abstract election, says so.
//
// No clock runs. Messages of one connection arrive in order, after any time, and are lost with it. A session's claim ends
// when the world says so, which is a lapse, and a promise never does: a session dies by proof only, which is a word of a
// witness or a newer epoch. Cover ends by account, or by time, and that only while each claim that is live was given
// by the present coordinator: an earlier one's would be over.
type GroupWorld struct {
	Members  int `json:"members"`  // 1 to MaxMembers
	Tenures  int `json:"tenures"`  // 1 to MaxTenures
	Versions int `json:"versions"` // of the registry in a tenure: what needs more is left out
	Vouchers int `json:"vouchers"` // 0 is all
	// Settled is how many members, the first ones, are attached to the first coordinator and admitted when the world
	// begins, after its cover, with nothing on its way. 0: no coordinator was there.
	Settled int `json:"settled"`
	// The greatest total number of each event.
	Cuts   int `json:"cuts"`   // a connection with the present coordinator is closed
	Kills  int `json:"kills"`  // a member dies; a witness says so, at any time
	Lapses int `json:"lapses"` // a claim ends, and its session with it
	Moves  int `json:"moves"`  // placement gives the key to a member
	// Mutant is the rule that is switched off, in builds with mutants.
	Mutant string `json:"mutant,omitzero"`
}

// The invariants of groups, with the names that package group has.
const (
	GroupOneHolder Invariant = group.OneHolder // no two members have begun the key under live claims
	GroupVouched   Invariant = group.Vouched   // who may vouch knows every admitted session with a live claim
	GroupOrdered   Invariant = group.Ordered   // the key begins under rising tokens
)

// Validate returns an error if the world is invalid.
func (w *GroupWorld) Validate() error {
	var wrong []string
	in := func(what string, n, least, most int) {
		if n < least || n > most {
			wrong = append(wrong, fmt.Sprintf("%s: %d; want %d to %d", what, n, least, most))
		}
	}
	in("members", w.Members, 1, MaxMembers)
	in("tenures", w.Tenures, 1, MaxTenures)
	in("versions", w.Versions, 1, 15)
	in("vouchers", w.Vouchers, 0, MaxMembers)
	in("settled members", w.Settled, 0, w.Members)
	in("cuts", w.Cuts, 0, groupConns-2)
	in("kills", w.Kills, 0, MaxMembers)
	in("lapses", w.Lapses, 0, 15)
	in("moves", w.Moves, 0, 15)
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	_, err := newGroupEngine(w)
	return err
}

// String describes the world in one line.
func (w *GroupWorld) String() string {
	s := fmt.Sprintf("groups: %d members, %d tenures, %d versions of the registry, %d cuts, %d kills, %d lapses, %d moves", w.Members, w.Tenures, w.Versions, w.Cuts, w.Kills, w.Lapses, w.Moves)
	if w.Settled > 0 {
		s += fmt.Sprintf(", %d settled", w.Settled)
	}
	if w.Vouchers > 0 {
		s += fmt.Sprintf(", %d vouchers", w.Vouchers)
	}
	if w.Mutant != "" {
		s += ", mutant " + w.Mutant
	}
	return s
}

// settings: only the order of instants counts.
func (w *GroupWorld) settings() group.Settings {
	return group.Settings{
		Promise: 3 * time.Second, Cover: 4 * time.Second, Poll: 300 * time.Millisecond, Drain: 200 * time.Millisecond,
		Drift: protocol.DefaultDrift(), Vouchers: w.Vouchers, Bits: 16,
	}
}

// The instants at which coordinators act: tenures begin at groupBegin, and what is received before cover has ended by
// time is received a little later, so that nothing is over when it ends.
const (
	groupBegin = protocol.Instant(1e9)
	groupSoon  = groupBegin + 1e6
)

const groupKey group.Key = "k"

func groupNonce(i int) protocol.Nonce { return protocol.Nonce{uint64(i + 1), 7} }

// groupConn is the n-th connection of a member in a tenure.
func groupConn(tenure, i, n uint8) uint8 { return tenure<<6 | i<<4 | n }

func tenureOf(conn uint8) uint8 { return conn >> 6 }
func memberOf(conn uint8) uint8 { return conn >> 4 & 3 }

// groupState is a state of the world.
type groupState struct {
	coordinator                uint32 // 0: there was none yet
	older                      uint32 // of a mutant: the coordinator before, as it was when it ended
	tenure                     uint8
	member                     [MaxMembers]uint32 // 0: it is dead
	conn                       [MaxMembers]uint8  // 0: it has none
	conns                      [MaxMembers]uint8  // how many it had in this tenure
	by                         [MaxMembers]uint8  // the tenure whose answer its claim is of
	last                       uint16             // the greatest token that was begun
	cuts, kills, lapses, moves uint8
	up, down                   [MaxMembers][groupQueue]uint32 // on their way to the coordinator, and to the member
}

// fingerprint identifies a state, except for collisions. Numbers are given in the order of the exploration, which is
// always the same.
func (s *groupState) fingerprint() uint64 {
	h := mix(mix(uint64(s.coordinator)<<8|uint64(s.tenure)) ^ uint64(s.older))
	add := func(v uint64) { h = mix(h ^ v) }
	for i := range s.member {
		add(uint64(s.member[i])<<32 | uint64(s.conn[i])<<16 | uint64(s.conns[i])<<8 | uint64(s.by[i]))
		for _, queue := range [...]*[groupQueue]uint32{&s.up[i], &s.down[i]} {
			n := uint64(0)
			for _, m := range queue {
				if m == 0 {
					break
				}
				add(uint64(m))
				n++
			}
			add(n << 40)
		}
	}
	add(uint64(s.last)<<32 | uint64(s.cuts)<<24 | uint64(s.kills)<<16 | uint64(s.lapses)<<8 | uint64(s.moves))
	return max(h, 1)
}

// GroupResult is the result of an exploration of a GroupWorld.
type GroupResult struct {
	Progress
	Ending    Ending     `json:"ending"`
	Violation *Violation `json:"violation,omitempty"`
	Story     []string   `json:"story,omitempty"` // what happened on the way to it
}

// ExploreGroup visits all reachable states of a world of groups, breadth first. It uses one core.
func ExploreGroup(w GroupWorld, o Options) (*GroupResult, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	e, err := newGroupEngine(&w)
	if err != nil {
		return nil, err
	}
	x := &groupExpander{e: e}
	var all seen
	var parents []uint32
	var ways []uint16
	r := &GroupResult{}
	first, wrong := x.first()
	if wrong != nil {
		return &GroupResult{Ending: Violated, Violation: wrong}, nil
	}
	queue := []groupState{first}
	all.add(first.fingerprint())
	parents, ways = append(parents, root), append(ways, 0)
	head, layer := uint32(0), uint32(1) // the number of the first state in the queue, and of the first of the next depth
	look := func() bool {
		r.States, r.Queue = uint64(len(parents)), uint64(len(queue))
		r.NodeStates, r.Messages, r.NodeSteps, r.Cut = len(e.blobs), len(e.messages), len(e.outcomes), x.cuts
		r.Bytes = uint64(len(all.slots))*8 + uint64(cap(queue))*300 + uint64(cap(parents))*6 + e.bytes
		return o.Look == nil || o.Look(r.Progress)
	}
	r.Ending = Exhausted
	for ; len(queue) > 0; head++ {
		if head == layer {
			r.Depth++
			layer = uint32(len(parents))
		}
		if head%4096 == 0 {
			if !look() {
				r.Ending = Stopped
				break
			}
			if o.Limit > 0 && r.States >= o.Limit || o.Memory > 0 && r.Bytes >= o.Memory {
				r.Ending = Bounded
				break
			}
		}
		s := queue[0]
		queue = queue[1:]
		x.expand(&s)
		for j := range x.succ {
			n := &x.succ[j]
			r.Steps++
			if n.wrong != nil {
				r.Ending, r.Violation = Violated, n.wrong
				r.Story = x.story(first, parents, ways, head, uint16(j))
				look()
				return r, nil
			}
			if all.add(n.state.fingerprint()) {
				queue = append(queue, n.state)
				parents, ways = append(parents, head), append(ways, uint16(j))
				r.Won = max(r.Won, int(n.state.tenure))
			}
		}
	}
	look()
	return r, nil
}

// story tells how a violation is reached.
func (x *groupExpander) story(first groupState, parents []uint32, ways []uint16, at uint32, last uint16) []string {
	path := []uint16{last}
	for ; parents[at] != root; at = parents[at] {
		path = append(path, ways[at])
	}
	x.tell = true
	var told []string
	s := first
	for i := len(path) - 1; i >= 0; i-- {
		x.expand(&s)
		told = append(told, x.how[path[i]])
		s = x.succ[path[i]].state
	}
	return told
}
