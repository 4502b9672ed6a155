package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// checks makes the requests of Verify and Touch of all elections that share a client. Those that wait
// while others are under way go in one transaction. If it only reads, it is a linearizable read in etcd;
// if it writes, the client does not repeat it. Machines check at common instants, so this is one request
// for many elections.
type checks struct {
	commit func(context.Context, ...clientv3.Op) (*clientv3.TxnResponse, error)
	life   context.Context // after its end there are no calls of get
	work   sync.WaitGroup

	mu    sync.Mutex
	queue []*check
	busy  int // goroutines of run
	slow  int // of these, those whose transaction takes long
}

// check is a request. Its caller may have given up; then its answer is dropped.
type check struct {
	ops    []clientv3.Op   // at most three reads, or one transaction
	gone   <-chan struct{} // closed when the caller has given up
	answer chan checked    // has room for one
}

type checked struct {
	revision int64
	answers  []*pb.ResponseOp // one for each of ops
	err      error
}

const (
	// atATime is how many checks are in one transaction: etcd allows 128 operations by default.
	atATime = 40
	// underWay is how many of these transactions are made at a time. One that takes longer than slowAfter does not
	// count, because a server that is cut off from the others may not answer. The bound with these is mostUnderWay.
	underWay     = 2
	mostUnderWay = 8
	slowAfter    = 100 * time.Millisecond
)

func newChecks(life context.Context, client *clientv3.Client) *checks {
	return &checks{life: life, commit: func(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
		// A server that has no leader refuses it, and another one is asked.
		return client.Txn(clientv3.WithRequireLeader(ctx)).Then(ops...).Commit()
	}}
}

// get makes the operations of a check at one revision.
func (c *checks) get(ctx context.Context, ops ...clientv3.Op) checked {
	q := &check{ops: ops, gone: ctx.Done(), answer: make(chan checked, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, q)
	c.start()
	c.mu.Unlock()
	select {
	case a := <-q.answer:
		return a
	case <-ctx.Done():
		return checked{err: ctx.Err()}
	}
}

// start starts a goroutine of run if there is room for one. The caller has locked mu.
func (c *checks) start() {
	if len(c.queue) > 0 && c.busy-c.slow < underWay && c.busy < mostUnderWay {
		c.busy++
		c.work.Go(c.run)
	}
}

// run makes transactions until nothing waits.
func (c *checks) run() {
	for {
		all := c.next()
		if len(all) == 0 {
			return
		}
		ended, slow := false, 0
		timer := time.AfterFunc(slowAfter, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !ended {
				slow = 1
				c.slow++
				c.start()
			}
		})
		c.ask(all)
		timer.Stop()
		c.mu.Lock()
		ended = true
		c.slow -= slow
		c.mu.Unlock()
	}
}

// next returns the checks of the next transaction: those that wait and were not given up.
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

// ask makes one transaction, and answers its checks. It ends when all callers have given up. If etcd refuses it, and
// one of several checks may be the reason, as when two touch one election, ask asks for each half.
func (c *checks) ask(all []*check) {
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
	if n := len(all) / 2; n > 0 && isOne(err, rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrNoSpace) {
		c.ask(all[:n])
		c.ask(all[n:])
		return
	}
	for _, q := range all {
		a := checked{err: err}
		if err == nil {
			a.revision = r.Header.Revision
			for range q.ops {
				a.answers, r.Responses = append(a.answers, r.Responses[0]), r.Responses[1:]
			}
		}
		q.answer <- a
	}
}
