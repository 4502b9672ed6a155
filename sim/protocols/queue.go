package protocols

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/electd/elect/protocol"
	"github.com/electd/elect/protocol/queue"
	"github.com/electd/elect/sim"
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
		return c, c.Validate()
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
			ttl := cmp.Or(c.TTL, 10*time.Second) // the machine's default
			if c.Dialect == queue.ZooKeeper {
				return ttl + cmp.Or(c.Hold, (ttl/2).Truncate(time.Millisecond)), err
			}
			return ttl + c.Hold, err
		},
		Breaks: func(raw json.RawMessage) ([]sim.OpKind, error) {
			c, err := common(raw)
			if c.Dialect == queue.ZooKeeper || c.Hold > 0 {
				return nil, err
			}
			// Without a hold the next one leads as soon as the entry before its own
			// is gone, whoever deleted that.
			return []sim.OpKind{sim.OpForeign, sim.OpExpireEarly}, err
		},
	}
}

// queueDetects is the configuration in which the session of a silent leader, and
// what its successor waits for beside it, are over after about d. etcd counts
// whole seconds, and two at least with servers that elect within one: what is
// asked for is rounded up to that.
func queueDetects(dialect queue.Dialect, d time.Duration) (json.RawMessage, error) {
	ttl := max((d + time.Second - 1).Truncate(time.Second), 2*time.Second)
	if dialect == queue.ZooKeeper {
		ttl = max((2 * d / 3).Truncate(time.Millisecond), time.Millisecond) // half as much again is held
	}
	return json.Marshal(struct {
		TTL time.Duration `json:"ttl"`
	}{ttl})
}
