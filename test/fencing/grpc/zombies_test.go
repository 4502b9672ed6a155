//go:build linux

package grpc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencegrpc"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/compare"
	"github.com/electd/elect/test/fencing/zombie"
)

// envServe makes a process of this test the server: guarded, bare, or one that only checks
// when a call begins.
const envServe = "FENCING_GRPC_SERVE"

func TestMain(m *testing.M) {
	if form := os.Getenv(envServe); form != "" {
		if err := serve(form); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	zombie.Main(m, map[string]zombie.Opener{"unary": open(false), "stream": open(true)})
}

// The methods of the register.
const (
	readMethod  = "/register.Register/Read"
	writeMethod = "/register.Register/Write"
	longMethod  = "/register.Register/Long"
)

// serve is a register in memory, and its mark beside it.
func serve(form string) error {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"register"}, fence.GuardConfig{})
	if err != nil {
		return err
	}
	guarded := fencegrpc.NewServer(guard, fencegrpc.Config{Open: func(method string) bool { return method == readMethod }})
	var options []grpc.ServerOption
	switch form {
	case "guarded":
		options = guarded.Options()
	case "checks at the start":
		options = []grpc.ServerOption{grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			shown, err := fencegrpc.FromIncoming(ss.Context())
			if err != nil {
				return err
			}
			if err := guard.Claim(ss.Context(), shown.Resource, shown.Token); err != nil {
				return err
			}
			return handler(srv, ss)
		})}
	}
	server := grpc.NewServer(options...)
	guarded.Register(server)
	var value atomic.Int64
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "register.Register",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("Read", func(*wrapperspb.Int64Value) int64 { return value.Load() }),
			unary("Write", func(m *wrapperspb.Int64Value) int64 { value.Store(m.GetValue()); return m.GetValue() }),
		},
		Streams: []grpc.StreamDesc{{StreamName: "Long", ServerStreams: true, ClientStreams: true, Handler: func(_ any, ss grpc.ServerStream) error {
			// The last message but one is written when another has come.
			var last *wrapperspb.Int64Value
			for {
				m := new(wrapperspb.Int64Value)
				if err := ss.RecvMsg(m); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if last != nil {
					value.Store(last.GetValue())
				}
				last = m
				if err := ss.SendMsg(m); err != nil {
					return err
				}
			}
		}}},
	}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended
		server.Stop()
	}()
	return server.Serve(l)
}

func unary(name string, f func(*wrapperspb.Int64Value) int64) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
		req := new(wrapperspb.Int64Value)
		if err := decode(req); err != nil {
			return nil, err
		}
		handle := func(context.Context, any) (any, error) { return wrapperspb.Int64(f(req)), nil }
		if through == nil {
			return handle(ctx, req)
		}
		return through(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/register.Register/" + name}, handle)
	}}
}

// start starts a server in a process of its own, and returns where it is.
func start(t testing.TB, form string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envServe+"="+form)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, stdout := harness.Start(t, cmd)
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	where, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(where)
}

// register is one number, at the server.
type register struct {
	client *fencegrpc.Client
	conn   *grpc.ClientConn
	long   bool
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func connect(where string, dial dialer) (*fencegrpc.Client, *grpc.ClientConn, error) {
	client, err := fencegrpc.NewClient("register")
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+where, append(client.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }))...)
	return client, conn, err
}

func open(long bool) zombie.Opener {
	return func(_ context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
		client, conn, err := connect(where, steps.Dial)
		return &register{client, conn, long}, err
	}
}

func (r *register) Close() error { return r.conn.Close() }

func (r *register) Claim(ctx context.Context, token fence.Token) error {
	return r.client.Claim(ctx, r.conn, token)
}

func (r *register) Read(ctx context.Context) (int64, error) {
	var m wrapperspb.Int64Value
	err := r.conn.Invoke(ctx, readMethod, wrapperspb.Int64(0), &m)
	return m.GetValue(), err
}

