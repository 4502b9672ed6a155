package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// renewals renews the leases of all elections that share a client, on one stream of etcd, because a
// stream costs the server a check of the password. (KeepAliveOnce of the client opens one each time,
// and asks without a pause while no server answers. KeepAlive of the client does not tell which
// request an answer belongs to, and a claim counts from the sending of its request.)
type renewals struct {
	open func(context.Context) (stream, error)
	life context.Context
	end  context.CancelFunc // of life
	work sync.WaitGroup

	mu  sync.Mutex
	now *flow // nil: the next renewal opens a stream
}

// stream is a stream of renewals. The server answers in the order of the requests. Its grpc-proxy
// answers those of one lease in order, but may answer with an earlier renewal of its own: see docs/etcd.md.
type stream interface {
	Send(*pb.LeaseKeepAliveRequest) error
	Recv() (*pb.LeaseKeepAliveResponse, error)
}

// flow is the requests of one stream.
type flow struct {
	end  context.CancelFunc
	wake chan struct{} // has room for one: there may be something to send

	// Guarded by the lock of renewals.
	queue   []*renewal // to be sent
	sent    []*renewal // and not answered
	answers uint64
}

// renewal is a request. Its caller may have given up; then its answer is received, and dropped.
type renewal struct {
	lease  int64
	answer chan renewed // has room for one
}

type renewed struct {
	ttl int64
	err error
}

// window is how many requests of a stream may be unanswered. A server answers those of a stream one after the other, so
// a greater window gains nothing but the time on the network; the others wait here, where they can still be given up.
// With more, a server that is too slow for all elections would answer only requests that were given up already.
const window = 16

func newRenewals(client *clientv3.Client) *renewals {
	r := &renewals{open: func(ctx context.Context) (stream, error) {
		return clientv3.RetryLeaseClient(client).LeaseKeepAlive(ctx)
	}}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// close ends the stream. There are no calls of renew any more.
func (r *renewals) close() error {
	r.end()
	r.work.Wait()
	return nil
}

// renew renews a lease, and returns its time to live in seconds, 0 if it does not exist. A request
// that is not answered before the deadline of ctx, while no other one was since it was made, ends the
// stream, and with it the requests that wait. One that is given up for another reason, as when its
// election is closed, disturbs no other.
func (r *renewals) renew(ctx context.Context, lease int64) (ttl int64, err error) {
	if ctx.Err() != nil {
		return 0, ctx.Err() // the stream may be closed already
	}
	q := &renewal{lease: lease, answer: make(chan renewed, 1)}
	r.mu.Lock()
	if r.now == nil {
		r.begin()
	}
	f := r.now
	f.queue = append(f.queue, q)
	before := f.answers
	r.mu.Unlock()
	f.ring()
	select {
	case a := <-q.answer:
		return a.ttl, a.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	f.queue = slices.DeleteFunc(f.queue, func(o *renewal) bool { return o == q })
	silent := f.answers == before
	r.mu.Unlock()
	if silent && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.fail(f, errors.New("etcd does not answer renewals"))
	}
	return 0, ctx.Err()
}

// begin makes another stream the present one. The lock is held.
func (r *renewals) begin() {
	ctx, end := context.WithCancel(r.life)
	f := &flow{end: end, wake: make(chan struct{}, 1)}
	r.now = f
	r.work.Go(func() { r.fail(f, r.run(ctx, f)) })
}

// run opens the stream of f, and receives from it until it fails.
func (r *renewals) run(ctx context.Context, f *flow) error {
	s, err := r.open(ctx)
	if err != nil {
		return rpctypes.Error(err)
	}
	r.work.Go(func() { r.send(ctx, f, s) })
	for {
		a, err := s.Recv()
		if err != nil {
			return rpctypes.Error(err)
		}
		if err := r.answered(f, a); err != nil {
			return err
		}
	}
}

// send sends what is to be sent, until the stream ends. Recv tells why it has.
func (r *renewals) send(ctx context.Context, f *flow, s stream) {
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		for {
			q := r.next(f)
			if q == nil {
				break
			}
			if s.Send(&pb.LeaseKeepAliveRequest{ID: q.lease}) != nil {
				return
			}
		}
	}
}

// next is the next request to send, nil if there is none or the window is full.
func (r *renewals) next(f *flow) *renewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(f.queue) == 0 || len(f.sent) >= window {
		return nil
	}
	q := f.queue[0]
	f.queue, f.sent = f.queue[1:], append(f.sent, q)
	return q
}

// answered gives an answer to the oldest request for its lease.
func (r *renewals) answered(f *flow, a *pb.LeaseKeepAliveResponse) error {
	r.mu.Lock()
	i := slices.IndexFunc(f.sent, func(q *renewal) bool { return q.lease == a.ID })
	if i < 0 {
		r.mu.Unlock()
		return fmt.Errorf("etcd has renewed the lease %x, which was not asked for", a.ID)
	}
	q := f.sent[i]
	f.sent = slices.Delete(f.sent, i, i+1)
	f.answers++
	r.mu.Unlock()
	f.ring()
	q.answer <- renewed{ttl: a.TTL}
	return nil
}

// fail ends the stream of f, and what waits for its answers.
func (r *renewals) fail(f *flow, err error) {
	r.mu.Lock()
	if r.now == f {
		r.now = nil
	}
	waiting := slices.Concat(f.sent, f.queue)
	f.sent, f.queue = nil, nil
	r.mu.Unlock()
	f.end()
	for _, q := range waiting {
		q.answer <- renewed{err: err}
	}
}

// ring wakes the sender.
func (f *flow) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
