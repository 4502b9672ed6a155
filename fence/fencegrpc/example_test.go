package fencegrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencegrpc"
)

// A server guards its services; a leader claims, and shows its token with each call. The
// health service stands for one that writes. A real server has a mark that is durable.
func Example() {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"orders"}, fence.GuardConfig{})
	if err != nil {
		panic(err)
	}
	guarded := fencegrpc.NewServer(guard, fencegrpc.Config{})
	server := grpc.NewServer(guarded.Options()...)
	guarded.Register(server) // takes claims
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	orders, err := fencegrpc.NewClient("orders")
	if err != nil {
		panic(err)
	}
	options := append(orders.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(l.Addr().String(), options...)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	ctx := context.Background()
	fmt.Println(orders.Claim(ctx, conn, 42)) // before the first read
	highest, err := orders.Highest(ctx, conn)
	fmt.Println(highest, err)

	call := func(token fence.Token) error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(fence.NewContext(ctx, token), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	fmt.Println(call(42))
	err = call(41) // of the leader before, who has not heard
	fmt.Println(err, errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// 42 <nil>
	// <nil>
	// stale fencing token: 41 shown, the resource has seen 42 true
}
