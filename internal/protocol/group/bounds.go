package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// What one member may have at a coordinator, whatever it sends. What goes beyond is refused, and nobody else is affected.
const (
	// MaxKeys is how many keys a session wants, and how many it reports as held and as overruns: as many as the largest
	// group has shards. A coordinator needs some 300 bytes for each.
	MaxKeys = 1 << 20
	// MaxSessions is how many sessions one member has at a time. It has one, and those of processes that have died or
	// lost their claims last for a promise.
	MaxSessions = 64
	// MaxProcesses is how many processes of one member a coordinator knows in its tenure: that of three restarts a
	// minute for two weeks, with 100 bytes each.
	MaxProcesses = 1 << 16
	// MaxWaiting is how many bytes of State that one member has left wait for the next holders of its keys: 64 of the
	// greatest size. More than that is dropped, as it is when the coordinator dies.
	MaxWaiting = 64 * MaxState
)

// excess says what of a report is more than a member may have; "" is nothing.
func (c *Coordinator) excess(msg *Message) string {
	for _, l := range []struct {
		n    int
		what string
	}{{len(msg.Wants), "wanted"}, {len(msg.Held), "reported as held"}, {len(msg.Overruns), "reported as overruns"}} {
		if l.n > MaxKeys {
			return fmt.Sprintf("%d keys are %s; want at most %d", l.n, l.what, MaxKeys)
		}
	}
	id := msg.Session
	p := c.processes[lifeOf(id)]
	if n := c.lives[id.Member]; p == nil && n >= MaxProcesses {
		return fmt.Sprintf("%d processes of %s have reported to this coordinator; want at most %d of one member: find out why it starts anew so often, and let another coordinate", n, id.Member, MaxProcesses)
	}
	if p != nil && (p.session != nil || id.Epoch <= p.over) {
		return ""
	}
	first, _ := slices.BinarySearchFunc(c.sessions, id.Member, func(s *session, id protocol.NodeID) int { return strings.Compare(string(s.id.Member), string(id)) })
	n := 0
	for _, s := range c.sessions[first:] {
		if s.id.Member != id.Member {
			break
		}
		n++
	}
	if n >= MaxSessions {
		return fmt.Sprintf("%d processes of %s have sessions; want at most %d: an id of its own for each process", n, id.Member, MaxSessions)
	}
	return ""
}

// knows reports whether a process is known, or can be.
func (c *Coordinator) knows(s Session) bool {
	return c.processes[lifeOf(s)] != nil || c.lives[s.Member] < MaxProcesses
}

// excessOfWish says how many keys a session would want, if that is more than it may; "" is nothing.
func (c *Coordinator) excessOfWish(s *session, msg *Message) string {
	n := s.wants + len(msg.Wants)
	for j := 0; j < len(msg.Wants) && n > MaxKeys; j++ {
		if i, ok := c.keys.find(msg.Wants[j].Key); ok && c.keys.all[i].wantedBy(s) {
			n--
		}
	}
	var gone placeSet
	for j := 0; j < len(msg.Unwants) && n > MaxKeys; j++ {
		if i, ok := c.keys.find(msg.Unwants[j]); ok && !gone.has(i) && c.keys.all[i].wantedBy(s) {
			gone.add(i)
			n--
		}
	}
	if n <= MaxKeys {
		return ""
	}
	return fmt.Sprintf("%d keys are wanted; want at most %d", n, MaxKeys)
}

// state is what the last holder of a key has left for the next one.
type state struct {
	by    protocol.NodeID
	bytes []byte
}

// leave keeps what a holder has left, if that is not too much.
func (ks *keys) leave(i uint32, s state) {
	ks.takeState(i)
	if len(s.bytes) == 0 || len(s.bytes) > MaxState || ks.waiting[s.by]+len(s.bytes) > MaxWaiting {
		return
	}
	if ks.states == nil {
		ks.states, ks.waiting = make(map[uint32]state), make(map[protocol.NodeID]int)
	}
	ks.states[i] = s
	ks.waiting[s.by] += len(s.bytes)
}

// takeState removes what is left for the next holder of a key.
func (ks *keys) takeState(i uint32) []byte {
	s, ok := ks.states[i]
	if !ok {
		return nil
	}
	delete(ks.states, i)
	if ks.waiting[s.by] -= len(s.bytes); ks.waiting[s.by] == 0 {
		delete(ks.waiting, s.by)
	}
	return s.bytes
}

// Waiting is how many bytes of State that a member has left wait for next holders, of [MaxWaiting].
func (c *Coordinator) Waiting(member protocol.NodeID) int { return c.keys.waiting[member] }
