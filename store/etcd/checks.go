package etcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// checks makes the requests of Verify of all elections that share a client. Those that wait while
// others are under way go in one transaction that reads only, which is a linearizable read of etcd.
// Machines renew at common instants, so this is one request for many elections.
type checks struct {
	commit func(context.Context, ...clientv3.Op) (*clientv3.TxnResponse, error)
	life   context.Context // after its end there are no calls of get
	work   sync.WaitGroup

	mu    sync.Mutex
	queue []*check
	busy  int // goroutines of run
}

// check is a request. Its caller may have given up; then its answer is dropped.
type check struct {
	ops    []clientv3.Op   // three, which read
	gone   <-chan struct{} // closed when the caller has given up
	answer chan checked    // has room for one
}

type checked struct {
	revision int64
	ranges   []*pb.RangeResponse // one for each of ops
	err      error
}

const (
	// atATime is how many checks are in one transaction: etcd allows 128 operations by default.
	atATime = 40
	// underWay is how many of these transactions are made at a time.
	underWay = 2
)

func newChecks(life context.Context, client *clientv3.Client) *checks {
	return &checks{life: life, commit: func(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).Then(ops...).Commit()
	}}
}

// get makes three reads at one revision.
func (c *checks) get(ctx context.Context, ops ...clientv3.Op) checked {
	q := &check{ops: ops, gone: ctx.Done(), answer: make(chan checked, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, q)
	if c.busy < underWay {
		c.busy++
		c.work.Go(c.run)
	}
	c.mu.Unlock()
	select {
	case a := <-q.answer:
		return a
	case <-ctx.Done():
		return checked{err: ctx.Err()}
	}
}

// run makes transactions until nothing waits.
func (c *checks) run() {
	for {
		all := c.next()
		if len(all) == 0 {
			return
		}
		answers := c.ask(all)
		for i, q := range all {
			q.answer <- answers[i]
		}
	}
}

// next is what the next transaction has: what waits, without what was given up.
func (c *checks) next() (all []*check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 && len(all) < atATime {
		q := c.queue[0]
		c.queue = c.queue[1:]
		select {
		case <-q.gone:
		default:
			all = append(all, q)
		}
	}
	if len(all) == 0 {
		c.busy--
	}
	return all
}

// ask makes one transaction, which ends when all who wait for it have given up. If etcd refuses it for
// what one of several checks may be the reason for, each is made alone.
func (c *checks) ask(all []*check) (answers []checked) {
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	c.work.Go(func() {
		for _, q := range all {
			select {
			case <-q.gone:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	var ops []clientv3.Op
	for _, q := range all {
		ops = append(ops, q.ops...)
	}
	r, err := c.commit(ctx, ops...)
	if len(all) > 1 && isOne(err, rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps) {
		for i := range all {
			answers = append(answers, c.ask(all[i:i+1])...)
		}
		return answers
	}
	for range all {
		a := checked{err: err}
		if err == nil {
			a.revision = r.Header.Revision
			for range all[0].ops {
				a.ranges, r.Responses = append(a.ranges, r.Responses[0].GetResponseRange()), r.Responses[1:]
			}
		}
		answers = append(answers, a)
	}
	return answers
}
