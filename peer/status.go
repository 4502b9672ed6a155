package peer

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/link"
)

// Event is a change of leadership as a node saw it, or its pause or resumption, with the token of the last leader and a
// reason that names who asked.
type Event struct {
	At     time.Time   `json:"at"`               // by the wall clock of the node
	Event  string      `json:"event"`            // elected, active, lost, follows, paused or resumed
	Leader string      `json:"leader"`           // the leader that it is about
	Token  fence.Token `json:"token"`            // of the leader; 0 if it is not known
	Reason string      `json:"reason,omitempty"` // for people
}

// NodeStatus is a node's report of itself. Its form in JSON is stable: fields are added, and never renamed or removed.
// Times are by the node's own wall clock, in RFC 3339, and durations in nanoseconds.
type NodeStatus struct {
	ID       string `json:"id"`
	Cluster  string `json:"cluster"`
	Election string `json:"election"`
	Program  string `json:"program,omitempty"`
	Protocol string `json:"protocol"`
	// Role is observer, follower, pre-candidate, candidate, leader, fencing or halted; down before the founding.
	Role string `json:"role"`
	// Founded means that every voter's directory is known to all voters, or that this node has joined.
	Founded bool `json:"founded"`
	// Join means that it was started to be added, and Observes that its configuration lists it as an observer.
	Join     bool `json:"join,omitempty"`
	Observes bool `json:"observes,omitempty"`
	// Dir is the identity of its data directory.
	Dir string `json:"dir"`
	// Membership is the newest that it knows; null before the founding.
	Membership *MembershipStatus `json:"membership"`
	Term       uint64            `json:"term"`
	// Incarnation rises with each start on its directory.
	Incarnation uint64    `json:"incarnation"`
	Started     time.Time `json:"started,omitzero"`

	// Leader, Stale and Cause are as in [driver.State].
	Leader *driver.Leader `json:"leader"`
	Stale  bool           `json:"stale,omitempty"`
	Cause  string         `json:"cause,omitempty"`

	// Token is the node's own while it is elected. Active means that its lease is proven, for LeaseLeft without another
	// renewal.
	Token     fence.Token   `json:"token,omitzero"`
	Active    bool          `json:"active"`
	LeaseLeft time.Duration `json:"lease_left_ns"`
	// Owes is how much longer a promise from before its start, or before its machine slept, may bind the node. A leader
	// that needs its vote may have to wait as long.
	Owes time.Duration `json:"owes_ns"`

	// DiskIll is for how long no write to its disk has succeeded within a second; 0, omitted, if it is well.
	DiskIll time.Duration `json:"disk_ill_ns,omitzero"`
	// Paused means that it votes and does not stand, see [Node.Pause].
	Paused bool `json:"paused,omitempty"`
	// Priority is the node's: 1 to 1000, or -1 for never; 0, omitted, if the protocol knows no priorities.
	Priority int `json:"priority,omitzero"`
	// PositionPolicy is as Config.Position. Position is the node's own when it was last located.
	PositionPolicy string `json:"position_policy"`
	Position       string `json:"position,omitempty"`

	// Certificate is the node's own; nil without certificates.
	Certificate *CertificateStatus `json:"certificate,omitempty"`

	// Plan is for the present voters.
	Plan Plan `json:"plan"`
	// Voters and Observers are those of Membership, or of the configuration before the founding.
	Voters    []string `json:"voters"`
	Observers []string `json:"observers,omitempty"`
	// Peers are the other nodes, as this node's connections show them.
	Peers    []PeerStatus `json:"peers"`
	Counters Counters     `json:"counters"`
}

// Ready reports whether the node could help the next leader as if it had never been away: it is in a founded election,
// owes no promise, knows the leader, has a disk that is well, and is connected with a majority of the voters, itself
// included.
func (s *NodeStatus) Ready() bool {
	if !s.Founded || s.Owes > 0 || s.Leader == nil || s.Stale || s.DiskIll >= asideAfter {
		return false
	}
	with := 0
	for _, v := range s.Voters {
		if v == s.ID || slices.ContainsFunc(s.Peers, func(p PeerStatus) bool { return p.ID == v && p.Connected }) {
			with++
		}
	}
	return with > len(s.Voters)/2
}

