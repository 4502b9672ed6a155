//go:build linux

package etcd_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/electd/elect/fence"
)

// proxy is a proxy in front of etcd that forwards the first transaction and answers that it was
// canceled. It refuses the later ones, as etcd would if a later leader had claimed.
type proxy struct {
	pb.UnimplementedKVServer

	mu   sync.Mutex
	sent int
}

func (p *proxy) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if p.sent == 1 {
		return nil, status.Error(codes.Canceled, "the proxy's own")
	}
	found := &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("mark"), Value: []byte(fence.Token(6).Fixed())}}}
	return &pb.TxnResponse{Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: found}}}}, nil
}

// TestSentAgain: the client of etcd repeats a transaction that was answered with CANCELED while its
// context lasts (https://github.com/etcd-io/etcd/issues/18424), so a write may be refused that was
// applied. etcd does not answer so; a proxy in between can.
func TestSentAgain(t *testing.T) {
	for _, c := range []struct {
		tries uint // 0: the client's default
		sent  int
		want  error
	}{
		{0, 2, fence.ErrStale}, // otherwise the documentation is wrong
		{1, 1, fence.ErrUnknownOutcome},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, s := new(proxy), grpc.NewServer()
		pb.RegisterKVServer(s, p)
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop(), MaxUnaryRetries: c.tries})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err = guard(t, client, "r").Write(ctx, 5, clientv3.OpPut("k", "applied"))
		cancel()
		_ = client.Close()
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("the server: %v", err)
		}
		p.mu.Lock()
		sent := p.sent
		p.mu.Unlock()
		if !errors.Is(err, c.want) || sent != c.sent {
			t.Errorf("MaxUnaryRetries %d: sent %d times, %v; want %d times, %v", c.tries, sent, err, c.sent, c.want)
		}
	}
}
