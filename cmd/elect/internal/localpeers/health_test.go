package localpeers

import (
	"errors"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/peer"
)

func TestUnready(t *testing.T) {
	leader := &driver.Leader{ID: "n1", Token: 4}
	rest := func() []peer.NodeResult {
		connected := []peer.PeerStatus{{ID: "n2", Connected: true}}
		return []peer.NodeResult{
			{Status: &peer.NodeStatus{ID: "n1", Founded: true, Leader: leader, Active: true, Peers: connected}},
			{Status: &peer.NodeStatus{ID: "n2", Founded: true, Leader: &driver.Leader{ID: "n1", Token: 4}, Peers: []peer.PeerStatus{{ID: "n1", Connected: true}}}},
		}
	}
	if got, err := Unready(rest()); err != nil || got.ID != "n1" || got.Token != 4 {
		t.Fatalf("at rest: %+v, %v", got, err)
	}
	for name, disturb := range map[string]func(all []peer.NodeResult) []peer.NodeResult{
		"nobody": func([]peer.NodeResult) []peer.NodeResult { return nil },
		"no answer": func(all []peer.NodeResult) []peer.NodeResult {
			all[1] = peer.NodeResult{Err: errors.New("down")}
			return all
		},
		"not founded":    func(all []peer.NodeResult) []peer.NodeResult { all[1].Status.Founded = false; return all },
		"no leader":      func(all []peer.NodeResult) []peer.NodeResult { all[1].Status.Leader = nil; return all },
		"cut off":        func(all []peer.NodeResult) []peer.NodeResult { all[1].Status.Stale = true; return all },
		"another token":  func(all []peer.NodeResult) []peer.NodeResult { all[1].Status.Leader.Token = 3; return all },
		"another leader": func(all []peer.NodeResult) []peer.NodeResult { all[1].Status.Leader.ID = "n2"; return all },
		"not connected":  func(all []peer.NodeResult) []peer.NodeResult { all[0].Status.Peers[0].Connected = false; return all },
		"not proven":     func(all []peer.NodeResult) []peer.NodeResult { all[0].Status.Active = false; return all },
		"another is active": func(all []peer.NodeResult) []peer.NodeResult {
			all[0].Status.Active, all[1].Status.Active = false, true
			return all
		},
	} {
		if got, err := Unready(disturb(rest())); err == nil {
			t.Errorf("%s: at rest with %+v", name, got)
		}
	}
}