// Status returns this node's report of itself.
func (n *Node) Status() NodeStatus {
	ms, c, peers := n.membership.Load(), n.run.Counters(), n.contacts.Peers()
	s := NodeStatus{
		ID: string(n.cfg.ID), Cluster: n.cfg.Cluster, Election: n.cfg.Name, Program: n.cfg.Program, Protocol: n.dialect.protocol(),
		Role: protocol.Down.String(), Founded: ms != nil, Incarnation: n.run.Incarnation(), Started: n.started,
		Paused: n.pausing.isPaused(), Priority: cmp.Or(int(n.priority.Load()), driver.DefaultPriority),
		PositionPolicy: string(n.cfg.policy()), Position: n.locator.position(),
		Plan: n.Plan(), Voters: texts(ids(n.membership.voters())), Observers: texts(ids(n.membership.observers())),
		Join: n.cfg.Join, Observes: n.cfg.observer(), Dir: n.self.Dir.String(),
		Peers: make([]PeerStatus, 0, len(peers)), Certificate: certificateStatus(n.tls),
		Counters: Counters{
			Elections: c.Elections, Saves: c.Saves, SaveSlowest: c.SaveSlowest, ClockJumps: c.ClockJumps, Pauses: c.Pauses, LongestPause: c.LongestPause,
		},
	}
	if r := n.recorder.Load(); r != nil {
		s.Counters.FlightGaps = r.Gaps()
	}
	if n.dialect.lacks(priorities) != nil {
		s.Priority = 0
	}
	state, version, _, _ := n.run.States().Get()
	if version == 0 {
		state = driver.State{Stale: true, Cause: errors.New("this node has just started and has not heard from the others yet")}
	}
	if s.Leader, s.Stale = state.Leader, state.Stale; state.Cause != nil {
		s.Cause = state.Cause.Error()
	}
	s.DiskIll, _ = n.run.Illness()
	now := n.run.Now()
	if v := n.run.Seen(); v != nil {
		s.Term, s.Active, s.Owes = v.Term, v.Active, max(v.OwesUntil.Sub(now.Boot), 0)
		if v.Role != 0 {
			s.Role = v.Role.String()
		}
		if v.Elected {
			s.Token = n.run.Token(v.Token)
		}
		if v.Proven(now) {
			s.LeaseLeft = v.LeaseEnd.Sub(now.Boot)
		}
	}
	for _, p := range peers {
		s.Peers = append(s.Peers, peerStatus(&p, clock.Now()))
	}
	s.Membership = n.membership.status(n.run)
	return s
}

// CertificateStatus describes the certificate of a node or a client. Its form in JSON is stable, as that of
// [NodeStatus].
type CertificateStatus struct {
	Expires time.Time `json:"expires"`
	// AuthorityExpires is when the authority of the certificate ends, and the certificate with it.
	AuthorityExpires time.Time `json:"authority_expires"`
	// Authority is the beginning of the authority's key identifier.
	Authority string `json:"authority"`
	// Warnings are what an operator should mend.
	Warnings []string `json:"warnings,omitempty"`
}

func certificateStatus(id *certs.Identity) *CertificateStatus {
	if id == nil {
		return nil
	}
	return &CertificateStatus{Expires: id.Expires().UTC(), AuthorityExpires: id.AuthorityExpires().UTC(), Authority: id.Authority(), Warnings: id.Warnings()}
}

func peerStatus(p *link.PeerInfo, now clock.Boot) PeerStatus {
	s := PeerStatus{
		ID: string(p.ID), Addr: p.Addr, Connected: p.Connected, RTT: p.RTT, LastContact: -1, Program: p.Program, Speaks: p.Speaks,
		Sent: p.Sent, Received: p.Received, Dropped: p.Dropped, Retransmits: p.Retransmits,
	}
	if p.LastHeard != 0 {
		s.LastContact = max(now.Sub(p.LastHeard), 0)
	}
	if p.Err != nil && !p.Connected {
		s.Error = p.Err.Error()
	}
	return s
}

// PeerStatus is another node as one node's connections show it.
type PeerStatus struct {
	ID        string `json:"id"`
	Addr      string `json:"addr,omitempty"`
	Connected bool   `json:"connected"`
	// RTT is the smoothed round-trip time that the kernel measures; 0 if not known.
	RTT time.Duration `json:"rtt_ns"`
	// LastContact is how long ago anything was heard; negative if never.
	LastContact time.Duration `json:"last_contact_ns"`
	Program     string        `json:"program,omitempty"`
	// Speaks is the version of the peers' protocol in use; 0 without a connection.
	Speaks uint32 `json:"speaks,omitempty"`
	// Sent, Received and Dropped count messages; dropped ones found no connection or a full queue.
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Dropped  uint64 `json:"dropped"`
	// Retransmits counts segments that the kernel had to send again.
	Retransmits uint64 `json:"retransmits"`
	// Error is why there is no connection.
	Error string `json:"error,omitempty"`
}

// Counters are counted from the node's start.
type Counters struct {
	Elections uint64 `json:"elections"`
	// Saves counts writes of the ballot, and SaveSlowest is the slowest.
	Saves       uint64        `json:"saves"`
	SaveSlowest time.Duration `json:"save_slowest_ns"`
	// ClockJumps counts suspends and clocks that were set.
	ClockJumps uint64 `json:"clock_jumps"`
	// Pauses counts how often the node ran much later than planned, and LongestPause is the longest delay.
	Pauses       uint64        `json:"pauses"`
	LongestPause time.Duration `json:"longest_pause_ns"`
	// FlightGaps counts the gaps in the flight recorder's trace.
	FlightGaps uint64 `json:"flight_gaps"`
}

// NodeResult is a node's answer: exactly one of Status and Err is set.
type NodeResult struct {
	Peer   Peer
	Status *NodeStatus
	Err    error
}
