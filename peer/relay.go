package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// relay passes on to the leader what this node was asked and only a leader can do. Any goroutine may use it.
type relay struct {
	*contacts
	run  *runtime.Runner
	dial func(ctx context.Context, to Peer) (conn, error) // connects with another node, for a request
}

// atLeader asks the leader, if err says that this node does not lead.
func (r *relay) atLeader(ctx context.Context, err error, verb string, token fence.Token, body any) error {
	if !errors.Is(err, driver.ErrNoLeader) {
		return err
	}
	s, err := r.led(ctx)
	switch {
	case err != nil:
		return err
	case s.Stale:
		return fmt.Errorf("%w: cannot tell who leads: %w", driver.ErrUnreachable, s.Cause)
	case s.Leader == nil || s.Leader.ID == string(r.cfg.ID):
		return driver.ErrNoLeader
	}
	conn, err := r.dialLeader(ctx, protocol.NodeID(s.Leader.ID))
	if err != nil {
		return err
	}
	defer conn.Close()
	return understood(conn.Call(ctx, verb, uint64(token), body, ignore))
}

// led waits until a leader is known. It waits for a heartbeat, because at first only the new leader itself knows that
// it was elected.
func (r *relay) led(ctx context.Context) (driver.State, error) {
	r.run.States().Wait(ctx)
	late := time.NewTimer(min(r.plan.Heartbeat, 500*time.Millisecond)) // the first one is sent at once
	defer late.Stop()
	for {
		s, _, changed, open := r.run.States().Get()
		switch {
		case !open:
			return s, errClosed
		case s.Leader != nil || s.Stale:
			return s, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return s, nil
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

// dialLeader connects with the leader's node, to send it a request. If the membership and the configuration have
// different addresses it tries each, first the one at which the links have found the leader.
func (r *relay) dialLeader(ctx context.Context, id protocol.NodeID) (conn, error) {
	places := r.places(id)
	if len(places) == 0 {
		return nil, fmt.Errorf("%w: the leader, %s, is not among the voters that are known here", driver.ErrUnreachable, id)
	}
	var failed error
	for _, addr := range places {
		c, err := r.dial(ctx, peerAt(id, addr))
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s leads, and cannot be reached from %s: %w", peerAt(id, addr), r.cfg.ID, err))
	}
	return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, failed)
}

// resign implements host.
func (r *relay) resign(ctx context.Context, token fence.Token) error {
	return r.run.Resign(ctx, token)
}
