package peer

import (
	"testing"
	"time"
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
