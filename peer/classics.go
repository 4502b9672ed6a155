package peer

import (
	"cmp"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/internal/protocol/bully"
	"github.com/electd/elect/internal/protocol/raft"
	"github.com/electd/elect/internal/protocol/ring"
)

// What a token of each protocol is worth, for people.
const (
	risesByVote  = "its token rises from leader to leader, and the one with the greater one counts"
	risesByEpoch = "two sides of a partition may have a leader each, even with equal tokens"
)

// classics returns the classic protocols, by the names that they have in the simulator too.
func classics() []*classic {
	return []*classic{
		{name: "bully", rises: risesByEpoch, boots: bullyBoots, build: (*spec).bully},
		{name: "ring", rises: risesByEpoch, boots: ringBoots, build: func(s *spec) (built, error) {
			return s.ring(false)
		}},
		{name: "ring-chang-roberts", rises: risesByEpoch, boots: ringBoots, build: func(s *spec) (built, error) {
			return s.ring(true)
		}},
		{name: "raft", quorate: true, rises: risesByVote, boots: raftBoots, build: func(s *spec) (built, error) {
			return s.raft(raft.Config{})
		}},
		{name: "raft-prevote", quorate: true, rises: risesByVote, boots: raftBoots, build: func(s *spec) (built, error) {
			return s.raft(raft.Config{PreVote: true})
		}},
		{name: "raft-checkquorum", quorate: true, rises: risesByVote, boots: raftBoots, build: func(s *spec) (built, error) {
			return s.raft(raft.Config{PreVote: true, CheckQuorum: true})
		}},
		{name: "blazingmq", quorate: true, rises: risesByVote, boots: blazingmqBoots, build: func(s *spec) (built, error) {
			return s.blazingmq(blazingmq.Scouting)
		}},
		{name: "blazingmq-sticky", quorate: true, rises: risesByVote, boots: blazingmqBoots, build: func(s *spec) (built, error) {
			return s.blazingmq(blazingmq.Sticky)
		}},
		{name: "blazingmq-naive", quorate: true, rises: risesByVote, boots: blazingmqBoots, build: func(s *spec) (built, error) {
			return s.blazingmq(blazingmq.Naive)
		}},
	}
}

// bully waits 1 s for a silent coordinator by default. Ten heartbeats fit into it, and a quarter of it is left for
// answers.
func (s *spec) bully() (built, error) {
	silence := cmp.Or(s.detection, bully.DefaultSilence)
	c := bully.Config{Self: s.self, Members: s.members, Silence: silence, Heartbeat: cmp.Or(s.heartbeat, silence/10), Answer: silence / 4}
	m, err := bully.New(c)
	return built{m, c, c.Heartbeat, c.Silence, c.Silence, c.WorstTakeover()}, err
}

func bullyBoots(data []byte) error {
	_, err := bully.DecodeBallot(data)
	return err
}

// ring waits 1 s for a silent successor by default. Ten heartbeats fit into it, and a quarter of it is left for
// answers. The order of the ring is that of the voters' ids.
func (s *spec) ring(changRoberts bool) (built, error) {
	silence := cmp.Or(s.detection, ring.DefaultSilence)
	c := ring.Config{
		Self: s.self, Members: s.members, ChangRoberts: changRoberts,
		Silence: silence, Heartbeat: cmp.Or(s.heartbeat, silence/10), Answer: silence / 4,
	}
	m, err := ring.New(c)
	return built{m, c, c.Heartbeat, c.Silence, c.Silence, c.WorstTakeover()}, err
}

func ringBoots(data []byte) error {
	_, err := ring.DecodeBallot(data)
	return err
}

// raft waits one to two election timeouts for a silent leader. The default is the paper's 150 ms, with three
// heartbeats in it.
func (s *spec) raft(c raft.Config) (built, error) {
	c.Self, c.Members = s.self, s.members
	c.ElectionTimeout = cmp.Or(s.detection, 150*time.Millisecond)
	c.Heartbeat = cmp.Or(s.heartbeat, c.ElectionTimeout/3)
	m, err := raft.New(c)
	return built{m, c, c.Heartbeat, c.ElectionTimeout, c.Silence(), c.WorstTakeover()}, err
}

func raftBoots(data []byte) error {
	_, err := raft.DecodeBallot(data)
	return err
}

// blazingmq waits a whole number of heartbeats for a silent leader, by default three of 2 s. The machine saves a term
// before it sends anything in it, which BlazingMQ's own code does not do: tokens are made of terms.
func (s *spec) blazingmq(mode blazingmq.Mode) (built, error) {
	const missed = 3
	c := blazingmq.Config{Self: s.self, Members: s.members, Mode: mode, Missed: missed, Durable: true}
	switch {
	case s.detection == 0:
		c.Heartbeat = cmp.Or(s.heartbeat, 2*time.Second)
		s.detection = missed * c.Heartbeat
	case s.heartbeat == 0:
		c.Heartbeat = s.detection / missed
	case s.detection%s.heartbeat != 0:
		return built{}, fmt.Errorf("a silent leader is waited for %v with a heartbeat every %v; want a whole number of heartbeats, such as %v", s.detection, s.heartbeat, s.detection.Round(s.heartbeat))
	default:
		c.Heartbeat, c.Missed = s.heartbeat, int(s.detection/s.heartbeat)
	}
	m, err := blazingmq.New(c)
	return built{m, c, c.Heartbeat, s.detection, c.LongestSilence(), c.WorstTakeover()}, err
}

func blazingmqBoots(data []byte) error {
	_, err := blazingmq.DecodeBallot(data)
	return err
}
