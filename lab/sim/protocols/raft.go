package protocols

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/raft"
	"github.com/electd/elect/lab/sim"
)

// The names of Raft's election with its options.
const (
	raftPlain       = raft.Name
	raftPrevote     = raft.Name + "-prevote"
	raftCheckquorum = raft.Name + "-checkquorum"
)

func raftProtocol(string) *sim.Protocol { return raftVariant(raftPlain, false, false) }

func raftPrevoteProtocol(string) *sim.Protocol { return raftVariant(raftPrevote, true, false) }

func raftCheckquorumProtocol(string) *sim.Protocol { return raftVariant(raftCheckquorum, true, true) }

func raftVariant(name string, preVote, checkQuorum bool) *sim.Protocol {
	read := func(raw json.RawMessage, id protocol.NodeID) (raft.Config, error) {
		c := raft.Config{PreVote: preVote, CheckQuorum: checkQuorum}
		err := decode(raw, id, &c)
		if err == nil && (c.PreVote != preVote || c.CheckQuorum != checkQuorum) {
			err = fmt.Errorf("config: pre_vote %t, check_quorum %t: the protocol's name says them; leave them out, or take %s, %s or %s",
				c.PreVote, c.CheckQuorum, raftPlain, raftPrevote, raftCheckquorum)
		}
		return c, err
	}
	common := func(raw json.RawMessage) (raft.Config, error) {
		c, err := read(raw, "")
		if err != nil {
			return c, err
		}
		c.Self, c.Members = "n1", []protocol.NodeID{"n1"}
		return c, c.Validate()
	}
	return &sim.Protocol{
		Name: name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			c, err := read(p.Config, p.Self.ID)
			if err != nil {
				return nil, err
			}
			if p.Observer {
				return nil, fmt.Errorf("%s is an observer; want none: in %s everybody votes", p.Self.ID, name)
			}
			c.Self = p.Self.ID
			for _, v := range p.Membership.Voters {
				c.Members = append(c.Members, v.ID)
			}
			return raft.New(c)
		},
		Store: sim.StoreNone,
		Vote: func(data []byte) (sim.Vote, error) {
			b, err := raft.DecodeBallot(data)
			return sim.Vote{Term: b.Term, For: protocol.Voter{ID: b.VotedFor}}, err
		},
		Grants: func(m *protocol.Message) (uint64, bool) {
			return m.Term, m.Type == raft.VoteReply && m.Granted
		},
		// Not Incarnation, which reports closed connections: this protocol does not use them. A
		// full timeout passes after every failure.
		Heartbeat: func(m *protocol.Message) bool {
			return m.Type == raft.Heartbeat || m.Type == raft.HeartbeatReply
		},
		Detects: func(d time.Duration) (json.RawMessage, error) {
			// The mean of the uniform timeout is one and a half times the least.
			c := struct {
				ElectionTimeout time.Duration `json:"election_timeout"`
				Heartbeat       time.Duration `json:"heartbeat"`
			}{2 * d / 3, 2 * d / 9}
			raw, err := json.Marshal(c)
			if err == nil {
				_, err = common(raw)
			}
			return raw, err
		},
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return c.Silence(), err
		},
		Authenticated: true,
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return c.WorstTakeover(), err
		},
		Drift: func(raw json.RawMessage) (protocol.Drift, error) {
			_, err := common(raw)
			return protocol.DefaultDrift(), err // no promise rests on it
		},
		Requires: func(raw json.RawMessage) (bool, error) {
			c, err := common(raw)
			return c.Position == raft.RequirePosition, err
		},
		Compare: protocol.CompareNumbers,
		Breaks: func(raw json.RawMessage) ([]sim.OpKind, error) {
			_, err := common(raw)
			// Voters are ids, not directories: a voter whose disk was wiped has forgotten its vote,
			// and may vote again in the same term. Then two may be elected with one token. Raft
			// assumes that disks keep what they store.
			return []sim.OpKind{sim.OpWipe}, err
		},
		Leaseless: true,
		Expect:    raftExpect(preVote, checkQuorum),
	}
}

func raftExpect(preVote, checkQuorum bool) map[sim.Invariant]sim.Expectation {
	expect := map[sim.Invariant]sim.Expectation{
		// A leader that is cut off believes that it leads until it learns of a higher term, or has
		// seen that it lost its majority.
		sim.Exclusive: sim.MayFail,
	}
	if !preVote || !checkQuorum {
		// Plain: a participant outside the healed core, which the leader cannot reach and which can
		// reach the others, times out again and again, and each time its higher term deposes the
		// leader.
		//
		// With pre-votes alone: a leader that has lost its majority never steps down, and a
		// participant of the core that still hears it neither stands nor votes for another.
		expect[sim.Live] = sim.MayFail
	}
	return expect
}
