package fencegrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/electd/elect/fence"
)

// Key is the key of the metadata in which a call shows RESOURCE;TOKEN, as in "orders;42".
const Key = "x-fencing-token"

// Config configures a [Server]. The zero value of each field is its documented default.
type Config struct {
	// Open reports which methods need no token, by their full names, as in "/grpc.health.v1.Health/Check": reads that
	// any client may do. A call that shows a token is checked all the same. nil: none.
	Open func(method string) bool

	// Observe is called for refusals before the guard, when no resource is known: missing and malformed metadata. For
	// the others the guard calls its own [fence.GuardConfig.Observe]. nil: none.
	Observe func(fence.Decision)

	// Logger gets those refusals, at level Warn. nil: silence.
	Logger *slog.Logger
}

// Server has the interceptors and the service of a server whose handlers are guarded.
//
// The context of an admitted call carries the token ([fence.FromContext]), and ends with a [fence.StaleError] as its
// cause when the call must end because a greater token came. From then on the methods of its stream fail, and a
// message that was passed to RecvMsg must not be used again. The greater token waits until the handler has returned,
// so a handler must return when its context ends, and leave nothing behind that still writes.
type Server struct {
	guard *fence.Guard
	cfg   Config
}

// NewServer returns a Server that admits calls as guard does.
func NewServer(guard *fence.Guard, cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{guard: guard, cfg: cfg}
}

// Options are options for grpc.NewServer: both interceptors. Interceptors after them run with the admitted token,
// those before them without.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.Unary), grpc.ChainStreamInterceptor(s.Stream)}
}

// Unary implements grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	if own(info.FullMethod) {
		return handler(ctx, req)
	}
	shown, open, err := s.shown(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	if open {
		resp, err = handler(ctx, req)
		return resp, foreign(err)
	}
	err = s.admit(ctx, shown, func(ctx context.Context) (err error) {
		resp, err = handler(ctx, req)
		return err
	})
	if err != nil {
		resp = nil
	}
	return resp, err
}

// Stream implements grpc.StreamServerInterceptor.
func (s *Server) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	shown, open, err := s.shown(ss.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	if open {
		return foreign(handler(srv, ss))
	}
	return s.admit(ss.Context(), shown, func(ctx context.Context) error {
		return handler(srv, &stream{ServerStream: ss, ctx: ctx})
	})
}

// shown reads what a call shows. open reports that it shows nothing and need not.
func (s *Server) shown(ctx context.Context, method string) (shown fence.Shown, open bool, err error) {
	shown, err = FromIncoming(ctx)
	if err == nil {
		return shown, false, nil
	}
	result := fence.ResultOf(err)
	switch result {
	case fence.Missing:
		if s.cfg.Open != nil && s.cfg.Open(method) {
			return fence.Shown{}, true, nil
		}
	case fence.Foreign: // the name is malformed; this is not about where it is guarded
		result, err = fence.Malformed, fmt.Errorf("%w: %w", fence.ErrToken, err)
	}
	s.cfg.Logger.Warn("refused", "method", method, "result", result, "error", err)
	if s.cfg.Observe != nil {
		s.cfg.Observe(fence.Decision{Result: result})
	}
	return fence.Shown{}, false, refusal(fence.Shown{}, result, err)
}

// FromIncoming returns what the metadata of an incoming call show. Without any the error is [fence.ErrMissing];
// several are malformed ([fence.ErrToken]), even if they are equal.
func FromIncoming(ctx context.Context) (fence.Shown, error) {
	switch values := metadata.ValueFromIncomingContext(ctx, Key); len(values) {
	case 0:
		return fence.Shown{}, fmt.Errorf("%w: want the metadata %s: RESOURCE;TOKEN", fence.ErrMissing, Key)
	case 1:
		return fence.ParseShown(values[0])
	default:
		return fence.Shown{}, fmt.Errorf("%w: %d metadata %s; want one", fence.ErrToken, len(values), Key)
	}
}

// admit runs a handler if the guard admits it.
func (s *Server) admit(ctx context.Context, shown fence.Shown, handler func(context.Context) error) error {
	pass, err := s.guard.Begin(ctx, shown.Resource, shown.Token)
	if err != nil {
		return s.refuse(ctx, shown, err)
	}
	defer pass.End() // if a handler panics
	err = foreign(handler(pass.Context()))
	var cut *fence.StaleError
	if errors.As(context.Cause(pass.Context()), &cut) && isEnd(err) {
		err = refusal(shown, fence.Ended, fmt.Errorf("ended, for a greater token came: %w", cut))
	}
	if lost := pass.End(); lost != nil && err == nil {
		err = refusal(shown, fence.Ended, errors.New("the mark was not held all the time"))
	}
	return err
}

// foreign removes the details from a refusal that a handler got from another server and returns unchanged. To this
// server's client it would mean that this handler has not run.
func foreign(err error) error {
	s, ok := status.FromError(err)
	if err != nil && ok && infoOf(s) != nil {
		return status.Error(codes.Unknown, err.Error())
	}
	return err
}

// isEnd reports whether a handler has returned because its context had ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, fence.ErrStale) || status.Code(err) == codes.Canceled || status.Code(err) == codes.Aborted
}

func (s *Server) refuse(ctx context.Context, shown fence.Shown, err error) error {
	result := fence.ResultOf(err)
	if result == fence.Failed && ctx.Err() != nil {
		return waitEnded(ctx)
	}
	return refusal(shown, result, err)
}

// stream is a stream whose context may end before the stream does.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) RecvMsg(m any) error { return s.do(func() error { return s.ServerStream.RecvMsg(m) }) }
func (s *stream) SendMsg(m any) error { return s.do(func() error { return s.ServerStream.SendMsg(m) }) }

// do returns when f has returned, or when the context ends: a stopped leader neither sends nor receives, and the next
// one must not wait for it. What f leaves behind ends with the stream, when the handler has returned.
func (s *stream) do(f func() error) error {
	if s.ctx.Err() != nil {
		return s.ended()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
		return s.ended()
	}
}

func (s *stream) ended() error {
	return status.Error(codes.Canceled, context.Cause(s.ctx).Error())
}

// own reports whether a method is of this package's own service.
func own(method string) bool { return strings.HasPrefix(method, "/"+ServiceName+"/") }
