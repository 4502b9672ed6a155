package peer

import (
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// TestSplitBrain: with bully and ring the two sides of a cut have a leader each, and nothing tells
// them apart where each side has raised the epoch as often: they have one token.
// When the sides meet one is left, possibly with the token that the other one had.
func TestSplitBrain(t *testing.T) {
	inClassicVillage(t, 3, func(t *testing.T, v *village, k *classic) {
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

// TestRaftStaysWithMajority: the side of a cut without a majority elects nobody.
// A leader there goes on to think that it leads, plain raft being what it is, and
// the other side's token is greater; with checkquorum it steps down.
func TestRaftStaysWithMajority(t *testing.T) {
	for _, name := range []string{"raft", "raft-prevote", "raft-checkquorum"} {
		t.Run(name, func(t *testing.T) {
			inVillage(t, 3, func(t *testing.T, v *village) {
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
				i := slices.IndexFunc(leaders, func(r reign) bool { return r.id != old.id })
				if i < 0 || leaders[i].token <= old.token {
					t.Fatalf("%+v lead; want one with a token above %v", leaders, old.token)
				}
				stale := slices.ContainsFunc(leaders, func(r reign) bool { return r.id == old.id })
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
