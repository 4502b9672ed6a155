package fencegrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/electd/elect/fence"
)

// Client has the interceptors of a client, which show the token of each call's context
// ([fence.NewContext]) for one resource, and make errors of a guard's refusals: a
// *[fence.StaleError], or one that matches [fence.ErrMissing], [fence.ErrToken],
// [fence.ErrResource] or [fence.ErrBusy]. After these the handler has not run. An error
// with the code CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, INTERNAL, UNKNOWN or
// RESOURCE_EXHAUSTED, which gRPC itself gives, too, matches
// [fence.ErrUnknownOutcome], for gRPC does not say whether the handler has run, and so
// does a call that was ended because a greater token came. All other statuses are the
// handler's answers, and returned as they are. status.FromError sees the status in any.
//
// A call without a token in its context is sent as it is, with the metadata that it may
// have. Who uses the interceptors without [Client.DialOptions] must switch policies of
// retries off for what is guarded; see "gRPC Retry Design", gRFC A6.
type Client struct{ resource fence.Resource }

// NewClient returns the client for a resource.
func NewClient(resource fence.Resource) (*Client, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	return &Client{resource}, nil
}

// DialOptions are what grpc.NewClient takes: both interceptors, and no retries by policy: a
// call that was applied and lost its answer would be told as refused if it came again too late.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.Unary), grpc.WithChainStreamInterceptor(c.Stream), grpc.WithDisableRetry()}
}

// Unary implements grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if own(method) {
		return invoker(ctx, method, req, reply, conn, opts...)
	}
	ctx, shown, err := c.show(ctx)
	if err != nil {
		return err
	}
	return FromError(invoker(ctx, method, req, reply, conn, opts...), shown)
}

// Stream implements grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, shown, err := c.show(ctx)
	if err != nil {
		return nil, err
	}
	s, err := streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, FromError(err, shown)
	}
	return &clientStream{ClientStream: s, shown: shown}, nil
}

// show returns the context of a call, and what is shown in it.
func (c *Client) show(ctx context.Context) (context.Context, fence.Shown, error) {
	token, ok := fence.FromContext(ctx)
	if !ok {
		if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md.Get(Key)) == 1 {
			if shown, err := fence.ParseShown(md.Get(Key)[0]); err == nil {
				return ctx, shown, nil
			}
		}
		return ctx, fence.Shown{Resource: c.resource}, nil
	}
	shown := fence.Shown{Resource: c.resource, Token: token}
	if err := fence.CheckShown(c.resource, token); err != nil {
		return nil, shown, err
	}
	return show(ctx, shown), shown, nil
}

// clientStream reads refusals.
type clientStream struct {
	grpc.ClientStream
	shown fence.Shown
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, FromError(err, s.shown)
}

func (s *clientStream) SendMsg(m any) error { return FromError(s.ClientStream.SendMsg(m), s.shown) }
func (s *clientStream) RecvMsg(m any) error { return FromError(s.ClientStream.RecvMsg(m), s.shown) }
func (s *clientStream) CloseSend() error    { return FromError(s.ClientStream.CloseSend(), s.shown) }
