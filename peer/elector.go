package peer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// Campaign implements [driver.Elector]. It fails for good for an observer, for a node that was removed unless it has
// [Config].Join, and for a node that so many voters refuse for good that the rest is no majority.
func (n *Node) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if n.cfg.observer() && !n.cfg.Join && !n.membership.votes() {
		return nil, driver.Permanent(fmt.Errorf("%s is an observer and cannot lead; the voters are %s", n.cfg.ID, list(ids(n.membership.voters()))))
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

// Resign implements [driver.Resigner]. Another node than the leader passes it on.
func (n *Node) Resign(ctx context.Context, token fence.Token) error {
	return n.relay.atLeader(ctx, n.run.Resign(ctx, token), verbResign, token, appointment{Forwarded: true, By: askedBy(ctx)})
}

// Watch implements [driver.Elector]. A node that has just started first waits, for a promise at most, until it knows a
// leader or that there is none.
func (n *Node) Watch(ctx context.Context) iter.Seq2[driver.State, error] {
	return n.run.States().All(ctx)
}

// Pause pauses this node until [Node.Resume], across restarts: it votes and does not stand, and gives up a term that it
// has when its work has stopped. It is durable when Pause returns nil. After an error the node does what it did before,
// and it is not known what it does after its next start. Pausing a paused node succeeds.
func (n *Node) Pause(ctx context.Context) error {
	return n.pausing.setPaused(ctx, true, "this program")
}

// Resume ends what Pause began, in the same way.
func (n *Node) Resume(ctx context.Context) error {
	return n.pausing.setPaused(ctx, false, "this program")
}

// Plan returns the plan of the configuration with the present voters.
func (n *Node) Plan() Plan { return n.membership.present() }

// Transfer implements [driver.Transferrer]. Another node than the leader passes it on.
func (n *Node) Transfer(ctx context.Context, token fence.Token, to string) error {
	return n.relay.atLeader(ctx, n.handover.appoint(ctx, token, to), verbTransfer, token, appointment{To: to, Forwarded: true, By: askedBy(ctx)})
}
