//go:build linux

package chaos

import (
	"time"

	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/network"
)

// slowness are the scenarios of slow disks, links and processors.
func slowness() []scenario {
	return []scenario{
		{
			name: "slow-disk", story: "Every sync takes three tenths of the timeout, and the leader dies silently.",
			nodes: 3, disks: disk.NewFUSE, script: slowDisks,
			parts: []part{{on: quorum, expected: "one election, which takes a few syncs longer", judge: slowElection}},
		},
		{
			name: "gray-failure", story: "The leader is slow, though not dead: its links, or its processor; in the end it finds itself unhealthy.",
			nodes: 3, on: proxies,
			parts: []part{
				{on: quorum, expected: "slow links depose no leader; the unhealthy one releases, and another leads at once", script: slowLinks, judge: releasedAtOnce},
				{on: "quorum-starved", expected: "a leader with too little of a processor leads on, or is followed once; afterwards nothing changes", script: starved, judge: fewChanges},
			},
		},
	}
}

const slowSync = promise * 3 / 10

func slowDisks(s *trial) {
	s.begins()
	for _, d := range s.disks {
		s.does(d.Fault(disk.Fault{SyncDelay: slowSync}))
	}
	s.set(network.Isolate(3, 0))
	s.down(0)
	s.next(s.fault, soon+6*slowSync)
	s.hold(2 * promise)
	for _, d := range s.disks {
		s.does(d.Fault(disk.Fault{}))
	}
	s.healed()
	s.up(0)
}

// slowElection expects one other leader, after few terms.
func slowElection(s *trial) {
	s.safe()
	old, next := s.oneAfter(s.fault, promise/2, soon+6*slowSync)
	terms := next.token - old.token
	s.want(terms >= 1 && terms <= 3, "it takes %d terms; want 3 at most", terms)
	s.say("it takes %d terms, with syncs of %v", terms, slowSync)
}

// slowLinks slows all that the leader sends, and then makes it unhealthy.
func slowLinks(s *trial) {
	s.begins()
	s.set(network.Links{{From: 0, To: 1}: {Delay: promise / 5}, {From: 0, To: 2}: {Delay: promise / 5}})
	s.hold(4 * promise)
	s.mark = s.ledger.Now()
	s.operator("pause", "--node", s.cluster.ID(s.roles[0]))
	s.next(s.mark, soon)
	s.hold(promise)
	s.healed()
	s.operator("resume", "--node", s.cluster.ID(s.roles[0]))
	s.hold(promise)
}

// releasedAtOnce expects the leader to lead until it is unhealthy, and another one when the release
// has arrived.
func releasedAtOnce(s *trial) {
	s.safe()
	s.steady(s.fault, s.mark)
	_, next := s.oneAfter(s.mark, 0, soon)
	s.happened("active", next)
}

// starved leaves the leader almost no processor time.
func starved(s *trial) {
	s.begins()
	s.ails(0, true)
	s.does(s.cluster.Starve(s.roles[0], 5))
	s.hold(6 * promise)
	s.does(s.cluster.Feed(s.roles[0]))
	s.ails(0, false)
	s.mark = s.ledger.Now()
	s.hold(3 * promise)
}

func fewChanges(s *trial) {
	s.safe()
	changes := s.begun(s.fault, s.mark+int64(promise))
	s.want(len(changes) <= 2, "%s led while one was starved; want 2 changes at most", s.names(changes))
	late := s.begun(s.mark+int64(promise), s.end)
	s.want(len(late) == 0, "%s led after it was fed", s.names(late))
	s.say("%d changes of leadership in %v", len(changes), shown(time.Duration(s.mark-s.fault)))
}
