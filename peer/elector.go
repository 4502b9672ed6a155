package peer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// Campaign implements [driver.Elector]. An observer is refused for good. So is a node that so many voters refuse for
// good that the rest is no majority, such as one with a wiped data directory.
func (n *Node) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if n.cfg.observer() && !n.cfg.Join && !n.votes() {
		return nil, driver.Permanent(fmt.Errorf("%s is an observer and cannot lead; the voters are %s", n.cfg.ID, list(ids(n.voters()))))
	}
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return nil, driver.Permanent(err)
	}
	if err := n.dialect.lacks(leases); err != nil && c.Exclusive {
		return nil, err
	}
	if err := n.dialect.lacks(priorities); err != nil && c.Priority != 0 {
		return nil, err
	}
	if err := driver.CheckPriority(c.Priority); err != nil {
		return nil, driver.Permanent(err)
	}
	n.locator.fresh(ctx)
	m, err := n.run.Campaign(ctx, c)
	if err != nil {
		return nil, err
	}
	own := &mandate{m, n}
	if n.dialect.lacks(leases) != nil {
		return unproven{own}, nil
	}
	return own, nil
}

var errNoCandidate = errors.New("this node does not campaign any more")

// Resign implements [driver.Resigner]: on the leader it resigns, on any other
// node it is passed on to the leader.
func (n *Node) Resign(ctx context.Context, token fence.Token) error {
	return n.atLeader(ctx, n.run.Resign(ctx, token), verbResign, token, resignation{Forwarded: true, By: askedBy(ctx)})
}

// atLeader asks the leader, if err says that this node does not lead.
func (n *Node) atLeader(ctx context.Context, err error, verb string, token fence.Token, body any) error {
	if !errors.Is(err, driver.ErrNoLeader) {
		return err
	}
	s, ok := n.led(ctx)
	switch {
	case !ok && ctx.Err() != nil:
		return context.Cause(ctx)
	case !ok:
		return errClosed
	case s.Stale:
		return fmt.Errorf("%w: cannot tell who leads: %w", driver.ErrUnreachable, s.Cause)
	case s.Leader == nil || s.Leader.ID == string(n.cfg.ID):
		return driver.ErrNoLeader
	}
	return n.forward(ctx, protocol.NodeID(s.Leader.ID), verb, token, body)
}

// led waits until a leader is known. It waits for a heartbeat, because at first only the new leader itself knows that
// it was elected. ok is as in states.wait.
func (n *Node) led(ctx context.Context) (s driver.State, ok bool) {
	if s, ok = n.run.States().Wait(ctx); !ok {
		return s, false
	}
	late := time.NewTimer(min(n.plan.Heartbeat, 500*time.Millisecond)) // the first one is sent at once
	defer late.Stop()
	for {
		s, _, changed, open := n.run.States().Get()
		if !open || s.Leader != nil || s.Stale {
			return s, open
		}
		select {
		case <-changed:
		case <-late.C:
			return s, true
		case <-ctx.Done():
			return s, false
		}
	}
}

// Watch implements [driver.Elector]. A node that has just started waits until
// it has heard a leader, or can tell that there is none, for at most a promise:
// before, it knows nothing.
func (n *Node) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return n.run.States().All(ctx)
}

// history returns the changes of leadership that the node remembers.
func (n *Node) history() ([]Event, error) {
	kept, err := n.dir.History()
	events := make([]Event, len(kept))
	for i, h := range kept {
		events[i] = Event{h.At, h.Event, string(h.Leader), h.Token, h.Reason}
	}
	return events, err
}

// resign implements host.
func (n *Node) resign(ctx context.Context, token fence.Token) error {
	return n.run.Resign(ctx, token)
}
