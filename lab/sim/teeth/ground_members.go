package teeth

import (
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
)

// ofMembers is for the rules of transfer, priority, position and reconfiguration.
func ofMembers(mutant string) Ground {
	switch mutant {
	case "handover-any-seq":
		// n1 hands over, and leads again in the same incarnation. Then its handover message is
		// replayed, and all believe that n1 is gone.
		return Ground{Name: "a transfer heard twice", Options: with(quiet(3, 12*time.Second), `{"heartbeat":250000000}`), script: func(s *sim.Schedule) {
			first(s, 3)
			s.Work.Stop = 10 * time.Millisecond
			s.Ops = append(s.Ops,
				sim.Op{At: ms(6000), Kind: sim.OpTransfer, Node: "n1", Peer: "n2"},
				sim.Op{At: ms(7000), Kind: sim.OpTransfer, Node: "n2", Peer: "n1"},
				sim.Op{At: ms(9000), Kind: sim.OpReplay, Node: "n1", Peer: "n2", Count: 64},
				sim.Op{At: ms(9000), Kind: sim.OpReplay, Node: "n1", Peer: "n3", Count: 64},
				sim.Op{At: ms(9020), Kind: sim.OpReset, Node: "n1"})
		}}
	case "outranked-at-once":
		return Ground{Name: "a better one that does not last", Options: with(quiet(3, 60*time.Second), `{"each":{"n3":{"priority":200}}}`), judge: stays, script: func(s *sim.Schedule) {
			first(s, 3)
			for at := int64(6000); at < 59_000; at += 3000 {
				s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpKill, Node: "n3", For: time.Second})
			}
		}}
	case "position-not-asked":
		return Ground{Name: "positions that are required", Options: with(only(sim.OpLocate, sim.OpKill, sim.OpIsolate, sim.OpTransfer), `{"position":"require"}`)}
	case "stands-at-config-term":
		return Ground{Name: "a word to one that was cut off", Options: with(quiet(3, 12*time.Second), `{"heartbeat":250000000}`), script: oldTerm}
	case "standing-by-place":
		return Ground{Name: "a voter that promised leaves", Options: with(quiet(5, 60*time.Second), `{"heartbeat":1200000000,"promise":10000000000}`), script: displaced}
	case "overtaken-work-renews":
		return Ground{Name: "a leader that was overtaken unheard", Options: with(quiet(3, 60*time.Second), `{"heartbeat":500000000,"promise":10000000000}`), script: overtaken}
	case "round-outlives-membership":
		return Ground{Name: "a word that was held up", Options: quiet(5, 12*time.Second), script: heldUp}
	case "reconfigure-without-quorum", "held-before-saved", "new-term-not-stamped":
		return Ground{Name: "members", Options: sim.Options{Profile: "members"}}
	case "largest-claim-forgotten":
		return Ground{Name: "a change while nobody promises", Options: with(quiet(3, 60*time.Second), `{"heartbeat":1200000000,"promise":10000000000}`), script: unpromised}
	}
	return Ground{}
}

// oldTerm has n2 win term 2 while n3 does not hear its request, so n3 enters that term without a
// vote. Then o1, which has been cut off since term 1, becomes a voter in the place of n1, and the
// first message that reaches it tells it to follow.
func oldTerm(s *sim.Schedule) {
	s.Observers = 1
	first(s, 3)
	s.Work.Stop = 10 * time.Millisecond
	change := func(at int64, voters ...protocol.NodeID) {
		s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpReconfigure, Group: voters, Every: 50 * time.Millisecond, For: time.Second})
	}
	s.Ops = append(s.Ops,
		sim.Op{At: ms(6000), Kind: sim.OpIsolate, Node: "o1", For: 3 * time.Second},
		sim.Op{At: ms(6500), Kind: sim.OpHalfOpen, Node: "n2", Peer: "n3", For: 150 * time.Millisecond},
		sim.Op{At: ms(6500), Kind: sim.OpTransfer, Node: "n1", Peer: "n2"},
		sim.Op{At: ms(9000), Kind: sim.OpTransfer, Node: "n2", Peer: "o1"})
	change(7000, "n2", "n3")
	change(8000, "n2", "n3", "o1")
}

// still makes the world so regular that its times are known: with a promise of 10 s n1 wins at
// 10,005, and sends its heartbeats from then on.
func still(s *sim.Schedule, nodes int) {
	s.Clocks, s.Work = nil, sim.Work{}
	s.Links, s.Disks = sim.LinkNoise{Delay: time.Millisecond}, sim.DiskNoise{Sync: time.Millisecond}
	first(s, nodes)
}

func cut(s *sim.Schedule, from, to int64, node, peer protocol.NodeID) {
	s.Ops = append(s.Ops, sim.Op{At: ms(from), Kind: sim.OpHalfOpen, Node: node, Peer: peer, For: time.Duration(to-from) * time.Millisecond})
}

// once has an operator ask for voters, at that time and not again.
func once(s *sim.Schedule, at int64, voters ...protocol.NodeID) {
	s.Ops = append(s.Ops, sim.Op{At: ms(at), Kind: sim.OpReconfigure, Group: voters, Every: 10 * time.Millisecond, For: 15 * time.Millisecond})
}

