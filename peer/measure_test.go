package peer

import (
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func TestQuorumContact(t *testing.T) {
	at := func(id string, last time.Duration) PeerStatus { return PeerStatus{ID: id, LastContact: last} }
	for name, c := range map[string]struct {
		id     string
		voters []string
		peers  []PeerStatus
		quorum int
		want   time.Duration
	}{
		"alone":                  {"a", []string{"a"}, nil, 1, 0},
		"the nearest two":        {"a", []string{"a", "b", "c"}, []PeerStatus{at("b", 9), at("c", 4)}, 2, 4},
		"never":                  {"a", []string{"a", "b", "c"}, []PeerStatus{at("b", -1), at("c", -1)}, 2, -1},
		"observers do not count": {"a", []string{"a", "b", "c"}, []PeerStatus{at("o", 1), at("b", 7), at("c", -1)}, 2, 7},
		"an observer":            {"o", []string{"a", "b", "c"}, []PeerStatus{at("a", 3), at("b", 7), at("c", 1)}, 2, 3},
		"before the founding":    {"a", nil, nil, 0, -1},
	} {
		if got := quorumContact(&NodeStatus{ID: c.id, Voters: c.voters, Peers: c.peers, Plan: Plan{Quorum: c.quorum}}); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}

// TestMeasure: all know one membership by its name; a leader renews, and sees which voter answers late.
func TestMeasure(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		<-time.After(5 * time.Second)
		leader := nodes[0].Measure()
		if leader.Renewals < 10 || leader.Saves.Count == 0 || leader.Saves.Count != nodes[0].Status().Counters.Saves {
			t.Errorf("after 5 s the leader measures %d renewals and %+v; want some of each", leader.Renewals, leader.Saves)
		}
		for _, n := range nodes[1:] {
			other := n.Measure()
			if other.Membership == "" || other.Membership != leader.Membership || other.Renewals != 0 {
				t.Errorf("%s knows %q and has renewed %d times; the leader knows %q", n.cfg.ID, other.Membership, other.Renewals, leader.Membership)
			}
			for _, p := range other.Peers {
				if p.Voter != nil {
					t.Errorf("%s, which does not lead, measures %+v of %s", n.cfg.ID, p.Voter, p.ID)
				}
			}
		}
		lag := func(id protocol.NodeID) time.Duration {
			t.Helper()
			for _, p := range nodes[0].Measure().Peers {
				if p.ID == string(id) && p.Voter != nil {
					return p.Voter.Lag
				}
			}
			t.Fatalf("the leader measures nothing of %s", id)
			return 0
		}
		late, prompt := nodes[1], nodes[2]
		stands := make(chan struct{})
		go func() {
			defer close(stands)
			late.run.Call(func() { <-time.After(4 * late.plan.Promise) })
		}()
		<-time.After(3 * late.plan.Promise)
		if l, p := lag(late.cfg.ID), lag(prompt.cfg.ID); l < 2*late.plan.Promise || p > late.plan.Promise/2 {
			t.Errorf("one that stands still for 3 promises of %v lags by %v, and the other one by %v", late.plan.Promise, l, p)
		}
		<-stands
		<-time.After(late.plan.Promise)
		if l := lag(late.cfg.ID); l > late.plan.Promise/2 {
			t.Errorf("it goes on, and lags by %v", l)
		}
		release(t, m)
	})
}

// TestMembershipName: a membership's name changes with its number, its voters, their directories and its observers.
func TestMembershipName(t *testing.T) {
	var none *MembershipStatus
	first := MembershipStatus{Term: 7, Count: 3, Voters: []VoterStatus{{ID: "a", Dir: "01"}, {ID: "b", Dir: "02", Lag: time.Second}}}
	names := map[string]bool{none.name(): true, first.name(): true}
	for _, other := range []MembershipStatus{
		{Term: 8, Count: 3, Voters: first.Voters},
		{Term: 7, Count: 3, Voters: []VoterStatus{{ID: "a", Dir: "01"}, {ID: "b", Dir: "03"}}},
		{Term: 7, Count: 3, Voters: []VoterStatus{{ID: "a", Dir: "01"}, {ID: "c", Dir: "02"}}},
		{Term: 7, Count: 3, Voters: first.Voters, Observers: []ObserverStatus{{ID: "o"}}},
	} {
		names[other.name()] = true
	}
	if len(names) != 6 {
		t.Errorf("6 memberships have the names %v", names)
	}
	same := first
	same.Voters = []VoterStatus{{ID: "a", Dir: "01", Addr: "elsewhere"}, {ID: "b", Dir: "02"}}
	if same.name() != first.name() {
		t.Errorf("%q and %q; want one name: addresses and lags are not of the membership", first.name(), same.name())
	}
}