func (r *register) Write(ctx context.Context, token fence.Token, value int64) error {
	ctx = fence.NewContext(ctx, token)
	if !r.long {
		return r.conn.Invoke(ctx, writeMethod, wrapperspb.Int64(value), new(wrapperspb.Int64Value))
	}
	s, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, longMethod)
	if err != nil {
		return err
	}
	for range 2 { // the second makes it write
		m := new(wrapperspb.Int64Value)
		if err := s.SendMsg(wrapperspb.Int64(value)); err != nil && err != io.EOF {
			return err
		}
		if err := s.RecvMsg(m); err != nil {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := s.RecvMsg(new(wrapperspb.Int64Value)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream ended with %w", fence.ErrUnknownOutcome, err)
	}
	return nil
}

// prepare starts a server, and reads from it beside the leaders.
func prepare(t *testing.T, form string) (where string, read func(context.Context) (int64, error)) {
	t.Helper()
	where = start(t, form)
	_, conn, err := connect(where, new(net.Dialer).DialContext)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return where, (&register{conn: conn}).Read
}

// TestZombies freezes an older leader before every step of its claim and its write: of a call, and
// of a long stream, which the server ends.
func TestZombies(t *testing.T) {
	long.Test(t, "it freezes real processes before each step of a write")
	for _, form := range []string{"unary", "stream"} {
		t.Run(form, func(t *testing.T) {
			where, read := prepare(t, "guarded")
			r := zombie.Prove(t, zombie.Config{Opener: form, Where: where, Read: read, Wait: 15 * time.Second})
			if r.Waited > 0 {
				t.Errorf("the newer leader waited for the older one to go on in %d plays", r.Waited)
			}
			ended := slices.ContainsFunc(r.History, func(o zombie.Operation) bool {
				return o.Kind == zombie.Write && o.Outcome == zombie.Unknown && strings.Contains(o.Error, "a greater token came")
			})
			if form == "stream" && !ended {
				t.Errorf("no stream was ended because a greater token came:\n%s", r.Text())
			}
		})
	}
}

// TestUnsafeZombies: a server that checks when a stream begins, and lets it run, takes the
// second message of a leader that was overtaken after the first; a guarded one does not.
func TestUnsafeZombies(t *testing.T) {
	for form, want := range map[string]int64{"checks at the start": 120, "guarded": 150} {
		where, read := prepare(t, form)
		client, conn, err := connect(where, new(net.Dialer).DialContext)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		older, newer := fence.NewContext(t.Context(), 5), fence.NewContext(t.Context(), 6)
		s, err := conn.NewStream(older, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, longMethod)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(wrapperspb.Int64(120)); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(new(wrapperspb.Int64Value)); err != nil {
			t.Fatal(err)
		}
		if err := client.Claim(newer, conn, 6); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if err := conn.Invoke(newer, writeMethod, wrapperspb.Int64(150), new(wrapperspb.Int64Value)); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		sent := s.SendMsg(wrapperspb.Int64(120))
		if sent == nil || errors.Is(sent, io.EOF) { // Recv returns what ended the stream
			sent = s.RecvMsg(new(wrapperspb.Int64Value))
		}
		got, err := read(t.Context())
		if err != nil || got != want {
			t.Errorf("%s: %d, %v, and the older leader got %v; want %d", form, got, err, sent, want)
		}
		if form == "guarded" && !errors.Is(sent, fence.ErrUnknownOutcome) {
			t.Errorf("the older leader got %v; want that it is not known what came of its stream", sent)
		}
	}
}

// BenchmarkUnary calls a guarded server and a bare one.
func BenchmarkUnary(b *testing.B) {
	ctx := fence.NewContext(b.Context(), 42)
	write := func(form string) func() error {
		_, conn, err := connect(start(b, form), new(net.Dialer).DialContext)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return func() error {
			return conn.Invoke(ctx, writeMethod, wrapperspb.Int64(1), new(wrapperspb.Int64Value))
		}
	}
	compare.Guarded(b, 1, write("bare"), write("guarded"))
}
