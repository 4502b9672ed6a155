package fencegrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/electd/elect/fence"
)

// Client has the interceptors of a client. They show the token of each call's context ([fence.NewContext]) for one
// resource, and translate a guard's refusals into errors: a *[fence.StaleError], or one that matches
// [fence.ErrMissing], [fence.ErrToken], [fence.ErrResource] or [fence.ErrBusy]. After these the handler has not run.
// gRPC itself also returns the codes CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, INTERNAL, UNKNOWN and
// RESOURCE_EXHAUSTED, and does not say whether the handler has run. So an error with one of them matches
// [fence.ErrUnknownOutcome], and so does that of a call that was ended because a greater token came. All other
// statuses are the handler's answers, and are returned unchanged. status.FromError finds the status in each error.
//
// A call without a token in its context is sent unchanged, with its metadata. A program that uses the interceptors
// without [Client.DialOptions] must disable retry policies for guarded methods; see "gRPC Retry Design", gRFC A6.
type Client struct{ resource fence.Resource }

// NewClient returns the client for a resource.
func NewClient(resource fence.Resource) (*Client, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	return &Client{resource}, nil
}

// DialOptions are options for grpc.NewClient: both interceptors, and no retry policy. A retry of a call that was
// applied and lost its answer could be refused, which would report the call as refused.
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

// show returns the context of a call, and what it shows.
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

// clientStream translates refusals.
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
