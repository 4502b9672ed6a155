package count

import (
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/raft"
)

// kind is a protocol as it is counted.
type kind struct {
	name        string
	least, most int
	why         string // there are no fewer and no more
	requests    bool
	told        bool // a spec may name the initiators
	ring        bool
	make        func(ids []protocol.NodeID, i int, s *Spec) (protocol.Machine, error)
	play        func(k *kind, s *Spec) (*net, error)
	// beyond are the types that come after the count's end: answers to the first
	// announcement.
	beyond  []protocol.MessageType
	formula func(s *Spec) ([]Kind, string)
}

const (
	whyMajority = "two of them have no majority without the leader, and more than 10,000 need more memory than they tell"
	whyTwo      = "one has no successor, and more than 10,000 need too much memory"
)

func kinds() []kind {
	return []kind{
		{
			name: quorum.Name, least: 3, most: protocol.MaxVoters, why: "two have no majority without the leader, and an election has at most 9 voters",
			make: makeQuorum, play: playTogether(true), formula: quorumFormula,
		},
		{
			name: lease.Name, least: 2, most: MaxNodes, why: whyTwo, requests: true,
			make: makeLease, play: playLease, formula: leaseFormula,
		},
		queueKind("queue", queue.Etcd),
		queueKind("queue-zookeeper", queue.ZooKeeper),
		bullyKind(),
		ringKind("ring", false),
		ringKind("ring-chang-roberts", true),
		raftKind("raft", raft.Config{}),
		raftKind("raft-prevote", raft.Config{PreVote: true}),
		raftKind("raft-checkquorum", raft.Config{PreVote: true, CheckQuorum: true}),
		blazingmqKind("blazingmq", blazingmq.Scouting),
		blazingmqKind("blazingmq-sticky", blazingmq.Sticky),
		blazingmqKind("blazingmq-naive", blazingmq.Naive),
	}
}

// makeQuorum makes a voter; its directory is its place.
func makeQuorum(ids []protocol.NodeID, i int, _ *Spec) (protocol.Machine, error) {
	ms := &protocol.Membership{Version: 1}
	for j, id := range ids {
		ms.Voters = append(ms.Voters, protocol.Voter{ID: id, Dir: protocol.DirID{byte(j + 1)}})
	}
	return quorum.New(quorum.Config{Self: ms.Voters[i], Membership: ms})
}

// quorumFormula: as raft with a prevote, and the answers to the first heartbeats,
// which prove the lease.
func quorumFormula(s *Spec) ([]Kind, string) {
	n := uint64(s.N)
	return []Kind{
		{Type: quorum.PreVote, Formula: n - 1}, {Type: quorum.PreVoteReply, Formula: n - 2},
		{Type: quorum.Vote, Formula: n - 1}, {Type: quorum.VoteReply, Formula: n - 2},
		{Type: quorum.Heartbeat, Formula: n - 1}, {Type: quorum.HeartbeatAck, Formula: n - 2},
	}, "6n−9"
}

func raftKind(name string, c raft.Config) kind {
	return kind{
		name: name, least: 3, most: MaxNodes, why: whyMajority,
		make: func(ids []protocol.NodeID, i int, _ *Spec) (protocol.Machine, error) {
			c := c
			c.Self, c.Members = ids[i], ids
			return raft.New(c)
		},
		play: playTogether(false), beyond: []protocol.MessageType{raft.HeartbeatReply},
		formula: func(s *Spec) ([]Kind, string) {
			n := uint64(s.N)
			all := []Kind{{Type: raft.Vote, Formula: n - 1}, {Type: raft.VoteReply, Formula: n - 2}, {Type: raft.Heartbeat, Formula: n - 1}}
			if !c.PreVote {
				return all, "3n−4"
			}
			return append([]Kind{{Type: raft.PreVote, Formula: n - 1}, {Type: raft.PreVoteReply, Formula: n - 2}}, all...), "5n−7"
		},
	}
}

func blazingmqKind(name string, mode blazingmq.Mode) kind {
	return kind{
		name: name, least: 3, most: MaxNodes, why: whyMajority,
		make: func(ids []protocol.NodeID, i int, _ *Spec) (protocol.Machine, error) {
			return blazingmq.New(blazingmq.Config{Self: ids[i], Members: ids, Mode: mode})
		},
		play: playTogether(false),
		formula: func(s *Spec) ([]Kind, string) {
			n := uint64(s.N)
			all := []Kind{{Type: blazingmq.ElectionProposal, Formula: n - 1}, {Type: blazingmq.ElectionResponse, Formula: n - 2}, {Type: blazingmq.LeaderHeartbeat, Formula: n - 1}}
			if mode != blazingmq.Scouting {
				return all, "3n−4"
			}
			return append([]Kind{{Type: blazingmq.ScoutingRequest, Formula: n - 1}, {Type: blazingmq.ScoutingResponse, Formula: n - 2}}, all...), "5n−7"
		},
	}
}

