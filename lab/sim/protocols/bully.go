package protocols

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/bully"
	"github.com/electd/elect/lab/sim"
)

func bullyProtocol(string) *sim.Protocol {
	return &sim.Protocol{
		Name: bully.Name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			var c bully.Config
			if err := decode(p.Config, p.Self.ID, &c); err != nil {
				return nil, err
			}
			c.Self, c.Members = p.Self.ID, memberIDs(p.Membership)
			return bully.New(c)
		},
		Store: sim.StoreNone,
		// Not Incarnation, which reports closed connections: this protocol does not use them.
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := bullyCommon(raw)
			return c.WorstTakeover(), err
		},
		Drift:     timeless,
		Leaseless: true,
		Heartbeat: func(m *protocol.Message) bool { return m.Type == bully.Alive },
		Detects: detects(func(raw json.RawMessage) error {
			_, err := bullyCommon(raw)
			return err
		}),
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := bullyCommon(raw)
			return cmp.Or(c.Silence, bully.DefaultSilence), err
		},
		Expect: map[sim.Invariant]sim.Expectation{
			sim.Exclusive: sim.MustFail, // each side of a partition has its coordinator
			sim.OneLeader: sim.MayFail,  // and both may have raised the same epoch
			sim.NoStale:   sim.MayFail,
			// Where links stay cut one way, or between some only, coordinators depose
			// each other for as long as that lasts.
			sim.Live: sim.MayFail,
		},
	}
}

// bullyCommon is what is common to all participants, as one alone.
func bullyCommon(raw json.RawMessage) (bully.Config, error) {
	var c bully.Config
	if err := decode(raw, "", &c); err != nil {
		return c, err
	}
	c.Self, c.Members = "n1", []protocol.NodeID{"n1"}
	_, err := bully.New(c)
	return c, err
}

// detects is Protocol.Detects of participants that miss a leader's heartbeats: ten are sent in the
// time, and answers are awaited for a quarter of it.
func detects(check func(json.RawMessage) error) func(time.Duration) (json.RawMessage, error) {
	return func(d time.Duration) (json.RawMessage, error) {
		raw, err := json.Marshal(struct {
			Heartbeat time.Duration `json:"heartbeat"`
			Silence   time.Duration `json:"silence"`
			Answer    time.Duration `json:"answer"`
		}{d / 10, d, d / 4})
		if err == nil && d < time.Millisecond {
			err = fmt.Errorf("a silent leader noticed after %v; want 1ms or more", d)
		}
		if err == nil {
			err = check(raw)
		}
		return raw, err
	}
}

// memberIDs returns the ids of all participants.
func memberIDs(ms *protocol.Membership) []protocol.NodeID {
	ids := make([]protocol.NodeID, 0, len(ms.Voters))
	for i := range ms.Voters {
		ids = append(ids, ms.Voters[i].ID)
	}
	return ids
}

// timeless is the assumption on clocks of protocols that make none: they run in the world's default
// clocks.
func timeless(json.RawMessage) (protocol.Drift, error) { return protocol.DefaultDrift(), nil }
