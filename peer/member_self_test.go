package peer

import (
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// TestChangeOfLeader: to add the leader as what it is changes nothing, also after the change was asked of an earlier
// leader. It may get another address.
func TestChangeOfLeader(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		nodes := v.openAll()
		m := win(t, nodes[0])
		for _, q := range []memberRequest{
			{Op: opAdd, ID: "n1", Addr: v.peer("n1").Addr},
			{Op: opReplace, ID: "n1"},
			{Op: opReplace, ID: "n1", Addr: v.peer("n1").Addr},
		} {
			for _, at := range []protocol.NodeID{"n1", "n2"} {
				if done, err := v.asksDone(at, q); err != nil || done.Changed || len(done.Steps) != 0 {
					t.Errorf("%v at %s: %+v, %v; want that it was so already", &q, at, done, err)
				}
			}
		}
		v.refusedChange("n2", memberRequest{Op: opAdd, ID: "n1", Addr: v.peer("n1").Addr, Observer: true}, "n1 is a voter; to make an observer of it, remove it first")
		v.refusedChange("n2", memberRequest{Op: opAdd, ID: "n1", Addr: "127.0.0.1:2"}, "127.0.0.1:2 is the address of n2")
		v.refusedChange("n2", memberRequest{Op: opReplace, ID: "n1", Addr: "127.0.0.1:7"}, "n1@127.0.0.1:7, from where n1 leads, does not answer")
		v.refusedChange("n2", memberRequest{Op: opRemove, ID: "n1"}, "want elect transfer first")
		v.mu.Lock()
		v.moved = map[protocol.NodeID]string{"n1": "127.0.0.1:7"}
		v.mu.Unlock()
		done, err := nodes[0].changes.reconfigure(t.Context(), memberRequest{Op: opReplace, ID: "n1", Addr: "127.0.0.1:7"}, func(string) {})
		if err != nil || len(done.Steps) != 1 || done.Membership.Voters[0].Addr != "127.0.0.1:7" || done.Membership.Voters[0].Dir != nodes[0].self.Dir.String() {
			t.Errorf("%+v, %v; want it at its new address", done, err)
		}
		if err := m.Check(); err != nil {
			t.Errorf("the leader is disturbed: %v", err)
		}
		release(t, m)
	})
}

// TestJoiningSays: a node that waits to be added says so, and that it cannot tell who leads. So does a removed node
// that waits, also after a restart.
func TestJoiningSays(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
		m := win(t, v.openAll()[0])
		waits := func(n *Node, says string) {
			t.Helper()
			s := sees(t, n, "for what it waits", func(s driver.State) bool {
				return s.Cause != nil && strings.HasPrefix(s.Cause.Error(), "n4 waits until it is added (join=true): run elect member add n4@127.0.0.1:4") && strings.Contains(s.Cause.Error(), says)
			})
			if text := s.Cause.Error(); !s.Stale || strings.Contains(text, "start it with join=true") || strings.Count(text, "refuses this node") > 1 {
				t.Errorf("it shows %+v", s)
			}
		}
		n4 := v.join("n4")
		waits(n4, "(n2, n3 refuse it too)")
		v.add("n1", "n4")
		sees(t, n4, "the leader", leads(m))
		v.changes("n1", memberRequest{Op: opRemove, ID: "n4"})
		waits(n4, "")
		_ = n4.Close()
		n4 = v.join("n4")
		waits(n4, "n4 takes no part in membership")
		<-time.After(15 * time.Second)
		waits(n4, "n4 takes no part in membership")
		release(t, m)
	})
}
