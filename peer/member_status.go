package peer

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// MembershipStatus is the newest membership that a node knows. Its form in JSON is stable, as that of [NodeStatus].
type MembershipStatus struct {
	// Term and Count order memberships, Term first. Term is that of the leader that made or confirmed it.
	Term  uint64 `json:"term"`
	Count uint64 `json:"count"`
	// Settled is set by the leader: a majority of the voters has it on disk, so that it can be changed again.
	Settled   bool             `json:"settled"`
	Voters    []VoterStatus    `json:"voters"`
	Observers []ObserverStatus `json:"observers"`
}

// Version is Term and Count, such as 7.3.
func (m *MembershipStatus) Version() string { return m.id().String() }

func (m *MembershipStatus) id() protocol.ConfigID {
	return protocol.ConfigID{Term: m.Term, Version: m.Count}
}

// VoterStatus is a voter. Only the leader sets what is below Addr, from the answers of other voters.
type VoterStatus struct {
	ID   string `json:"id"`
	Dir  string `json:"dir"`
	Addr string `json:"addr,omitempty"`
	// Lag is how long ago the leader sent the message that the voter answered last; negative if it has not answered.
	Lag time.Duration `json:"lag_ns"`
	// Idle means that it would not stand: it is paused, unwell or no candidate.
	Idle bool `json:"idle,omitempty"`
	// Priority is as in a NodeStatus; 0, omitted, if not known.
	Priority int    `json:"priority,omitzero"`
	Position string `json:"position,omitempty"`
	// Behind means that its position is behind the leader's.
	Behind bool `json:"behind,omitempty"`
	// Held is the newest membership on its disk, such as 7.3.
	Held string `json:"held,omitempty"`
	// Rate bounds the speed of its clock relative to the leader's. Apart means that it is beyond what is assumed of
	// clocks, so that the leader's lease does not count on this voter.
	Rate  Rate `json:"rate,omitzero"`
	Apart bool `json:"apart,omitempty"`
}

// Rate is how much faster a clock runs than another one: by Low to High, in parts per million, measured over the time
// Over. If Over is 0, the rate is not known.
type Rate struct {
	Low  int64         `json:"low_ppm"`
	High int64         `json:"high_ppm"`
	Over time.Duration `json:"over_ns"`
}

// String formats the rate, such as "+39.9 % to +40.2 %".
func (r Rate) String() string { return protocol.Rate(r).String() }

// ObserverStatus is an observer.
type ObserverStatus struct {
	ID   string `json:"id"`
	Addr string `json:"addr,omitempty"`
}

// membershipStatus describes a membership, with what its leader knows of the others.
func membershipStatus(ms *protocol.Membership, settled bool, known []protocol.Member, now protocol.Instant) *MembershipStatus {
	s := &MembershipStatus{
		Term: ms.ConfigTerm, Count: ms.Version, Settled: settled,
		Voters: make([]VoterStatus, 0, len(ms.Voters)), Observers: make([]ObserverStatus, 0, len(ms.Observers)),
	}
	for _, v := range ms.Voters {
		e := VoterStatus{ID: string(v.ID), Dir: v.Dir.String(), Addr: ms.Address(v.ID), Lag: -1}
		if i := slices.IndexFunc(known, func(m protocol.Member) bool { return m.Voter == v }); i >= 0 {
			k := &known[i]
			if k.Answered != protocol.Always {
				e.Lag = max(now.Sub(k.Answered), 0)
			}
			e.Idle, e.Priority, e.Position, e.Behind = k.Idle, k.Priority, k.Position, k.Behind
			e.Rate, e.Apart = Rate(k.Rate), k.Apart
			if k.Held != (protocol.ConfigID{}) {
				e.Held = k.Held.String()
			}
		}
		s.Voters = append(s.Voters, e)
	}
	for _, id := range ms.Observers {
		s.Observers = append(s.Observers, ObserverStatus{ID: string(id), Addr: ms.Address(id)})
	}
	return s
}

// turnLimit is how long a status waits for a turn. A turn takes so long only if the process hangs.
const turnLimit = 200 * time.Millisecond

// status describes this node's membership; nil before it is founded.
func (m *membership) status(run *runtime.Runner) *MembershipStatus {
	ms := m.Load()
	if ms == nil {
		return nil
	}
	if v := run.Seen(); v == nil || !v.Elected || m.dialect.lacks(memberships) != nil {
		return membershipStatus(ms, false, nil, 0)
	}
	told := make(chan *MembershipStatus, 1)
	run.Do(func() {
		if r, ok := run.Machine().(protocol.Reconfigurable); ok {
			ms, settled := r.Membership()
			told <- membershipStatus(ms, settled, r.Members(nil), run.Latest().Boot)
		}
	})
	late := time.NewTimer(turnLimit)
	defer late.Stop()
	select {
	case s := <-told:
		return s
	case <-late.C:
	}
	return membershipStatus(ms, false, nil, 0)
}

// config returns the membership's id in a node's status.
func (s *NodeStatus) config() protocol.ConfigID {
	if s.Membership == nil {
		return protocol.ConfigID{}
	}
	return s.Membership.id()
}

// where returns the participants of a membership that a node has reported, with their addresses.
func (m *MembershipStatus) where() (voters, observers []Peer) {
	for _, v := range m.Voters {
		voters = append(voters, Peer{v.ID, v.Addr})
	}
	for _, o := range m.Observers {
		observers = append(observers, Peer(o))
	}
	return voters, observers
}
