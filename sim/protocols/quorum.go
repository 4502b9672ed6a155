package protocols

import (
	"encoding/json"
	"time"

	"github.com/electd/elect/protocol"
	"github.com/electd/elect/protocol/quorum"
	"github.com/electd/elect/sim"
)

func quorumProtocol(mutant string) *sim.Protocol {
	return &sim.Protocol{
		Name: quorum.Name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			var c quorum.Config
			if err := decode(p.Config, p.Self.ID, &c); err != nil {
				return nil, err
			}
			c.Self, c.Membership = p.Self, p.Membership
			mutateQuorum(&c, mutant)
			return quorum.New(c)
		},
		Store: sim.StoreNone,
		Vote: func(data []byte) (sim.Vote, error) {
			b, err := quorum.DecodeBallot(data)
			return sim.Vote{Term: b.Term, For: b.VotedFor}, err
		},
		Grants: func(m *protocol.Message) (uint64, bool) {
			return m.Term, m.Type == quorum.VoteReply && m.Granted
		},
		Death: func(of protocol.Voter, incarnation uint64) protocol.Message {
			return protocol.Message{Type: quorum.WitnessRelease, Dir: of.Dir, Echo: incarnation}
		},
		Incarnation: func(data []byte) (uint64, error) {
			b, err := quorum.DecodeBallot(data)
			return b.Incarnation, err
		},
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := quorumCommon(raw)
			return c.WorstTakeover(), err
		},
		Drift: func(raw json.RawMessage) (protocol.Drift, error) {
			c, err := quorumCommon(raw)
			return driftOf(c.Drift), err
		},
	}
}

// quorumCommon is what is common to all participants, as one of the greatest
// number of voters.
func quorumCommon(raw json.RawMessage) (quorum.Config, error) {
	var c quorum.Config
	if err := decode(raw, "", &c); err != nil {
		return c, err
	}
	m := &protocol.Membership{Version: 1}
	for i := range protocol.MaxVoters {
		m.Voters = append(m.Voters, protocol.Voter{ID: protocol.NodeID("n" + string(rune('1'+i)))})
	}
	c.Self, c.Membership = m.Voters[0], m
	_, err := quorum.New(c)
	return c, err
}

func driftOf(d protocol.Drift) protocol.Drift {
	if d == (protocol.Drift{}) {
		return protocol.DefaultDrift()
	}
	return d
}
