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
		{name: "bully", rises: risesByEpoch, boots: decodes(bully.DecodeBallot), build: bullyOf},
		{name: "ring", rises: risesByEpoch, boots: decodes(ring.DecodeBallot), build: ringOf(false)},
		{name: "ring-chang-roberts", rises: risesByEpoch, boots: decodes(ring.DecodeBallot), build: ringOf(true)},
		{name: "raft", quorate: true, rises: risesByVote, boots: decodes(raft.DecodeBallot), build: raftOf(raft.Config{})},
		{name: "raft-prevote", quorate: true, rises: risesByVote, boots: decodes(raft.DecodeBallot), build: raftOf(raft.Config{PreVote: true})},
		{name: "raft-checkquorum", quorate: true, rises: risesByVote, boots: decodes(raft.DecodeBallot), build: raftOf(raft.Config{PreVote: true, CheckQuorum: true})},
		{name: "blazingmq", quorate: true, rises: risesByVote, boots: decodes(blazingmq.DecodeBallot), build: blazingmqOf(blazingmq.Scouting)},
		{name: "blazingmq-sticky", quorate: true, rises: risesByVote, boots: decodes(blazingmq.DecodeBallot), build: blazingmqOf(blazingmq.Sticky)},
		{name: "blazingmq-naive", quorate: true, rises: risesByVote, boots: decodes(blazingmq.DecodeBallot), build: blazingmqOf(blazingmq.Naive)},
	}
}

// decodes reports only the error of decode.
func decodes[T any](decode func([]byte) (T, error)) func([]byte) error {
	return func(data []byte) error {
		_, err := decode(data)
		return err
	}
}

// bullyOf builds a machine that waits 1 s for a silent coordinator by default. Ten heartbeats fit into it, and a
// quarter of it is left for answers.
func bullyOf(s *spec) (built, error) {
	silence := cmp.Or(s.detection, bully.DefaultSilence)
	c := bully.Config{Self: s.self, Members: s.members, Silence: silence, Heartbeat: cmp.Or(s.heartbeat, silence/10), Answer: silence / 4}
	m, err := bully.New(c)
	return built{m, c, c.Heartbeat, c.Silence, c.Silence, c.WorstTakeover()}, err
}

// ringOf builds machines that wait 1 s for a silent successor by default. Ten heartbeats fit into it, and a quarter of
// it is left for answers. The order of the ring is that of the voters' ids.
func ringOf(changRoberts bool) func(*spec) (built, error) {
	return func(s *spec) (built, error) {
		silence := cmp.Or(s.detection, ring.DefaultSilence)
		c := ring.Config{
			Self: s.self, Members: s.members, ChangRoberts: changRoberts,
			Silence: silence, Heartbeat: cmp.Or(s.heartbeat, silence/10), Answer: silence / 4,
		}
		m, err := ring.New(c)
		return built{m, c, c.Heartbeat, c.Silence, c.Silence, c.WorstTakeover()}, err
	}
}

// raftOf builds machines that wait one to two election timeouts for a silent leader. The default is the paper's 150 ms,
// with three heartbeats in it.
func raftOf(c raft.Config) func(*spec) (built, error) {
	return func(s *spec) (built, error) {
		c := c // the next machine begins with the same
		c.Self, c.Members = s.self, s.members
		c.ElectionTimeout = cmp.Or(s.detection, 150*time.Millisecond)
		c.Heartbeat = cmp.Or(s.heartbeat, c.ElectionTimeout/3)
		m, err := raft.New(c)
		return built{m, c, c.Heartbeat, c.ElectionTimeout, c.Silence(), c.WorstTakeover()}, err
	}
}

// blazingmqOf builds machines that wait a whole number of heartbeats for a silent leader, by default three of 2 s. They
// save a term before they send anything in it, which BlazingMQ's own code does not do: tokens are made of terms.
func blazingmqOf(mode blazingmq.Mode) func(*spec) (built, error) {
	return func(s *spec) (built, error) {
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
}
