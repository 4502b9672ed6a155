package fencegrpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/electd/elect/fence"
)

// ServiceName is the name of the service which [Server.Register] registers:
//
//	service Fence {
//	  rpc Claim(google.protobuf.Empty) returns (google.protobuf.Empty);
//	  rpc Highest(google.protobuf.StringValue) returns (google.protobuf.UInt64Value);
//	}
//
// A claim shows its resource and token as every call does. Highest takes the name of a resource, and returns its
// mark, 0 if it was never claimed.
const ServiceName = "electd.fence.v1.Fence"

// Register registers the service for claims. The same server needs [Server.Options].
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			method("Claim", s.claim),
			method("Highest", s.highest),
		},
	}, s)
}

// method describes one method, as generated code would.
func method[Q any](name string, f func(context.Context, *Q) (any, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
			req := new(Q)
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) { return f(ctx, req.(*Q)) }
			if through == nil {
				return handle(ctx, req)
			}
			return through(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + ServiceName + "/" + name}, handle)
		},
	}
}

func (s *Server) claim(ctx context.Context, _ *emptypb.Empty) (any, error) {
	shown, _, err := s.shown(ctx, "/"+ServiceName+"/Claim")
	if err != nil {
		return nil, err
	}
	if shown.Token == 0 { // Config.Open says that this method needs no token
		return nil, refusal(shown, fence.Missing, fence.ErrMissing)
	}
	if err := s.guard.Claim(ctx, shown.Resource, shown.Token); err != nil {
		return nil, s.refuse(ctx, shown, err)
	}
	return &emptypb.Empty{}, nil
}

func (s *Server) highest(ctx context.Context, req *wrapperspb.StringValue) (any, error) {
	resource := fence.Resource(req.GetValue())
	token, err := s.guard.Highest(ctx, resource)
	if err != nil {
		return nil, s.refuse(ctx, fence.Shown{Resource: resource}, err)
	}
	return wrapperspb.UInt64(uint64(token)), nil
}

// Claim raises the mark at a [Server] and returns when no handler of a smaller token runs any more. A new leader
// calls it before it reads anything. Errors are those of Client. After one that matches [fence.ErrUnknownOutcome], as
// after a failure of the mark, or [fence.ErrBusy], the leader should claim again.
func (c *Client) Claim(ctx context.Context, conn grpc.ClientConnInterface, token fence.Token) error {
	shown := fence.Shown{Resource: c.resource, Token: token}
	if err := fence.CheckShown(c.resource, token); err != nil {
		return err
	}
	// A connection whose interceptor shows the same resource shows the same token.
	ctx = show(fence.NewContext(ctx, token), shown)
	err := FromError(conn.Invoke(ctx, "/"+ServiceName+"/Claim", &emptypb.Empty{}, &emptypb.Empty{}), shown)
	if errors.Is(err, errFailed) { // the mark may have been raised
		return &refused{err: fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, err), status: status.Convert(err)}
	}
	return err
}

// Highest asks a [Server] for the mark, 0 if it was never claimed.
func (c *Client) Highest(ctx context.Context, conn grpc.ClientConnInterface) (fence.Token, error) {
	var resp wrapperspb.UInt64Value
	err := conn.Invoke(ctx, "/"+ServiceName+"/Highest", wrapperspb.String(string(c.resource)), &resp)
	if refusal := FromError(err, fence.Shown{Resource: c.resource}); errors.Is(refusal, fence.ErrResource) {
		return 0, refusal
	}
	if err != nil {
		return 0, fmt.Errorf("fencegrpc: the mark of %s: %w", c.resource, err)
	}
	token := fence.Token(resp.GetValue())
	if token != 0 && !token.Valid() {
		return 0, fmt.Errorf("%w: the server says that %d is the mark of %s", fence.ErrToken, resp.GetValue(), c.resource)
	}
	return token, nil
}

// show puts what is shown into the metadata of a call, and replaces an earlier value.
func show(ctx context.Context, shown fence.Shown) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	md.Set(Key, shown.String())
	return metadata.NewOutgoingContext(ctx, md)
}
