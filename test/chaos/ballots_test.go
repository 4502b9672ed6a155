//go:build linux

package chaos

import (
	"bytes"
	"net/url"
	"os"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/judge"
	"github.com/electd/elect/test/chaos/network"
)

// ballots are the scenarios about what a voter remembers.
func ballots() []scenario {
	// With these, rounds of votes last 128 ms, long enough for a fault within one.
	slowRounds := url.Values{"profile": {"wan"}}
	return []scenario{
		{
			name: "stranded-term", story: "A voter comes to a higher term than the leader's, though it has not won it.",
			nodes: 3, on: proxies,
			parts: []part{
				{on: quorum, params: slowRounds, env: lastNeverLeads, script: strand(30*time.Millisecond, network.Mute(3, 1)), judge: reanchored,
					expected: "where the requests for votes are lost, the leader takes a higher term, and its tenure and its token go on"},
				{on: "quorum-voted", params: slowRounds, env: lastNeverLeads, script: strand(90*time.Millisecond, network.Isolate(3, 1)), judge: newTenure,
					expected: "where another can have won, it stops its work and a new tenure begins"},
			},
		},
		{
			name: "voter-restart", story: "The leader is cut off, and while its lease runs all others crash and start again.",
			nodes: 3, short: true, script: othersRestart,
			parts: []part{{on: quorum, expected: "nothing is forgotten: voters that restart wait for the end of what they may have promised", judge: handedOn}},
		},
		{
			name: "double-vote", story: "A voter votes, loses power, starts again, and is asked by another candidate that knows no later term.",
			nodes: 3, disks: disk.NewFUSE, short: true, script: asksAgain((*trial).losePower),
			parts: []part{{on: quorum, expected: "the vote is on its disk: no term has two leaders", judge: twoElections}},
		},
		{
			name: "wiped-disk", story: "As double-vote, and the disk of the voter is lost in between.",
			nodes: 3, disks: disk.NewFUSE, script: wiped,
			parts: []part{{on: quorum, expected: "with an empty disk it is another voter, which was never admitted: there is no leader until there is a majority without it", judge: noneUntilHealed}},
		},
	}
}

// lastNeverLeads makes the last node vote and never stand.
func lastNeverLeads(s *trial, node int) []string {
	if node == s.scenario.nodes-1 {
		return []string{"ELECT_PRIORITY=never"}
	}
	return nil
}

// strand makes 1 vote for itself in a term without a winner. Both followers believe the leader
// dead, because its connections are reset; 2 grants 1's pre-vote, and its answers are slow. After
// the given time the leader can talk to 2 again, and 1 is mute, or cut off: before the first answer
// has come, 1's vote requests are lost, and after it the answer to them.
func strand(after time.Duration, lost network.Links) func(*trial) {
	const slow = 60 * time.Millisecond // from 2 to 1, in a round of 128 ms
	answers := network.Links{{From: 2, To: 1}: {Delay: slow}}
	return func(s *trial) {
		for range 10 {
			s.assign()
			was := s.members().Nodes[s.roles[0]].Term
			s.begins()
			s.set(network.Merge(network.Isolate(3, 0), answers))
			s.reset(0, 1)
			s.reset(0, 2)
			s.hold(after)
			s.set(network.Merge(lost, network.Partial(3, 0, 1), answers))
			s.hold(2 * slow)
			m := s.members()
			ahead := func(role int) bool {
				n := m.Nodes[s.roles[role]]
				return n != nil && n.Term > was
			}
			if ahead(1) && ahead(2) == (after > slow) && len(tenuresSince(s, s.fault)) == 0 {
				s.stranded = true
				break
			}
			s.healed() // it did not happen: the computer was slow, or another round was in progress
		}
		s.healed()
		s.hold(2 * promise)
		s.termsAtEnd = s.members().Nodes[s.roles[0]].Term
	}
}

func tenuresSince(s *trial, since int64) []tenure {
	var found []tenure
	for _, r := range tenuresOf(s.ledger.Lives()) {
		if r.from > since {
			found = append(found, r)
		}
	}
	return found
}

// reanchored expects the leader to lead on, in a term above its token's.
func reanchored(s *trial) {
	undisturbed(s)
	s.want(s.stranded, "no voter came to a term that was not won, in ten tries")
	s.want(s.termsAtEnd > uint64(s.led(s.fault).token), "the leader's term is %d in the end; want it above its token, %d", s.termsAtEnd, s.led(s.fault).token)
	s.say("its term goes to %d", s.termsAtEnd)
}

