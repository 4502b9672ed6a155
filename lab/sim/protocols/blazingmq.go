package protocols

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/lab/sim"
)

// The names of the other two electors of BlazingMQ's article and code.
const (
	blazingmqSticky = blazingmq.Name + "-sticky"
	blazingmqNaive  = blazingmq.Name + "-naive"
)

func blazingmqProtocol(string) *sim.Protocol {
	return blazingmqIn(blazingmq.Name, blazingmq.Scouting)
}

// blazingmqStickyProtocol lets a follower that has missed three heartbeats, on a network that loses
// messages, depose a leader that all others hear.
func blazingmqStickyProtocol(string) *sim.Protocol {
	return blazingmqIn(blazingmqSticky, blazingmq.Sticky)
}

// blazingmqNaiveProtocol is never stable while two participants that cannot see each other are both
// seen by the rest.
func blazingmqNaiveProtocol(string) *sim.Protocol {
	p := blazingmqIn(blazingmqNaive, blazingmq.Naive)
	p.Expect[sim.Live] = sim.MustFail
	return p
}

// blazingmqIn has no Vote: no vote is durable.
func blazingmqIn(name string, mode blazingmq.Mode) *sim.Protocol {
	config := func(raw json.RawMessage, self protocol.NodeID, members []protocol.NodeID, id protocol.NodeID) (blazingmq.Config, error) {
		var c blazingmq.Config
		if err := decode(raw, id, &c); err != nil {
			return c, err
		}
		if c.Mode != "" && c.Mode != mode {
			return c, fmt.Errorf("config: mode %q: the protocol's name says which; leave it out", c.Mode)
		}
		c.Self, c.Members, c.Mode = self, members, mode
		return c, nil
	}
	return &sim.Protocol{
		Name: name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			c, err := config(p.Config, p.Self.ID, blazingmqMembers(p.Membership), p.Self.ID)
			if err != nil {
				return nil, err
			}
			return blazingmq.New(c)
		},
		Store: sim.StoreNone,
		Incarnation: func(data []byte) (uint64, error) {
			b, err := blazingmq.DecodeBallot(data)
			return b.Incarnation, err
		},
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := config(raw, "n1", []protocol.NodeID{"n1"}, "")
			if err != nil {
				return 0, err
			}
			_, err = blazingmq.New(c)
			return c.WorstTakeover(), err
		},
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := config(raw, "n1", []protocol.NodeID{"n1"}, "")
			return c.Silence(), err
		},
		Drift: func(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil },
		Heartbeat: func(m *protocol.Message) bool {
			return m.Type == blazingmq.LeaderHeartbeat || m.Type == blazingmq.HeartbeatResponse
		},
		Detects: func(d time.Duration) (json.RawMessage, error) {
			const missed = 4
			if d < missed*time.Millisecond || d > missed*time.Hour {
				return nil, fmt.Errorf("%s: a silent leader noticed after %v; want %v to %v, %d heartbeats", name, d, missed*time.Millisecond, missed*time.Hour, missed)
			}
			return json.Marshal(struct {
				Heartbeat time.Duration `json:"heartbeat"`
				Missed    int           `json:"missed"`
			}{d / missed, missed})
		},
		Leaseless: true,
		// A stale leader leads until it learns of a newer one. A participant that restarts forgets
		// the terms in which it voted, and the one in which it led if it dies at once.
		Expect: map[sim.Invariant]sim.Expectation{
			sim.OneLeader: sim.MayFail,
			sim.Once:      sim.MayFail,
			sim.Exclusive: sim.MayFail,
			sim.NoStale:   sim.MayFail,
			// A participant that still hears a leader that is cut off from the others refuses their
			// scouts, and the leader does not step down: the deadlock of pre-votes alone.
			sim.Live: sim.MayFail,
		},
	}
}

// blazingmqMembers are the ids of the voters, in order.
func blazingmqMembers(m *protocol.Membership) []protocol.NodeID {
	ids := make([]protocol.NodeID, len(m.Voters))
	for i := range m.Voters {
		ids[i] = m.Voters[i].ID
	}
	return ids
}
