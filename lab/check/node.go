package check

import (
	"math/bits"

	"github.com/electd/elect/internal/protocol"
)

// node is a state of one node: its machine, its disk, the state of its driver, and what the checks
// have to remember. It is immutable, has a number, and is identified by its content.
type node struct {
	place int
	up    bool
	state uint32 // of the machine; 0 while it is down
	disk  uint32 // what is durable; 0 is nothing

	saves []pending // asked for, not durable yet
	wait  []waiting // messages that wait for them

	// What it was told.
	token     uint64 // elected, and not told to stop
	unjoined  uint64 // told to stop, and its work has not returned
	lastToken uint64
	led       bool // told to lead with token
	lapsed    bool // and the lease has not been proven at some time since
	work      bool // a work was begun and has not returned
	paused    bool

	// The end of the work's permission, on this node's clock, of which now is 0; and the work of an
	// earlier incarnation, which outlives its process. Always is none.
	until, orphan protocol.Instant

	// votes are all that were ever durable, by term: 1 + the place of the candidate.
	votes [MaxTerms + 1]uint8

	// Derived from the machine's state.
	view        protocol.View
	next        protocol.Instant     // NextFire
	membership  uint16               // the voters, by place
	ms, durable *protocol.Membership // in mind, and on disk
	held        protocol.ConfigID    // the membership on disk
	hash        uint64
}

type pending struct {
	number uint64
	data   uint32
}

type waiting struct {
	after   uint64
	to      int
	message uint32
}

// message is a message that is on its way, or waits to be.
type message struct {
	from, to int
	msg      protocol.Message
	hash     uint64
	ms       protocol.ConfigID // that it carries
}

// encode appends everything that distinguishes nodes.
func (n *node) encode(dst []byte, e *engine) []byte {
	u := protocol.AppendUint
	dst = append(dst, byte(n.place))
	dst = protocol.AppendBool(dst, n.up)
	for _, blob := range [...]uint32{n.state, n.disk} {
		dst = e.appendSum(dst, blob)
	}
	dst = u(dst, uint64(len(n.saves)))
	for _, p := range n.saves {
		dst = e.appendSum(u(dst, p.number), p.data)
	}
	dst = u(dst, uint64(len(n.wait)))
	for _, w := range n.wait {
		dst = u(u(dst, w.after), e.messages.at(w.message).hash)
	}
	dst = u(u(u(dst, n.token), n.unjoined), n.lastToken)
	for _, b := range [...]bool{n.led, n.lapsed, n.work, n.paused} {
		dst = protocol.AppendBool(dst, b)
	}
	dst = protocol.AppendInstant(protocol.AppendInstant(dst, n.until), n.orphan)
	return append(dst, n.votes[:]...)
}

func ones(set uint16) int { return bits.OnesCount16(set) }

// placeOf is the place of the node with an id, or -1.
func placeOf(id protocol.NodeID) int {
	if len(id) == 2 && id[0] == 'n' && id[1] > '0' && id[1] <= '9' {
		return int(id[1] - '1')
	}
	return -1
}
