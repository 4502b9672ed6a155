package protocols

import (
	"encoding/json"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/lab/sim"
)

// The names of the queue protocol over the two kinds of store.
const (
	queueEtcd      = queue.Name
	queueZooKeeper = queue.Name + "-zookeeper"
)

func etcdProtocol(mutant string) *sim.Protocol {
	return queueProtocol(queueEtcd, queue.Etcd, sim.StoreEtcd, mutant)
}

func zookeeperProtocol(mutant string) *sim.Protocol {
	return queueProtocol(queueZooKeeper, queue.ZooKeeper, sim.StoreZooKeeper, mutant)
}

func queueProtocol(name string, dialect queue.Dialect, store sim.StoreKind, mutant string) *sim.Protocol {
	common := func(raw json.RawMessage) (queue.Config, error) {
		var c queue.Config
		if err := decode(raw, "", &c); err != nil {
			return c, err
		}
		c.Self, c.Dialect = "n1", dialect
		m, err := queue.New(c)
		if err != nil {
			return c, err
		}
		return m.Config(), nil // with its defaults
	}
	return &sim.Protocol{
		Name: name,
		New: func(p sim.Participant) (protocol.Machine, error) {
			var c queue.Config
			if err := decode(p.Config, p.Self.ID, &c); err != nil {
				return nil, err
			}
			c.Self, c.Dialect = p.Self.ID, dialect
			mutateQueue(&c, mutant)
			return queue.New(c)
		},
		Store: store,
		Patience: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			if c.Hold > 0 {
				// The longest hold of all: a candidate waits for it if there is no mark.
				c.Hold = c.MaxHold
				c.TTL = max(c.TTL, c.Hold)
			}
			return c.WorstTakeover(), err
		},
		Drift: func(raw json.RawMessage) (protocol.Drift, error) {
			c, err := common(raw)
			return driftOf(c.Drift), err
		},
		Detects: func(d time.Duration) (json.RawMessage, error) {
			raw, err := queueDetects(dialect, d)
			if err == nil {
				_, err = common(raw)
			}
			return raw, err
		},
		Silence: func(raw json.RawMessage) (time.Duration, error) {
			c, err := common(raw)
			return c.TTL + c.Hold, err
		},
		Breaks: func(raw json.RawMessage) ([]sim.OpKind, error) {
			c, err := common(raw)
			if c.Hold > 0 {
				return nil, err
			}
			// Without a hold the next candidate leads as soon as the entry before its own is gone,
			// whatever deleted it.
			return []sim.OpKind{sim.OpForeign, sim.OpExpireEarly, sim.OpStoreHang}, err
		},
	}
}

// queueDetects is the configuration in which, after about d, the session of a silent leader has
// ended, together with the other waits of its successor. etcd's servers are known to have the fix,
// so there is no hold. etcd counts whole seconds, at least two with servers that elect within one:
// the time is rounded up to that.
func queueDetects(dialect queue.Dialect, d time.Duration) (json.RawMessage, error) {
	ttl := max((d + time.Second - 1).Truncate(time.Second), 2*time.Second)
	if dialect == queue.ZooKeeper {
		ttl = max((2 * d / 3).Truncate(time.Millisecond), time.Millisecond) // half as much again is held
	}
	return json.Marshal(struct {
		TTL    time.Duration `json:"ttl"`
		Max    time.Duration `json:"max_hold"`
		Mended bool          `json:"servers_mended"`
	}{ttl, ttl, dialect == queue.Etcd})
}