// newTenure expects the old tenure to end and another to begin, of any node.
func newTenure(s *trial) {
	s.safe()
	s.want(s.stranded, "no voter came to a term that was not won, in ten tries")
	old, all := s.led(s.fault), s.begun(s.fault, s.end)
	s.want(len(all) >= 1, "%s led on; want a new tenure", s.name(old.node))
	if len(all) > 0 {
		s.say("the tenure of %s with token %d ends %v after the faults began, and %s leads %v after that", s.name(old.node), old.token,
			shown(s.sinceFault(old.until)), s.names(all[:1]), shown(time.Duration(all[0].from-old.until)))
	}
}

// othersRestart cuts the leader off, and kills the other two with all their descendants. They are
// restarted at once.
func othersRestart(s *trial) {
	s.begins()
	s.set(network.Isolate(3, 0))
	s.kill(1, cluster.Family)
	s.kill(2, cluster.Family)
	s.next(s.fault, soon)
	s.hold(2 * promise)
}

// asksAgain makes a voter vote, lose something, and be asked again: the leader 0 is cut off, and
// one of the others is elected by the third. The third is killed, its disk has a fault, and it
// restarts and sees only 0, which knows no later term than that of its own tenure.
func asksAgain(suffer func(s *trial, role int)) func(*trial) {
	return func(s *trial) {
		s.begins()
		s.set(network.Isolate(3, 0))
		winner := s.role(s.next(s.fault, soon).Node)
		voter := 3 - winner
		s.down(voter)
		s.reset(0, winner) // what they had sent, and the cut has held back, shows that term
		s.reset(0, voter)
		s.set(network.Isolate(3, winner))
		s.mark = s.ledger.Now()
		suffer(s, voter)
		s.up(voter)
		s.until(soon+promise, func() bool { return len(tenuresSince(s, s.mark)) > 0 })
		s.healed()
	}
}

// losePower removes from a disk what was not synced.
func (s *trial) losePower(role int) {
	s.t.Helper()
	s.lends(s.roles[role]) // the record is not synced
	s.history.Add(judge.Event{Kind: judge.Fault, Node: s.roles[role], Fault: "power-loss", ID: 1})
	s.does(s.disks[s.roles[role]].PowerLoss())
	s.history.Add(judge.Event{Kind: judge.Heal, Node: s.roles[role], Fault: "power-loss", ID: 1})
}

// twoElections expects two leaders after the first, one after the other, each with a greater token.
func twoElections(s *trial) {
	s.safe()
	all := s.begun(s.fault, s.end)
	s.want(len(all) >= 2, "%s led; want two after the first", s.names(all))
	last := s.led(s.fault).token
	for _, r := range all {
		s.must(r.token > last, "%s leads after token %d", s.names([]tenure{r}), last)
		last = r.token
	}
	s.say("after token %d %s led", s.led(s.fault).token, s.names(all))
}

// wiped wipes the voter's disk, and repairs it in the end as an operator does.
func wiped(s *trial) {
	lost := 0
	asksAgain(func(s *trial, role int) {
		lost = role
		s.lends(s.roles[role])
		s.history.Add(judge.Event{Kind: judge.Wiped, Node: s.roles[role]})
		s.does(s.disks[s.roles[role]].Wipe())
	})(s)
	s.next(s.heal, soon)
	node := s.roles[lost]
	said := func() bool {
		text, err := os.ReadFile(s.cluster.Log(node))
		return err == nil && bytes.Contains(text, []byte("its disk was wiped"))
	}
	s.must(s.until(patience, said), "%s does not say that its disk was wiped", s.cluster.ID(node))
	s.readmit(node)
}

// readmit gives the vote of a node whose disk was lost to its new directory.
func (s *trial) readmit(node int) {
	s.t.Helper()
	s.does(s.cluster.Down(node))
	s.lends(node)
	s.history.Add(judge.Event{Kind: judge.Wiped, Node: node})
	s.does(s.disks[node].Wipe()) // it has begun to found an election of its own
	s.cluster.Join(node, true)
	s.does(s.cluster.Start(node))
	waits := func() bool {
		m := s.members().Nodes[node]
		return m != nil && m.Join
	}
	if !s.until(patience, waits) {
		s.giveUp("%s does not wait to be added", s.cluster.ID(node))
	}
	s.operator("member", "replace", s.cluster.ID(node))
}

// noneUntilHealed expects one leader after the first, none while the two nodes that see each other
// have one sound disk, and one again when all is healed.
func noneUntilHealed(s *trial) {
	s.safe()
	lone := s.begun(s.mark, s.heal)
	s.must(len(lone) == 0, "%s led, elected by a voter that has forgotten its vote", s.names(lone))
	s.want(len(s.begun(s.fault, s.mark)) == 1, "%s led before; want one", s.names(s.begun(s.fault, s.mark)))
	after := s.begun(s.heal, s.end)
	s.want(len(after) > 0 || s.led(s.end).until > s.end, "there is no leader in the end")
	s.say("there is no leader for %v; then %s", shown(time.Duration(s.heal-s.mark)), s.names(after))
}
