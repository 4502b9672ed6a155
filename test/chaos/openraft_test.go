//go:build linux

package chaos

import "github.com/electd/elect/test/chaos/network"

// openraft is the network in which openraft's clusters had no leader (its issue 2080): a leader
// that has lost its majority keeps binding the one voter that it still reaches, without which the
// others cannot elect.
func openraft() []scenario {
	const bridge, isolated = 2, 1
	oldLeader := network.Merge(network.Isolate(5, isolated), network.Partial(5, 0, 3), network.Partial(5, 0, 4))
	return []scenario{
		{
			name: "connected-quorum", story: "Three of five see each other. The leader is not among them: it sees one of the three, the bridge, and the fifth sees none.",
			nodes: 5, script: cut(oldLeader, lengthy),
			parts: []part{
				{on: quorum, expected: "the leader gives up, and one of the three is elected", judge: func(s *trial) {
					s.safe()
					_, next := s.oneAfter(s.fault, 0, soon)
					s.want(s.role(next.node) >= bridge, "%s leads; want one of the three that see each other", s.name(next.node))
					s.noneBut("one of the three that see each other", func(role int) bool { return role >= bridge })
				}},
				plain(preVote, "deadlock: the leader keeps the bridge from helping the other two", func(s *trial) { s.fenced(); s.steady(s.fault, s.heal) }),
			},
		},
	}
}
