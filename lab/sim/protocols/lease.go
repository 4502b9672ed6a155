package protocols

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/lab/sim"
)

func leaseProtocol(mutant string) *sim.Protocol {
	return &sim.Protocol{
		Name: lease.Name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			c := leaseDefaults()
			if err := decode(p.Config, p.Self.ID, &c); err != nil {
				return nil, err
			}
			c.Self = p.Self.ID
			mutateLease(&c, mutant)
			return lease.New(c)
		},
		Store: sim.StoreRegister,
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := leaseCommon(raw)
			if err != nil {
				return 0, err
			}
			// The longest lease of all: a candidate waits for it if the record does not name a
			// holder.
			c.Duration = c.MaxDuration
			return c.WorstTakeover(), nil
		},
		Drift: func(raw json.RawMessage) (protocol.Drift, error) {
			c, err := leaseCommon(raw)
			return driftOf(c.Drift), err
		},
		Detects: func(d time.Duration) (json.RawMessage, error) {
			// Renewals and polls are every quarter of it, by default.
			raw, err := json.Marshal(struct {
				Duration    time.Duration `json:"duration"`
				MaxDuration time.Duration `json:"max_duration"`
			}{d, d})
			if err == nil {
				_, err = leaseCommon(raw)
			}
			return raw, err
		},
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := leaseCommon(raw)
			return cmp.Or(c.Duration, c.MaxDuration, 15*time.Second), err
		},
		Breaks: func(raw json.RawMessage) ([]sim.OpKind, error) {
			c, err := leaseCommon(raw)
			if c.GlobalVersions {
				return nil, err
			}
			// The counter is part of the record: deleting the record begins a new era.
			return []sim.OpKind{sim.OpForeign}, err
		},
	}
}

// leaseDefaults are the machine's, except for what the simulated store offers: its versions go on
// rising after the record was deleted.
func leaseDefaults() lease.Config { return lease.Config{GlobalVersions: true} }

func leaseCommon(raw json.RawMessage) (lease.Config, error) {
	c := leaseDefaults()
	if err := decode(raw, "", &c); err != nil {
		return c, err
	}
	c.Self = "n1"
	_, err := lease.New(c)
	return c, err
}
