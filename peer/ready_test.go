package peer

import (
	"testing"
	"time"

	"github.com/electd/elect/driver"
)

// TestReady: a voter that was restarted owes a promise, and is not ready before that is over. A node that never
// promised anything, and one that leads, are ready.
func TestReady(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		for _, n := range nodes {
			if s := n.Status(); s.Ready() {
				t.Errorf("%s is ready and knows no leader", n.cfg.ID)
			}
		}
		promise := nodes[0].Plan().Promise
		m := win(t, nodes[0])
		<-time.After(promise)
		for _, n := range nodes {
			if s := n.Status(); s.Owes != 0 || !s.Ready() {
				t.Errorf("%s owes %v, ready %v; want that it never promised anything to an earlier leader", n.cfg.ID, s.Owes, s.Ready())
			}
		}
		_ = nodes[1].Close()
		begun := time.Now()
		n2 := v.open("n2")
		<-time.After(promise / 2)
		if s := n2.Status(); s.Owes <= 0 || s.Owes > promise-time.Since(begun) || s.Ready() {
			t.Errorf("%v after its start n2 owes %v, ready %v; want the rest of %v", time.Since(begun), s.Owes, s.Ready(), promise)
		}
		<-time.After(promise)
		sees(t, n2, "the leader", leads(m))
		if s := n2.Status(); s.Owes != 0 || !s.Ready() {
			t.Errorf("%v after its start n2 owes %v, ready %v", time.Since(begun), s.Owes, s.Ready())
		}
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		release(t, m)
	})
}

func TestReadyWants(t *testing.T) {
	fine := func() NodeStatus {
		return NodeStatus{
			ID: "n1", Founded: true, Leader: &driver.Leader{ID: "n2", Token: 1}, Voters: []string{"n1", "n2", "n3"},
			Peers: []PeerStatus{{ID: "n2", Connected: true}, {ID: "n3"}, {ID: "o1", Connected: true}},
		}
	}
	if s := fine(); !s.Ready() {
		t.Fatal("it is not ready")
	}
	for name, spoil := range map[string]func(*NodeStatus){
		"founded":     func(s *NodeStatus) { s.Founded = false },
		"owes":        func(s *NodeStatus) { s.Owes = 1 },
		"nobody":      func(s *NodeStatus) { s.Leader = nil },
		"stale":       func(s *NodeStatus) { s.Stale = true },
		"minority":    func(s *NodeStatus) { s.Peers[0].Connected = false },
		"an outsider": func(s *NodeStatus) { s.ID = "n4" },
	} {
		s := fine()
		if spoil(&s); s.Ready() {
			t.Errorf("%s: it is ready", name)
		}
	}
}
