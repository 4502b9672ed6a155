package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// Resign implements [driver.Resigner]. It finds the leader as Watch does, and asks it directly or through another node.
func (c *Client) Resign(ctx context.Context, token fence.Token) error {
	return c.atLeader(ctx, token, verbResign, appointment{})
}

// Transfer implements [driver.Transferrer], in the way of Resign.
func (c *Client) Transfer(ctx context.Context, token fence.Token, to string) error {
	return c.atLeader(ctx, token, verbTransfer, appointment{To: to})
}

// Pause is [Node.Pause] at the node with that id, which it finds as [Client.Members] does. It returns when the node has
// accepted and remembers it. It takes 13 s at most.
func (c *Client) Pause(ctx context.Context, id string) error { return c.setPaused(ctx, id, verbPause) }

// Resume ends what Pause began, in the same way.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.setPaused(ctx, id, verbResume)
}

func (c *Client) setPaused(ctx context.Context, id, verb string) error {
	ctx, stop := c.while(ctx)
	defer stop()
	if c.life.Err() != nil {
		return driver.ErrClosed
	}
	to := find(c.nodes, id)
	err := fmt.Errorf("no address of a node %s is known; the nodes are %s", id, list(c.nodes))
	if to != nil {
		var asked bool
		if asked, err = c.ask(ctx, *to, pauseLimit, verb, 0, struct{}{}, ignore); err == nil || asked {
			return err
		}
	}
	for _, r := range c.Members(ctx) { // it may have been added since, or have moved
		if r.Peer.ID == id && r.Peer.Addr != "" && (to == nil || r.Peer.Addr != to.Addr) {
			_, err = c.ask(ctx, r.Peer, pauseLimit, verb, 0, struct{}{}, ignore)
			return err
		}
	}
	return err
}

// pauseLimit bounds how long a client waits for a node that it pauses: the node writes to its disk.
const pauseLimit = 5 * time.Second

// atLeader asks the leader with that token, or any leader if token is 0.
func (c *Client) atLeader(ctx context.Context, token fence.Token, verb string, body any) error {
	ctx, stop := c.while(ctx)
	defer stop()
	var err error
	for range 3 { // another node may be elected in between
		var l *driver.Leader
		if l, err = c.leader(ctx); err != nil {
			return err
		}
		if token != 0 && l.Token != token {
			return fmt.Errorf("%w: %s leads with token %v, and not with %v", driver.ErrSuperseded, l.ID, l.Token, token)
		}
		err = c.byAnyWay(ctx, l, verb, body)
		if token != 0 || !errors.Is(err, driver.ErrNoLeader) && !errors.Is(err, driver.ErrSuperseded) {
			break
		}
	}
	return err
}

// leader returns who leads, as Watch shows it first.
func (c *Client) leader(ctx context.Context) (*driver.Leader, error) {
	if c.life.Err() != nil {
		return nil, driver.ErrClosed
	}
	for s, err := range c.Watch(ctx) {
		switch {
		case err != nil:
			return nil, err
		case s.Stale:
			return nil, fmt.Errorf("cannot tell who leads: %w", s.Cause)
		case s.Leader == nil && s.Cause != nil:
			return nil, fmt.Errorf("%w: %w", driver.ErrNoLeader, s.Cause)
		case s.Leader == nil:
			return nil, driver.ErrNoLeader
		}
		return s.Leader, nil
	}
	return nil, context.Cause(ctx)
}

// byAnyWay asks the leader, or else another node, which passes the request on.
func (c *Client) byAnyWay(ctx context.Context, l *driver.Leader, verb string, body any) error {
	var trouble trouble
	asked := false // it may have done so without an answer
	for _, to := range c.ways(l) {
		// longer than the node's own limit, so that its answer comes first
		done, err := c.ask(ctx, to, resignLimit+time.Second, verb, l.Token, body, ignore)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case answered(err):
			if asked && (errors.Is(err, driver.ErrNoLeader) || errors.Is(err, driver.ErrSuperseded)) {
				return nil
			}
			return err
		}
		asked = asked || done
		trouble = append(trouble, nodeError{to, err})
	}
	return fmt.Errorf("%w: %s leads with token %v and could not be asked: %w", driver.ErrUnreachable, l.ID, l.Token, trouble)
}

// ways returns the nodes, the leader before all others.
func (c *Client) ways(l *driver.Leader) []Peer {
	leads := func(p Peer) bool { return p.ID == l.ID }
	others := slices.DeleteFunc(slices.Clone(c.nodes), leads)
	if i := slices.IndexFunc(c.nodes, leads); i >= 0 {
		others = slices.Insert(others, 0, c.nodes[i])
	}
	return others
}