// deceived makes who believe that n1 is gone, which is only cut off.
func deceived(s *sim.Schedule, who protocol.NodeID) {
	s.Ops = append(s.Ops,
		sim.Op{At: ms(46_200), Kind: sim.OpReset, Node: "n1", Peer: who},
		sim.Op{At: ms(46_201), Kind: sim.OpIsolate, Node: "n1", For: 10 * time.Second})
}

// unpromised has n1 lead with a lease that rests on n2's promise alone, because n3's is old. Then
// o1 becomes a voter, and acknowledges that when n1, which no majority of four has answered for a
// while, asks for no promise. If o2 became a voter now, too, n2 could be elected by n3, o1 and o2,
// which have promised nothing, while n1's lease is proven.
func unpromised(s *sim.Schedule) {
	s.Observers = 2
	still(s, 3)
	cut(s, 34_100, 60_000, "n1", "n3") // its last heartbeat was at 34,005
	cut(s, 38_000, 44_000, "n1", "o1")
	cut(s, 38_000, 45_500, "o1", "n1")
	once(s, 38_850, "n1", "n2", "n3", "o1")
	cut(s, 46_070, 60_000, "n1", "o1") // which has acknowledged the heartbeat of 46,052
	cut(s, 46_070, 60_000, "n1", "o2")
	once(s, 46_100, "n1", "n2", "n3", "o1", "o2")
	deceived(s, "n2")
}

// displaced is the same with a voter that leaves: n1's lease rests on n2 and n3, and n2 goes. If n1
// took n3's promise for n4's, o1 could become a voter, and n3 be elected by n4, n5 and o1.
func displaced(s *sim.Schedule) {
	s.Observers = 1
	still(s, 5)
	cut(s, 34_100, 44_000, "n1", "n4")
	cut(s, 34_100, 60_000, "n1", "n5")
	once(s, 38_850, "n1", "n3", "n4", "n5")
	cut(s, 38_000, 45_500, "n4", "n1")
	cut(s, 46_070, 60_000, "n1", "n4")
	cut(s, 46_070, 60_000, "n1", "o1")
	once(s, 46_100, "n1", "n3", "n4", "n5", "o1")
	deceived(s, "n3")
}

// overtaken has n1 lead with n2's promise, and n2, which believes that n1 is gone, win the next
// term with n3's vote: it has to wait until its own promise is over. n3 promises to it, and loses
// its memory before it has saved that this term was won. So it helps n1 to win the term after,
// whose work has to stop, because another may have led, and takes its time.
func overtaken(s *sim.Schedule) {
	still(s, 3)
	s.Work.Stop = 5 * time.Second
	cut(s, 20_000, 40_000, "n1", "n3")
	cut(s, 34_100, 60_000, "n1", "n2") // its last heartbeat was at 34,005
	cut(s, 34_100, 60_000, "n2", "n1")
	cut(s, 39_350, 60_000, "n2", "n3")
	s.Ops = append(s.Ops,
		sim.Op{At: ms(34_200), Kind: sim.OpReset, Node: "n1", Peer: "n2"},
		sim.Op{At: ms(34_206), Kind: sim.OpSlowSync, Node: "n3", By: 10 * time.Second, For: 5 * time.Second}, // its vote is saved
		sim.Op{At: ms(39_400), Kind: sim.OpLoseWrites, Node: "n3", For: 100 * time.Millisecond})
}

// heldUp has n3 hand over to n1, and delays that message. n4 wins instead, and removes n2 and n5,
// so that two of n1, n3 and n4 are a majority. Then n1 receives the message, stands, and has its
// own vote and n2's, when it learns from n3 how few votes are enough.
func heldUp(s *sim.Schedule) {
	s.Links, s.Disks = sim.LinkNoise{Delay: time.Millisecond}, sim.DiskNoise{Sync: time.Millisecond}
	s.Work.Stop = time.Millisecond
	for _, i := range []int{1, 2, 4, 5} {
		s.Ops = append(s.Ops, sim.Op{At: 0, Kind: sim.OpWithdraw, Node: node(i), For: 4 * time.Second})
	}
	for _, p := range [][2]protocol.NodeID{{"n1", "n4"}, {"n1", "n5"}, {"n2", "n3"}, {"n2", "n4"}, {"n2", "n5"}} {
		cut(s, 6000, 12_000, p[0], p[1])
		cut(s, 6000, 12_000, p[1], p[0])
	}
	cut(s, 6000, 9000, "n1", "n3")
	s.Ops = append(s.Ops,
		sim.Op{At: ms(5900), Kind: sim.OpWithdraw, Node: "n5", For: 6 * time.Second},
		sim.Op{At: ms(6000), Kind: sim.OpClog, Node: "n3", Peer: "n1", For: 3 * time.Second},
		sim.Op{At: ms(6000), Kind: sim.OpTransfer, Node: "n3", Peer: "n1"},
		sim.Op{At: ms(7000), Kind: sim.OpReconfigure, Group: []protocol.NodeID{"n1", "n3", "n4"}, Every: 50 * time.Millisecond, For: 1500 * time.Millisecond},
		sim.Op{At: ms(9001), Kind: sim.OpDelay, Node: "n3", Peer: "n1", By: 20 * time.Millisecond, For: time.Second})
}
