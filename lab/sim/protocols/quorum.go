package protocols

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/lab/sim"
)

// QuorumMutants lists the rules of the quorum protocol that can be switched off: those of its
// machine, and those of its runtime for which the world stands in.
func QuorumMutants() []quorum.Mutant {
	return append(quorum.Mutants(), quorum.Mutant{
		Name: twinsHeard, Rule: "links", Says: "Of two processes with one id a peer hears both, whichever it is connected with.",
	})
}

const twinsHeard = "twins-both-heard"

func quorumProtocol(mutant string) *sim.Protocol {
	return &sim.Protocol{
		Name: quorum.Name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			var c quorum.Config
			if err := decode(p.Config, p.Self.ID, &c); err != nil {
				return nil, err
			}
			c.Self, c.Membership = p.Self, p.Membership
			c.AwaitPosition = true // the world tells it, some time after a start
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
		Members: func(data []byte) (*protocol.Membership, error) {
			b, err := quorum.DecodeBallot(data)
			return b.Membership, err
		},
		Draw: drawQuorum,
		Never: func(raw json.RawMessage, id protocol.NodeID) (bool, error) {
			var c quorum.Config
			err := decode(raw, id, &c)
			return c.Priority == protocol.NeverLead, err
		},
		Requires: func(raw json.RawMessage) (bool, error) {
			c, err := quorumCommon(raw)
			return c.Position == quorum.RequirePosition, err
		},
		Compare: protocol.CompareNumbers,
		Yields:  yieldsQuorum,
		Drift: func(raw json.RawMessage) (protocol.Drift, error) {
			c, err := quorumCommon(raw)
			return driftOf(c.Drift), err
		},
		Authenticated: true,
		// As in package peer/internal/link, which gives the reason.
		Replaces: func(next, present uint64) bool { return next > present || mutant == twinsHeard },
		Heartbeat: func(m *protocol.Message) bool {
			return m.Type == quorum.Heartbeat || m.Type == quorum.HeartbeatAck
		},
		Detects: func(d time.Duration) (json.RawMessage, error) {
			raw, err := json.Marshal(struct {
				Heartbeat time.Duration `json:"heartbeat"`
				Promise   time.Duration `json:"promise"`
			}{d / 10, d})
			if err == nil {
				_, err = quorumCommon(raw)
			}
			return raw, err
		},
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := quorumCommon(raw)
			return cmp.Or(c.Promise, quorum.Profiles()[0].Promise), err
		},
	}
}

// drawQuorum draws priorities and a policy on positions, or neither.
func drawQuorum(r *rand.Rand, ids []protocol.NodeID) json.RawMessage {
	if r.IntN(2) == 0 {
		return nil
	}
	type own struct {
		Priority int `json:"priority"`
	}
	config := struct {
		MinTenure time.Duration           `json:"min_tenure,omitzero"`
		Steady    time.Duration           `json:"steady,omitzero"`
		Position  quorum.PositionPolicy   `json:"position,omitzero"`
		Grace     time.Duration           `json:"grace,omitzero"`
		Each      map[protocol.NodeID]own `json:"each,omitempty"`
	}{}
	if r.IntN(3) > 0 {
		config.MinTenure, config.Steady = time.Duration(1+r.IntN(10))*time.Second, time.Duration(1+r.IntN(4))*time.Second/2
		config.Each = map[protocol.NodeID]own{}
		for _, id := range ids {
			config.Each[id] = own{[...]int{50, 100, 100, 200, 1000}[r.IntN(5)]}
		}
		if len(ids) > 2 && r.IntN(3) == 0 {
			config.Each[ids[r.IntN(len(ids))]] = own{protocol.NeverLead} // the others can still lead
		}
	}
	if r.IntN(2) == 0 {
		config.Position = [...]quorum.PositionPolicy{quorum.PreferPosition, quorum.RequirePosition}[r.IntN(2)]
		config.Grace = time.Duration(1+r.IntN(8)) * time.Second / 4
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil // there is nothing in it that cannot be written
	}
	return raw
}

// yieldsQuorum is the time after a tenure's begin at which a leader may hand over to a candidate of
// a higher priority: the time that the other needs to be steady, twice, for a start that is not.
func yieldsQuorum(raw json.RawMessage) (time.Duration, error) {
	c, err := quorumCommon(raw)
	if err != nil {
		return 0, err
	}
	_, each, err := split(raw)
	if err != nil || len(each) == 0 {
		return 0, err
	}
	tenure, steady := cmp.Or(c.MinTenure, 10*cmp.Or(c.Promise, time.Second)), cmp.Or(c.Steady, 5*cmp.Or(c.Promise, time.Second))
	return 2 * max(tenure, steady), nil
}

// quorumCommon is what is common to all participants, as one of the greatest number of voters.
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
