package peer

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestSplitBrain: with bully and ring the two sides of a cut have a leader each. If each side has raised the epoch as
// often, both have the same token. When the sides meet one leader is left, possibly with that token.
func TestSplitBrain(t *testing.T) {
	inClassicCluster(t, 3, func(t *testing.T, v *fakeCluster, k *classic) {
		if k.quorate {
			return
		}
		nodes := v.openAll()
		v.isolate("n3", true)
		var c contest
		for _, n := range nodes {
			defer c.stands(t, n)()
		}
		two := c.awaits(t, 2, slack(nodes[0]))
		if two[0].id != "n2" || two[1].id != "n3" || two[0].token != two[1].token {
			t.Fatalf("%+v lead; want n2 and n3, with equal tokens", two)
		}
		for _, n := range nodes {
			want := map[protocol.NodeID]string{"n1": "n2", "n2": "n2", "n3": "n3"}[n.cfg.ID]
			if !comesTrue(slack(n), func() bool {
				s := n.Status()
				return s.Leader != nil && s.Leader.ID == want && !s.Stale && s.Leader.NoLease
			}) {
				t.Errorf("%s sees %+v lead; want %s", n.cfg.ID, n.Status().Leader, want)
			}
		}
		v.isolate("n3", false)
		if !comesTrue(slack(nodes[0]), func() bool {
			l := c.leaders()
			return len(l) == 1 && l[0].id != "n1" && l[0].token >= two[0].token
		}) {
			t.Fatalf("%+v lead after the cut; want one of the two alone", c.leaders())
		}
	})
}

// TestRaftStaysWithMajority: the side of a cut without a majority elects no leader. An old leader there still believes
// that it leads, as in plain raft, and the other side's token is greater. With checkquorum it steps down.
func TestRaftStaysWithMajority(t *testing.T) {
	for _, name := range []string{"raft", "raft-prevote", "raft-checkquorum"} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, func(t *testing.T, v *fakeCluster) {
				v.change = func(c *setup) { c.Protocol = name }
				nodes := v.openAll()
				var c contest
				for _, n := range nodes {
					defer c.stands(t, n)()
				}
				old := c.awaits(t, 1, slack(nodes[0]))[0]
				v.isolate(old.id, true)
				<-time.After(slack(nodes[0]))
				leaders := c.leaders()
				i := slices.IndexFunc(leaders, func(r won) bool { return r.id != old.id })
				if i < 0 || leaders[i].token <= old.token {
					t.Fatalf("%+v lead; want one with a token above %v", leaders, old.token)
				}
				stale := slices.ContainsFunc(leaders, func(r won) bool { return r.id == old.id })
				if stale != (name != "raft-checkquorum") {
					t.Errorf("the leader that was cut off still leads: %v", stale)
				}
				v.isolate(old.id, false)
				if !comesTrue(slack(nodes[0]), func() bool { l := c.leaders(); return len(l) == 1 && l[0].token > old.token }) {
					t.Fatalf("%+v lead after the cut", c.leaders())
				}
			})
		})
	}
}
