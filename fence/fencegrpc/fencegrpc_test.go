package fencegrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencegrpc"
)

// The methods of the service that is guarded.
const (
	callMethod   = "/test.Service/Call"
	streamMethod = "/test.Service/Stream"
)

// service runs what the test says.
type service struct {
	call   func(context.Context) error
	stream func(grpc.ServerStream) error
	ran    atomic.Int64
}

func (s *service) desc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Service",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Call",
			Handler: func(srv any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
				req := new(wrapperspb.StringValue)
				if err := decode(req); err != nil {
					return nil, err
				}
				return through(ctx, req, &grpc.UnaryServerInfo{FullMethod: callMethod}, func(ctx context.Context, _ any) (any, error) {
					s.ran.Add(1)
					if s.call != nil {
						if err := s.call(ctx); err != nil {
							return nil, err
						}
					}
					return wrapperspb.String("done"), nil
				})
			},
		}},
		Streams: []grpc.StreamDesc{{
			StreamName:    "Stream",
			ServerStreams: true,
			ClientStreams: true,
			Handler: func(_ any, ss grpc.ServerStream) error {
				s.ran.Add(1)
				return s.stream(ss)
			},
		}},
	}
}

// serve starts a server with a guard of "orders", and connects a client to it.
func serve(t *testing.T, s *service, mark fence.Mark, guarding fence.GuardConfig, cfg fencegrpc.Config) *grpc.ClientConn {
	t.Helper()
	guard, err := fence.NewGuard(mark, []fence.Resource{"orders"}, guarding)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	guarded := fencegrpc.NewServer(guard, cfg)
	server := grpc.NewServer(guarded.Options()...)
	guarded.Register(server)
	server.RegisterService(s.desc(), s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(l.Addr().String(), append(client(t, "orders").DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func call(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, callMethod, wrapperspb.String(""), new(wrapperspb.StringValue))
}

func with(t *testing.T, token fence.Token) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return fence.NewContext(ctx, token)
}

func open(ctx context.Context, t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUnary: equal and greater tokens pass; what does not pass does not run.
func TestUnary(t *testing.T) {
	s := &service{call: func(ctx context.Context) error {
		if token, ok := fence.FromContext(ctx); !ok || token < 41 {
			t.Errorf("the handler's context carries %v, %v", token, ok)
		}
		return nil
	}}
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{Era: fence.MaxEra, MaxStep: fence.MaxCount}, fencegrpc.Config{})
	if highest, err := client(t, "orders").Highest(t.Context(), conn); highest != 0 || err != nil {
		t.Errorf("the mark of what was never claimed: %v, %v", highest, err)
	}
	for _, token := range []fence.Token{41, 41, 42} {
		if err := call(with(t, token), conn); err != nil {
			t.Errorf("%v: %v", token, err)
		}
	}
	err := call(with(t, 41), conn)
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Shown: 41, Highest: 42}) {
		t.Errorf("41 after 42: %v", err)
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the code of a stale token is %v", status.Code(err))
	}
	if err := client(t, "orders").Claim(t.Context(), conn, 41); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a claim with 41 after 42: %v", err)
	}
	if err := client(t, "orders").Claim(t.Context(), conn, fence.MaxToken); err != nil {
		t.Errorf("a claim with the greatest token: %v", err)
	}
	if highest, err := client(t, "orders").Highest(t.Context(), conn); highest != fence.MaxToken || err != nil {
		t.Errorf("the mark: %v, %v", highest, err)
	}
	if n := s.ran.Load(); n != 3 {
		t.Errorf("the handler ran %d times; want 3", n)
	}
}

// TestRefusals: what a server says of metadata as they come, to any client.
func TestRefusals(t *testing.T) {
	s := &service{stream: func(grpc.ServerStream) error { return nil }}
	var seen atomic.Int64
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{
		Observe: func(fence.Decision) { seen.Add(1) },
	})
	for _, tt := range []struct {
		values []string
		want   error
		code   codes.Code
	}{
		{nil, fence.ErrMissing, codes.InvalidArgument},
		{[]string{""}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"42"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"orders;0"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"orders;-1"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"orders;9223372036854775808"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"orders;281474976710656"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"no name;1"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"orders;42", "orders;42"}, fence.ErrToken, codes.InvalidArgument},
		{[]string{"others;42"}, fence.ErrResource, codes.InvalidArgument},
	} {
		ctx := t.Context()
		for _, v := range tt.values {
			ctx = metadata.AppendToOutgoingContext(ctx, fencegrpc.Key, v)
		}
		if err := call(ctx, conn); !errors.Is(err, tt.want) || status.Code(err) != tt.code || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("%q: %v; want %v and the code %v", tt.values, err, tt.want, tt.code)
		} else if strings.Count(err.Error(), tt.want.Error()) != 1 {
			t.Errorf("%q: %v says twice what is wrong", tt.values, err)
		}
		st := open(ctx, t, conn)
		if err := st.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, tt.want) || status.Code(err) != tt.code {
			t.Errorf("%q, of a stream: %v; want %v and the code %v", tt.values, err, tt.want, tt.code)
		}
	}
	if n := s.ran.Load(); n != 0 {
		t.Errorf("handlers ran %d times", n)
	}
	if n := seen.Load(); n != 18 { // the guard was told of the others
		t.Errorf("%d refusals were told; want 18", n)
	}
	if _, err := client(t, "others").Highest(t.Context(), conn); !errors.Is(err, fence.ErrResource) {
		t.Errorf("the mark of another resource: %v", err)
	}
}

