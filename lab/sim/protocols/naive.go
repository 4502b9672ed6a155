package protocols

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/lab/sim"
	"github.com/electd/elect/lab/sim/naive"
)

func naives() []kind {
	return []kind{
		{"naive-redis", func(string) *sim.Protocol { return lockProtocol("naive-redis", naive.SetNX, sim.StoreExpiring) }},
		{"naive-redlock", redlockProtocol},
		{"naive-update", func(string) *sim.Protocol { return lockProtocol("naive-update", naive.Update, sim.StoreExpiring) }},
		{"naive-advisory", func(string) *sim.Protocol {
			p := lockProtocol("naive-advisory", naive.Advisory, sim.StoreSession)
			p.Expect[sim.Live] = sim.MayFail // two that believe to have the lock do so for as long as they live
			return p
		}},
	}
}

func lockProtocol(name string, form naive.Form, store sim.StoreKind) *sim.Protocol {
	p := naiveProtocol(name, func(p sim.Participant, c naive.Config) (protocol.Machine, error) {
		return naive.New(form, p.Self.ID, c)
	})
	p.Store = store
	p.Drift = timeless
	return p
}

func redlockProtocol(string) *sim.Protocol {
	p := naiveProtocol("naive-redlock", func(p sim.Participant, c naive.Config) (protocol.Machine, error) {
		return naive.NewRedlock(p.Self.ID, memberIDs(p.Membership), c)
	})
	p.Drift = func(json.RawMessage) (protocol.Drift, error) { return naive.Drift(), nil }
	p.Heartbeat = func(m *protocol.Message) bool { return m.Type == naive.Extend || m.Type == naive.Reply }
	return p
}

func naiveProtocol(name string, machine func(sim.Participant, naive.Config) (protocol.Machine, error)) *sim.Protocol {
	common := func(raw json.RawMessage) (c naive.Config, err error) {
		if err := decode(raw, "", &c); err != nil {
			return c, err
		}
		return c.WithDefaults()
	}
	return &sim.Protocol{
		Name: name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			var c naive.Config
			if err := decode(p.Config, p.Self.ID, &c); err != nil {
				return nil, err
			}
			return machine(p, c)
		},
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return c.TTL + c.TTL/2, err
		},
		Detects: func(d time.Duration) (json.RawMessage, error) {
			if d < 100*time.Millisecond {
				return nil, fmt.Errorf("a lock that lives for %v; want 100ms or more", d)
			}
			return json.Marshal(naive.Config{TTL: d})
		},
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return c.TTL, err
		},
		Expect: maps.Clone(naiveExpect),
	}
}

// naiveExpect is what is expected of all naive locks.
var naiveExpect = map[sim.Invariant]sim.Expectation{
	sim.Exclusive:   sim.MustFail,
	sim.NoStale:     sim.MustFail,
	sim.NoneOffered: sim.MustFail,
	// There is no token: every holder has the same.
	sim.OneLeader: sim.MustFail,
	sim.Once:      sim.MustFail,
}
