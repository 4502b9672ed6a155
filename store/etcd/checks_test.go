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
	mu             sync.Mutex
	asked, longest int // transactions, and operations in one
}

func (r *reader) commit(_ context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	<-time.After(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.longest = max(r.longest, len(ops))
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

// TestTogether: what is asked for at one time goes in few transactions of a size that etcd takes, and
// each gets the answers to its own reads. One that is refused disturbs no other.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		c := newChecks(t.Context(), r.commit)
		var work sync.WaitGroup
		for n := range 1000 {
			work.Go(func() {
				key := strconv.Itoa(n)
				keys := []string{key, key + "/", key + ".wish"}
				if n == 50 {
					keys[0] = "denied"
				}
				a, err := c.Do(t.Context(), []clientv3.Op{clientv3.OpGet(keys[0]), clientv3.OpGet(keys[1]), clientv3.OpGet(keys[2])}, nil)
				if n == 50 {
					if !errors.Is(err, rpctypes.ErrPermissionDenied) {
						t.Errorf("%v; want that it is denied", err)
					}
					return
				}
				if err != nil || a.revision != 9 || len(a.answers) != 3 {
					t.Errorf("%s: %+v, %v", key, a, err)
					return
				}
				for i, want := range keys {
					if got := string(a.answers[i].GetResponseRange().Kvs[0].Key); got != want {
						t.Errorf("the answer for %s is that for %s", want, got)
					}
				}
			})
		}
		work.Wait()
		c.Wait()
		if few := 1000/atATime + 20; r.asked > few || r.longest > 128 {
			t.Errorf("%d transactions, with up to %d operations; want at most %d, and 128", r.asked, r.longest, few)
		}
	})
}
