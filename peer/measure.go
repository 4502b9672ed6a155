package peer

import (
	"slices"
	"time"

	"github.com/electd/elect/driver"
)

// Measure implements [driver.Measurer].
func (n *Node) Measure() driver.Measurements {
	s := n.Status()
	m := driver.Measurements{
		Voters: s.Plan.Voters, Quorum: s.Plan.Quorum, QuorumContact: quorumContact(&s),
		ClockSteps: s.Counters.ClockJumps, Pauses: s.Counters.Pauses, LongestPause: s.Counters.LongestPause,
		Saves: s.Counters.Saves, SlowestSave: s.Counters.SaveSlowest,
	}
	for _, p := range s.Peers {
		m.Peers = append(m.Peers, driver.PeerMeasurements{ID: p.ID, Up: p.Connected, RoundTrip: p.RTT, Sent: p.Sent, Received: p.Received, Dropped: p.Dropped})
	}
	return m
}

// quorumContact returns how long ago a node last heard a quorum of the voters, itself included if it is a voter; it is
// negative if it never did.
func quorumContact(s *NodeStatus) time.Duration {
	var heard []time.Duration
	for _, v := range s.Voters {
		if v == s.ID {
			heard = append(heard, 0)
		} else if i := slices.IndexFunc(s.Peers, func(p PeerStatus) bool { return p.ID == v }); i >= 0 && s.Peers[i].LastContact >= 0 {
			heard = append(heard, s.Peers[i].LastContact)
		}
	}
	if s.Plan.Quorum < 1 || len(heard) < s.Plan.Quorum {
		return -1
	}
	slices.Sort(heard)
	return heard[s.Plan.Quorum-1]
}
