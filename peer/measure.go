package peer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
)

// Measure implements [driver.Measurer].
func (n *Node) Measure() driver.Measurements {
	s := n.Status()
	m := driver.Measurements{
		Renewals: n.run.Counters().Renewals,
		Voters:   s.Plan.Voters, Quorum: s.Plan.Quorum, QuorumContact: quorumContact(&s),
		ClockSteps: s.Counters.ClockJumps, Pauses: s.Counters.Pauses, LongestPause: s.Counters.LongestPause,
		Saves: n.run.Saves(), Membership: s.Membership.name(),
	}
	for _, p := range s.Peers {
		m.Peers = append(m.Peers, driver.PeerMeasurements{
			ID: p.ID, Up: p.Connected, RoundTrip: p.RTT, Sent: p.Sent, Received: p.Received, Dropped: p.Dropped, Voter: s.Membership.answers(p.ID),
		})
	}
	return m
}

// name is the same for those who know the same membership. A founding gives voters with the ids of another one's other
// directories.
func (m *MembershipStatus) name() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(m.id().String())
	for _, v := range m.Voters {
		fmt.Fprintf(&b, " %q %s", v.ID, v.Dir)
	}
	for _, o := range m.Observers {
		fmt.Fprintf(&b, " %q", o.ID)
	}
	return b.String()
}

// answers is what the leader knows of a voter that has answered it; otherwise nil.
func (m *MembershipStatus) answers(id string) *driver.VoterMeasurements {
	if m == nil {
		return nil
	}
	i := slices.IndexFunc(m.Voters, func(v VoterStatus) bool { return v.ID == id })
	if i < 0 || m.Voters[i].Lag < 0 {
		return nil
	}
	return &driver.VoterMeasurements{Lag: m.Voters[i].Lag, Apart: m.Voters[i].Apart}
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