// TestOpen: methods that need no token, and are checked all the same when they show one.
func TestOpen(t *testing.T) {
	conn := serve(t, new(service), new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{Open: func(string) bool { return true }})
	if err := call(t.Context(), conn); err != nil {
		t.Errorf("without a token: %v", err)
	}
	if err := client(t, "orders").Claim(t.Context(), conn, 2); err != nil {
		t.Fatal(err)
	}
	if err := call(with(t, 1), conn); !errors.Is(err, fence.ErrStale) {
		t.Errorf("with a smaller token: %v", err)
	}
}

// TestStreamIsEnded: a greater token ends streams of smaller ones, whatever their clients
// do, and is admitted when their handlers have returned.
func TestStreamIsEnded(t *testing.T) {
	for _, name := range []string{"while it waits for its client", "while its client takes nothing"} {
		t.Run(name, func(t *testing.T) {
			running := make(chan struct{})
			var returned atomic.Bool
			s := &service{stream: func(ss grpc.ServerStream) error {
				defer returned.Store(true)
				close(running)
				if name == "while it waits for its client" {
					return ss.RecvMsg(new(wrapperspb.StringValue))
				}
				for big := wrapperspb.Bytes(make([]byte, 1<<16)); ; {
					if err := ss.SendMsg(big); err != nil {
						return err
					}
				}
			}}
			s.call = func(context.Context) error {
				if !returned.Load() {
					t.Error("the greater token is at work beside the smaller one")
				}
				return nil
			}
			conn := serve(t, s, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
			st := open(with(t, 1), t, conn)
			<-running
			if err := call(with(t, 2), conn); err != nil {
				t.Fatalf("the greater token: %v", err)
			}
			var err error
			for err == nil {
				err = st.RecvMsg(new(wrapperspb.BytesValue))
			}
			if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) || status.Code(err) != codes.Aborted {
				t.Errorf("the stream ended with %v", err)
			}
			st = open(with(t, 1), t, conn)
			if err := st.RecvMsg(new(wrapperspb.BytesValue)); !errors.Is(err, fence.ErrStale) {
				t.Errorf("the smaller token again: %v", err)
			}
		})
	}
}

// TestStreamPasses: messages go both ways, and the handler's answer comes as it is.
func TestStreamPasses(t *testing.T) {
	own := status.Error(codes.NotFound, "of the handler")
	s := &service{stream: func(ss grpc.ServerStream) error {
		for {
			m := new(wrapperspb.StringValue)
			if err := ss.RecvMsg(m); err == io.EOF {
				return own
			} else if err != nil {
				return err
			}
			if err := ss.SendMsg(m); err != nil {
				return err
			}
		}
	}}
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	st := open(with(t, 1), t, conn)
	for _, want := range []string{"a", "b"} {
		if err := st.SendMsg(wrapperspb.String(want)); err != nil {
			t.Fatal(err)
		}
		got := new(wrapperspb.StringValue)
		if err := st.RecvMsg(got); err != nil || got.GetValue() != want {
			t.Fatalf("%q, %v; want %q", got.GetValue(), err, want)
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := st.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.NotFound || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("at the end: %v", err)
	}
}

// TestBusy: while a handler does not heed its context, the greater token is told to come
// again.
func TestBusy(t *testing.T) {
	running, done := make(chan struct{}), make(chan struct{})
	s := &service{call: func(ctx context.Context) error {
		if token, _ := fence.FromContext(ctx); token == 1 {
			close(running)
			<-done
		}
		return nil
	}}
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{Patience: time.Millisecond}, fencegrpc.Config{})
	older := make(chan error, 1)
	go func() { older <- call(with(t, 1), conn) }()
	<-running
	err := client(t, "orders").Claim(with(t, 2), conn, 2)
	if !errors.Is(err, fence.ErrBusy) || status.Code(err) != codes.Unavailable || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("a claim while a smaller token is at work: %v", err)
	}
	if err := call(with(t, 1), conn); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the smaller token again: %v", err)
	}
	close(done)
	if err := <-older; err != nil {
		t.Errorf("a call that was done before the greater token was admitted: %v", err)
	}
	if err := client(t, "orders").Claim(with(t, 2), conn, 2); err != nil {
		t.Errorf("a claim afterwards: %v", err)
	}
}

