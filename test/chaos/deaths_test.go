//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/network"
)

// deaths are the ends of processes and computers.
func deaths() []scenario {
	return []scenario{
		{
			name: "crash", story: "The leader's process dies, and its kernel closes its connections.",
			nodes: 3, short: true,
			parts: []part{
				{on: quorum, expected: "its keeper kills the command and says so: another leads at once", script: parentDies, judge: atOnce},
				{on: "quorum-all", expected: "its keeper dies with it: another is elected at once, and leads when the promises to the dead one are over",
					script: allDie, judge: electedThenLeads},
				{on: "quorum-lie", expected: "it only looks so, and the leader lives, cut off: another is elected at once, and leads when the promises are over",
					script: seemsDead, judge: electedThenLeads},
			},
		},
		{
			name: "crash-silent", story: "The leader's machine loses power: no connection closes.",
			nodes: 3, short: true, script: powerFails,
			parts: []part{{on: quorum, expected: "another leads after the timeout", judge: afterTimeout}},
		},
		{
			name: "split-vote", story: "The leader falls silent, and all candidates are frozen past their timeouts: they are late together.",
			nodes: 5, script: allLate,
			parts: []part{{on: quorum, expected: "one leads after a few rounds", judge: fewRounds}},
		},
	}
}

// parentDies kills elect run alone: its keeper remains and reports it.
func parentDies(s *trial) {
	s.begins()
	s.kill(0, cluster.Node)
	s.mark = s.ledger.Now()
	s.next(s.fault, soon)
	s.hold(2 * promise)
}

func allDie(s *trial) {
	s.begins()
	s.down(0)
	s.mark = s.ledger.Now()
	s.next(s.fault, soon)
	s.hold(2 * promise)
	s.up(0)
}

// seemsDead resets the connections of a live leader, and cuts it off.
func seemsDead(s *trial) {
	s.begins()
	s.set(network.Isolate(3, 0))
	s.reset(0, 1)
	s.reset(0, 2)
	s.mark = s.ledger.Now()
	s.next(s.fault, soon)
	s.hold(2 * promise)
}

func powerFails(s *trial) {
	s.begins()
	s.set(network.Isolate(3, 0))
	s.down(0)
	s.next(s.fault, soon)
	s.hold(2 * promise)
	s.healed()
	s.up(0)
}

// allLate makes one computer of five lose power, and freezes the others until all their timeouts
// are over.
func allLate(s *trial) {
	s.begins()
	s.set(network.Isolate(5, 0))
	for role := 1; role < 5; role++ {
		s.freeze(role, cluster.Voter)
	}
	s.hold(2 * promise)
	for role := 1; role < 5; role++ {
		s.thaw(role, cluster.Voter)
	}
	s.mark = s.ledger.Now()
	s.next(s.mark, soon)
	s.hold(2 * promise)
}

// atOnce expects another leader long before a promise is over.
func atOnce(s *trial) {
	s.safe()
	_, next := s.oneAfter(s.fault, 0, soon)
	s.happened("active", next)
}

// electedThenLeads expects another node to be elected long before a promise is over, and to lead
// when it is.
func electedThenLeads(s *trial) {
	s.safe()
	_, next := s.oneAfter(s.fault, promise/2, soon)
	s.happened("elected", next)
}

// happened expects an event of a leader in the nodes' history within half a promise of the mark.
// The begin of its command does not count: that takes as long as the computer needs to start it.
func (s *trial) happened(event string, to tenure) {
	at, ok := s.told[told{event, to.token}]
	took := time.Duration(at - s.mark)
	if s.want(ok, "no history of %s being %s", s.name(to.node), event) {
		s.want(took <= promise/2, "%s was %s after %v; want %v at most", s.name(to.node), event, shown(took), promise/2)
		s.say("%s was %s after %v", s.name(to.node), event, shown(took))
	}
}

// afterTimeout expects another leader when the promises are over, and not before.
func afterTimeout(s *trial) {
	s.safe()
	s.oneAfter(s.fault, promise/2, soon)
}

// fewRounds expects another leader soon after the thaw.
func fewRounds(s *trial) {
	s.safe()
	old, next := s.oneAfter(s.mark, 0, soon)
	rounds := next.token - old.token
	s.want(rounds >= 1 && rounds <= 4, "it takes %d terms; want 4 at most", rounds)
	s.say("it takes %d terms", rounds)
}

// told is an event in the nodes' history: elected, active or lost, with the leader's token.
type told struct {
	event string
	token int64
}

// memories asks the nodes for their history, and returns the times, as readings of [lives.Now].
func (s *trial) memories() map[told]int64 {
	s.t.Helper()
	var events []struct {
		At    time.Time
		Event string
		Token int64 `json:",string"`
	}
	out := s.operator("history", "-o", "json")
	if err := json.Unmarshal(out, &events); err != nil {
		s.t.Fatal(fmt.Errorf("elect history: %w in %s", err, out))
	}
	wall, now := time.Now(), s.ledger.Now()
	at := map[told]int64{}
	for _, e := range events {
		at[told{e.Event, e.Token}] = now - int64(wall.Sub(e.At))
	}
	return at
}
