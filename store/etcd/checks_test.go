package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// reader is a fake of etcd's server of transactions. Each read finds one key, the one that it asks for.
type reader struct {
	mu            sync.Mutex
	mute          bool // it never answers
	asked, now    int  // transactions, and those that are under way
	most, longest int  // of them at a time, and of operations in one
}

func (r *reader) commit(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	r.mu.Lock()
	r.asked++
	r.now++
	r.most, r.longest = max(r.most, r.now), max(r.longest, len(ops))
	mute := r.mute
	r.mu.Unlock()
	if mute {
		<-ctx.Done()
	} else {
		<-time.After(time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if mute {
		return nil, ctx.Err()
	}
	out := &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 9}}
	for _, op := range ops {
		if string(op.KeyBytes()) == "denied" {
			return nil, rpctypes.ErrPermissionDenied
		}
		found := &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: op.KeyBytes()}}}
		out.Responses = append(out.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: found}})
	}
	return (*clientv3.TxnResponse)(out), nil
}

// reads runs a test with a server.
func reads(t *testing.T, do func(t *testing.T, r *reader, c *checks)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		life, end := context.WithCancel(t.Context())
		c := &checks{commit: r.commit, life: life}
		do(t, r, c)
		end()
		c.work.Wait()
		if len(c.queue) > 0 || c.busy > 0 {
			t.Errorf("%d wait, %d goroutines; want none", len(c.queue), c.busy)
		}
	})
}

func (c *checks) within(ctx context.Context, key string) checked {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.get(ctx, clientv3.OpGet(key), clientv3.OpGet(key+"/"), clientv3.OpGet(key+".wish"))
}

// TestTogether: what is asked for at one time goes in few transactions of a size that etcd takes, and
// each gets the answers to its own reads. One that is refused disturbs no other.
func TestTogether(t *testing.T) {
	reads(t, func(t *testing.T, r *reader, c *checks) {
		var work sync.WaitGroup
		for n := range 1000 {
			work.Go(func() {
				key := strconv.Itoa(n)
				a := c.within(t.Context(), key)
				if a.err != nil || a.revision != 9 || len(a.answers) != 3 {
					t.Errorf("%s: %+v", key, a)
					return
				}
				for i, suffix := range []string{"", "/", ".wish"} {
					if got := string(a.answers[i].GetResponseRange().Kvs[0].Key); got != key+suffix {
						t.Errorf("the answer for %s is that for %s", key+suffix, got)
					}
				}
			})
		}
		work.Wait()
		if r.asked > 1000/atATime+underWay || r.most > underWay || r.longest > 128 {
			t.Errorf("%d transactions, %d at a time, with up to %d operations", r.asked, r.most, r.longest)
		}
	})
	reads(t, func(t *testing.T, _ *reader, c *checks) {
		var work sync.WaitGroup
		for n := range 100 {
			work.Go(func() {
				if n == 50 {
					if a := c.within(t.Context(), "denied"); !errors.Is(a.err, rpctypes.ErrPermissionDenied) {
						t.Errorf("%v; want that it is denied", a.err)
					}
				} else if a := c.within(t.Context(), strconv.Itoa(n)); a.err != nil {
					t.Error(a.err)
				}
			})
		}
		work.Wait()
	})
}

// TestUnheard: a transaction that is not answered goes on while one waits for it, and ends with the
// last one. What was given up before it was sent is not sent.
func TestUnheard(t *testing.T) {
	reads(t, func(t *testing.T, r *reader, c *checks) {
		r.mute = true
		var first, rest sync.WaitGroup
		vain := func(ctx context.Context) {
			if a := c.within(ctx, "key"); a.err == nil {
				t.Error("an answer from nowhere")
			}
		}
		for range underWay {
			first.Go(func() { vain(t.Context()) })
			synctest.Wait()
		}
		closing, end := context.WithCancel(t.Context())
		for range 50 {
			rest.Go(func() { vain(closing) })
		}
		synctest.Wait()
		end()
		rest.Wait()
		first.Wait()
		synctest.Wait()
		if r.asked != underWay || r.now != 0 {
			t.Errorf("%d transactions, of which %d go on; want %d, and none", r.asked, r.now, underWay)
		}

		one, other := make(chan struct{}), make(chan struct{})
		both := []*check{{gone: one, answer: make(chan checked, 1)}, {gone: other, answer: make(chan checked, 1)}}
		first.Go(func() {
			c.ask(both)
			for _, q := range both {
				if a := <-q.answer; a.err == nil {
					t.Error("an answer from nowhere")
				}
			}
		})
		close(one)
		synctest.Wait()
		if r.now != 1 {
			t.Error("a transaction has ended though one waits for it")
		}
		close(other)
		first.Wait()

		r.mute = false
		if a := c.within(t.Context(), "next"); a.err != nil {
			t.Error(a.err)
		}
	})
}

// TestSlow: transactions that a server does not answer do not keep others from one that does.
func TestSlow(t *testing.T) {
	reads(t, func(t *testing.T, r *reader, c *checks) {
		answers := func(mute bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.mute = mute
		}
		answers(true)
		var work sync.WaitGroup
		defer work.Wait()
		hung, end := context.WithCancel(t.Context())
		defer end()
		for n := range 3 * mostUnderWay {
			work.Go(func() { c.within(hung, "key") })
			<-time.After(slowAfter)
			synctest.Wait()
			r.mu.Lock()
			most := r.most
			r.mu.Unlock()
			if most > mostUnderWay {
				t.Fatalf("%d transactions are under way; want at most %d", most, mostUnderWay)
			}
			if n == underWay { // they were too few for a further one until now
				answers(false)
				begun := time.Now()
				if a := c.within(t.Context(), "next"); a.err != nil || time.Since(begun) > 2*slowAfter {
					t.Errorf("%v after %v; want an answer", a.err, time.Since(begun))
				}
				answers(true)
			}
		}
	})
}
