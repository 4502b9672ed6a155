package group

import (
	"encoding/json"
	"fmt"

	"github.com/electd/elect/group/internal/wire"
	machine "github.com/electd/elect/internal/protocol/group"
)

// A key that was moved to a member by name is pinned there: placement does not move it for balance. The pin is part of
// that holding, and ends with it, so that no pin outlives what it was meant for. Like everything about a holding it is
// known by its holder, which tells a later coordinator.

// maxPinned is how many pins are told in one message.
const maxPinned = 1000

// keepPin is called after the holder of a key has changed. The key is pinned on its way to its member, and there.
func (c *coordinator) keepPin(k machine.Key) {
	to, ok := c.pins[k]
	if !ok {
		return
	}
	switch ks, _ := c.machine.Key(k); to {
	case ks.Session.Member:
		if holder := c.connectionOf(ks.Session); holder != nil { // it arrives after the assignment
			holder.link.Send(wire.Packet{Side: pinning(k, true)})
		}
	case ks.Reserved.Member:
	default:
		delete(c.pins, k)
	}
}

// pinning tells the holder of a key that it is pinned, or not any more.
func pinning(k machine.Key, on bool) *wire.Side {
	body, _ := json.Marshal(request{Key: string(k), On: on}) // it never fails
	return &wire.Side{Kind: wire.Call, Method: "pin", Body: body}
}

// tellPins tells a member that has connected anew what is pinned there: it may not have heard of it.
func (c *coordinator) tellPins(to *connection) {
	for k, member := range c.pins {
		if ks, _ := c.machine.Key(k); string(member) == to.member && ks.Session.Member == member {
			to.link.Send(wire.Packet{Side: pinning(k, true)})
		}
	}
}

// pinned takes the word of a holder.
func (c *coordinator) pinned(from *connection, k machine.Key) {
	ks, ok := c.machine.Key(k)
	if _, known := c.pins[k]; ok && !known && from.member != "" && string(ks.Session.Member) == from.member {
		c.pins[k] = ks.Session.Member
		c.plan.dirty(k)
	}
}

// unpin ends the pin of a key, as an operator wants, when its holder knows that: it would tell a later coordinator.
func (c *coordinator) unpin(from *connection, call uint64, q *request) {
	ks, err := c.holder(q)
	to, ok := c.pins[ks.Key]
	if err == nil && !ok {
		err = fmt.Errorf("the key %q is not pinned; want one that was moved to a member by name", q.Key)
	}
	if err != nil {
		c.answer(from, call, err)
		return
	}
	done := func() {
		if c.pins[ks.Key] == to {
			delete(c.pins, ks.Key)
			c.plan.dirty(ks.Key)
		}
	}
	if ks.Session.Member == to {
		c.ask(from, call, ks.Session, pinning(ks.Key, false), done)
		return
	}
	done() // it is on its way there
	c.answer(from, call, nil)
}

// pin notes what the coordinator says. It is called by the loop.
func (m *member) pin(q *request) {
	if t := m.tenures[machine.Key(q.Key)]; t != nil {
		t.pinned = q.On
	}
}

// tellPins tells a coordinator which keys are pinned here.
func (m *member) tellPins(send func(wire.Packet)) {
	var keys []string
	tell := func() {
		if body, err := json.Marshal(request{Keys: keys}); err == nil && len(keys) > 0 {
			send(wire.Packet{Side: &wire.Side{Kind: wire.Call, Method: "pinned", Body: body}})
		}
		keys = keys[:0]
	}
	for k, t := range m.tenures {
		if t.pinned && !t.returned() {
			if keys = append(keys, string(k)); len(keys) == maxPinned {
				tell()
			}
		}
	}
	tell()
}
