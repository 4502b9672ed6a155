package protocols

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/ring"
	"github.com/electd/elect/lab/sim"
)

func ringProtocol(string) *sim.Protocol { return ringIn(ring.Name, false) }

func changRobertsProtocol(string) *sim.Protocol { return ringIn(ring.NameChangRoberts, true) }

func ringIn(name string, changRoberts bool) *sim.Protocol {
	read := func(raw json.RawMessage, id protocol.NodeID) (ring.Config, error) {
		c := ring.Config{ChangRoberts: changRoberts}
		err := decode(raw, id, &c)
		if err == nil && c.ChangRoberts != changRoberts {
			err = fmt.Errorf("config: chang_roberts %t: the protocol's name says it; leave it out, or take %s or %s", c.ChangRoberts, ring.Name, ring.NameChangRoberts)
		}
		return c, err
	}
	common := func(raw json.RawMessage) (ring.Config, error) {
		c, err := read(raw, "")
		if err != nil {
			return c, err
		}
		alone := c
		alone.Self, alone.Members, alone.Ring = "n1", []protocol.NodeID{"n1"}, nil
		_, err = ring.New(alone)
		return c, err
	}
	return &sim.Protocol{
		Name: name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			c, err := read(p.Config, p.Self.ID)
			if err != nil {
				return nil, err
			}
			c.Self, c.Members = p.Self.ID, memberIDs(p.Membership)
			return ring.New(c)
		},
		Store: sim.StoreNone,
		// Not Incarnation, which reports closed connections: this protocol does not use them.
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return c.WorstTakeover(), err
		},
		Drift:     timeless,
		Leaseless: true,
		Heartbeat: func(m *protocol.Message) bool { return m.Type == ring.Alive || m.Type == ring.Ack },
		Detects: detects(func(raw json.RawMessage) error {
			_, err := common(raw)
			return err
		}),
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return cmp.Or(c.Silence, ring.DefaultSilence), err
		},
		Expect: map[sim.Invariant]sim.Expectation{
			sim.Exclusive: sim.MustFail, // each side of a partition makes a ring of its own
			sim.OneLeader: sim.MayFail,  // and both may have raised the same epoch
			sim.NoStale:   sim.MayFail,
			// A participant that stays cut off leads itself, beside the leader of all others, which
			// is not of the core either.
			sim.Live: sim.MayFail,
		},
	}
}