// broken is a mark that cannot be reached.
type broken struct{ fence.Mark }

func (broken) Highest(context.Context, fence.Resource) (fence.Token, error) { return 0, nil }

func (broken) Raise(context.Context, fence.Resource, fence.Token) error {
	return errors.New("at 10.0.0.1: no route")
}

// TestFailingMark: nothing passes, and the client is not told where the mark is.
func TestFailingMark(t *testing.T) {
	s := new(service)
	conn := serve(t, s, broken{}, fence.GuardConfig{}, fencegrpc.Config{})
	err := call(with(t, 1), conn)
	if status.Code(err) != codes.Unavailable || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrUnknownOutcome) ||
		err.Error() != "fencegrpc: refused: the mark could not be read or raised" {
		t.Errorf("%v", err)
	}
	if s.ran.Load() != 0 {
		t.Error("the handler ran")
	}
}

// TestForeignRefusal: what a handler got from another server says nothing of its own work.
func TestForeignRefusal(t *testing.T) {
	other := serve(t, new(service), new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	if err := client(t, "orders").Claim(t.Context(), other, 2); err != nil {
		t.Fatal(err)
	}
	conn := serve(t, &service{call: func(ctx context.Context) error { return call(ctx, other) }}, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	if err := call(with(t, 1), conn); !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a handler that has run, and then was refused elsewhere: %v", err)
	}
}

// TestUnknownOutcome: a connection that breaks while the handler runs is no refusal.
func TestUnknownOutcome(t *testing.T) {
	running := make(chan struct{})
	conn := serve(t, &service{call: func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}}, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	ctx, cancel := context.WithCancel(with(t, 1))
	go func() { <-running; cancel() }()
	if err := call(ctx, conn); !errors.Is(err, fence.ErrUnknownOutcome) || status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
}

// TestFromError: what does not hang together is no refusal.
// A message that is too large for the client is one that a handler has answered with.
func TestAnswerThatIsTooLarge(t *testing.T) {
	s := &service{}
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	err := conn.Invoke(with(t, 5), callMethod, wrapperspb.String(""), new(wrapperspb.StringValue), grpc.MaxCallRecvMsgSize(1))
	if s.ran.Load() != 1 || status.Code(err) != codes.ResourceExhausted || !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("the handler ran %d times, and the client got %v; want once, and an unknown outcome", s.ran.Load(), err)
	}
}

func TestFromError(t *testing.T) {
	s := new(service)
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	if err := client(t, "orders").Claim(t.Context(), conn, 42); err != nil {
		t.Fatal(err)
	}
	stale := status.Convert(call(with(t, 41), conn)).Err()
	shown := fence.Shown{Resource: "orders", Token: 41}
	if err := fencegrpc.FromError(stale, shown); !errors.Is(err, fence.ErrStale) {
		t.Errorf("%v", err)
	}
	for _, other := range []fence.Shown{{Resource: "orders", Token: 40}, {Resource: "others", Token: 41}, {Resource: "orders", Token: 43}, {}} {
		if err := fencegrpc.FromError(stale, other); errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("to who has shown %v: %v", other, err)
		}
	}
	if err := fencegrpc.FromError(status.Error(codes.FailedPrecondition, "of the handler"), shown); errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("a handler's own FAILED_PRECONDITION: %v", err)
	}
	if err := fencegrpc.FromError(io.EOF, shown); err != io.EOF {
		t.Errorf("the end of a stream: %v", err)
	}
}

// TestClaimAtAFailingMark: whether a claim was taken whose mark has failed is not known.
func TestClaimAtAFailingMark(t *testing.T) {
	conn := serve(t, new(service), broken{}, fence.GuardConfig{}, fencegrpc.Config{})
	err := client(t, "orders").Claim(t.Context(), conn, 1)
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) || status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "10.0.0.1") {
		t.Errorf("got %v; want an unknown outcome", err)
	}
}

// TestForeignRefusalOfAnOpenMethod: nor does it where the method needs no token.
func TestForeignRefusalOfAnOpenMethod(t *testing.T) {
	other := serve(t, new(service), new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{})
	if err := client(t, "orders").Claim(t.Context(), other, 2); err != nil {
		t.Fatal(err)
	}
	again := func() error { return call(with(t, 1), other) }
	s := &service{
		call:   func(context.Context) error { return again() },
		stream: func(grpc.ServerStream) error { return again() },
	}
	conn := serve(t, s, new(fence.Memory), fence.GuardConfig{}, fencegrpc.Config{Open: func(string) bool { return true }})
	if err := call(t.Context(), conn); !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a call: %v", err)
	}
	err := open(t.Context(), t, conn).RecvMsg(new(wrapperspb.StringValue))
	if !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a stream: %v", err)
	}
}

func client(t *testing.T, resource fence.Resource) *fencegrpc.Client {
	t.Helper()
	c, err := fencegrpc.NewClient(resource)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