func makeLease(ids []protocol.NodeID, i int, _ *Spec) (protocol.Machine, error) {
	// The watches here can be relied on, so that no candidate needs to look by itself
	// while it waits.
	return lease.New(lease.Config{Self: ids[i], Poll: time.Hour})
}

// leaseFormula: the write that takes the record. Each other candidate that tries at the same time
// costs one more, which is refused; candidates spread their tries for that reason.
func leaseFormula(*Spec) ([]Kind, string) {
	return []Kind{{Type: op(protocol.Write), Formula: 1}}, "1"
}

func op(o protocol.Op) protocol.MessageType { return protocol.MessageType(o.String()) }

func queueKind(name string, d queue.Dialect) kind {
	return kind{
		name: name, least: 2, most: MaxNodes, why: whyTwo, requests: true,
		make: func(ids []protocol.NodeID, i int, _ *Spec) (protocol.Machine, error) {
			return queue.New(queue.Config{Self: ids[i], Dialect: d, ServersFixed: d == queue.Etcd})
		},
		play: playQueue,
		formula: func(*Spec) ([]Kind, string) {
			if d == queue.Etcd {
				return []Kind{{Type: op(protocol.List), Formula: 1}, {Type: op(protocol.Verify), Formula: 1}}, "2"
			}
			return []Kind{
				{Type: op(protocol.List), Formula: 2}, {Type: op(protocol.Touch), Formula: 1 + heldOff}, {Type: op(protocol.Mark), Formula: 1},
			}, "8"
		},
	}
}

// heldOff is how often a winner over ZooKeeper renews its claim while it holds off: each quarter of
// the hold.
const heldOff = 4

// playTogether lets time pass at all machines alike: in protocols whose voters stand by a leader
// that they have heard, a machine that is ahead of the others cannot win. The one whose timer
// expires first stands. With proven, the count ends when the lease is proven.
func playTogether(proven bool) func(*kind, *Spec) (*net, error) {
	return func(k *kind, s *Spec) (*net, error) {
		w, err := k.net(s)
		if err != nil {
			return nil, err
		}
		won := func() bool { return w.elected != none && (!proven || w.leading == w.elected) }
		w.boot()
		if err := w.together(won); err != nil {
			return nil, err
		}
		// Two heartbeats later all follow.
		old := w.elected
		for range 2 {
			w.nodes[old].sent = false
			if err := w.together(func() bool { return w.nodes[old].sent }); err != nil {
				return nil, err
			}
		}
		w.kill(old)
		w.counting = true
		return w, w.together(won)
	}
}

// net makes the machines.
func (k *kind) net(s *Spec) (*net, error) {
	ids := names(s.N)
	return newNet(ids, s.Seed, func(i int) (protocol.Machine, error) { return k.make(ids, i, s) })
}

// kill ends a process, and forgets what it has won.
func (w *net) kill(i int) {
	w.nodes[i].dead = true
	w.store.leave(i)
	w.clear()
}

// playLease: one holds the record, all others watch it. The holder dies; one of them finds that it
// has waited for long enough.
func playLease(k *kind, s *Spec) (*net, error) {
	w, err := k.net(s)
	if err != nil {
		return nil, err
	}
	w.boot()
	if err := w.alone(0, func() bool { return w.leading == 0 }); err != nil {
		return nil, err
	}
	// All others read the record, and see its holder.
	for i := 1; i < s.N; i++ {
		if err := w.alone(i, func() bool {
			return w.nodes[i].machine.View().Leader.ID == w.ids[0] && w.nodes[i].machine.NextFire() > w.now(i)
		}); err != nil {
			return nil, err
		}
	}
	w.kill(0)
	w.counting = true
	return w, w.alone(1, func() bool { return w.leading == 1 })
}

// playQueue: all stand in the queue in the order of their places. The first, which leads, dies, and
// its session expires.
func playQueue(k *kind, s *Spec) (*net, error) {
	w, err := k.net(s)
	if err != nil {
		return nil, err
	}
	for i := range w.nodes {
		w.give(i, protocol.Input{Kind: protocol.Boot})
		w.do(i, protocol.Campaign)
		if err := w.alone(i, func() bool { return w.store.waits(i) || w.leading == i }); err != nil {
			return nil, err
		}
	}
	if w.leading != 0 {
		return nil, fmt.Errorf("%s leads; want the first of the queue", w.ids[w.leading])
	}
	session := w.store.entries[0].Session
	w.kill(0)
	w.counting = true
	w.store.expire(session)
	return w, w.alone(1, func() bool { return w.leading == 1 })
}
