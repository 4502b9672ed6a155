package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// heard is the leader that was heard last, for stickiness (R2), for the distinction of new
// heartbeats from old ones (R7), and for the view.
type heard struct {
	leader      protocol.Voter
	incarnation uint64
	term        uint64
	seq         uint64
	asked       time.Duration    // the promise asked for by heartbeat seq
	at          protocol.Instant // of the latest new heartbeat that asked for a promise, or Always
	contact     protocol.Instant // of the latest heartbeat of any kind, or Always once it is taken for gone
	closed      bool             // its last connection has been closed since at
}

func (h *heard) forget() { *h = heard{at: protocol.Always, contact: protocol.Always} }

func (h *heard) is(leader protocol.Voter, incarnation uint64) bool {
	return h.incarnation == incarnation && h.leader == leader
}

func (h *heard) leadership() protocol.Leadership {
	return protocol.Leadership{ID: h.leader.ID, Incarnation: h.incarnation, Term: h.term}
}

// sticky is how long the voter will refuse to replace the leader that it hears (R2). A leader is no
// obstacle to itself. A hint lifts it: this voter itself saw the leader close its last connection.
// The election may begin at once, because activation waits for the promises anyway.
func (m *Machine) sticky(candidate protocol.Voter) time.Duration {
	h := &m.heard
	if h.at == protocol.Always || h.closed || h.leader == candidate || m.cfg.mutants.Has("no-sticky") {
		return 0
	}
	return left(h.at.Add(m.cfg.Promise), m.now.Boot)
}

// onClosed handles the hint.
func (m *Machine) onClosed(from protocol.NodeID, incarnation uint64) {
	h := &m.heard
	if h.leader.ID != from || h.incarnation != incarnation || h.at == protocol.Always || h.closed {
		return
	}
	h.closed = true
	m.hurry(Closed)
}
