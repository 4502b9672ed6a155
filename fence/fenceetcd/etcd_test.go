package fenceetcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// etcd is as much of one as the package needs, in memory: puts, and gets of a key or a
// range, alone and in transactions. It belongs to one goroutine. That the real one
// is like it is tested in test/fencing/etcd.
type etcd struct {
	pb.KVClient // nil: nothing else is asked
	keys        map[string]*mvccpb.KeyValue
	revision    int64
	requests    int

	// answers, if there are any left, come in place of the server's, in turn: after the
	// request was applied where it is applied, instead of that where it is not.
	answers []lost
}

// lost is an answer that did not come as it was sent.
type lost struct {
	err     error
	applied bool
}

func newEtcd() (*etcd, clientv3.KV) {
	e := &etcd{keys: map[string]*mvccpb.KeyValue{}}
	return e, clientv3.NewKVFromKVClient(e, nil)
}

func (e *etcd) put(key, text string) {
	e.revision++
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(text), CreateRevision: e.revision, ModRevision: e.revision}
	if old, ok := e.keys[key]; ok {
		kv.CreateRevision = old.CreateRevision
	}
	e.keys[key] = kv
}

// text is the value of a key, "" if there is none.
func (e *etcd) text(key string) string { return string(e.keys[key].GetValue()) }

func (e *etcd) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	e.requests++
	var instead lost
	if len(e.answers) > 0 {
		instead, e.answers = e.answers[0], e.answers[1:]
		if !instead.applied {
			return nil, instead.err
		}
	}
	resp := &pb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		resp.Succeeded = resp.Succeeded && e.holds(c)
	}
	ops := r.Success
	if !resp.Succeeded {
		ops = r.Failure
	}
	for _, op := range ops {
		if get := op.GetRequestRange(); get != nil {
			resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: e.get(get)}})
			continue
		}
		put := op.GetRequestPut()
		e.put(string(put.Key), string(put.Value))
		resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}})
	}
	if instead.err != nil {
		return nil, instead.err
	}
	return resp, nil
}

// holds is applyCompare of etcd: a comparison with the value of a key that is not there
// fails, and the revisions of that key are 0.
func (e *etcd) holds(c *pb.Compare) bool {
	kv := e.keys[string(c.Key)]
	order := 0
	switch c.Target {
	case pb.Compare_VALUE:
		if kv == nil {
			return false
		}
		order = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		order = cmp.Compare(kv.GetCreateRevision(), c.GetCreateRevision())
	default:
		panic(fmt.Sprint("nobody compares ", c.Target))
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	}
	panic(fmt.Sprint("nobody compares with ", c.Result))
}

func (e *etcd) get(r *pb.RangeRequest) *pb.RangeResponse {
	resp := &pb.RangeResponse{}
	for _, name := range slices.Sorted(maps.Keys(e.keys)) {
		if name == string(r.Key) || len(r.RangeEnd) > 0 && name > string(r.Key) && name < string(r.RangeEnd) {
			resp.Kvs = append(resp.Kvs, e.keys[name])
		}
	}
	if r.SortTarget == pb.RangeRequest_CREATE {
		slices.SortFunc(resp.Kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	}
	if r.Limit > 0 {
		resp.Kvs = resp.Kvs[:min(int(r.Limit), len(resp.Kvs))]
	}
	return resp
}

func (e *etcd) Range(_ context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	e.requests++
	if len(e.answers) > 0 {
		return nil, e.answers[0].err
	}
	return e.get(r), nil
}

func (e *etcd) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	e.requests++
	if len(e.answers) > 0 {
		return nil, e.answers[0].err
	}
	delete(e.keys, string(r.Key))
	return &pb.DeleteRangeResponse{}, nil
}

// wantError checks that an error matches one, or nil.
func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}
