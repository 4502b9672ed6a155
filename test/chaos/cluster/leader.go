//go:build linux

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/test/chaos/lives"
)

// Leader is the leader, with its processes.
type Leader struct {
	Node  int
	Token int64
	Pids  Pids
}

// Pids are processes of a node; 0 is none.
type Pids struct{ Node, Keeper, Child int }

// glance is the time between two reads of the ledger, and recent is how many of the last lives are
// read: those of leaders only, and of what they start.
const (
	glance = time.Millisecond
	recent = 256
)

// Leader waits until a leader stamps, and returns it. Of several it is the one with the greatest
// token.
func (c *Cluster) Leader(ctx context.Context) (Leader, error) { return c.After(ctx, 0) }

// After waits until a leader stamps with a greater token than token.
func (c *Cluster) After(ctx context.Context, token int64) (Leader, error) {
	began := c.clock.Now()
	ticks := time.NewTicker(glance)
	defer ticks.Stop()
	for {
		var best Leader
		for _, l := range c.ledger.Since(c.ledger.Len() - recent) {
			if l.Last <= began || l.Token <= max(token, best.Token) {
				continue
			}
			if led, ok := c.leads(l); ok {
				best = led
			}
		}
		if best.Token != 0 {
			return best, nil
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return Leader{}, fmt.Errorf("cluster: no node has led with a token above %d: %w; there are:\n%s", token, context.Cause(ctx), c.Census())
		}
	}
}

// leads returns the leader of a life, if it is one of a leader whose node runs.
func (c *Cluster) leads(l lives.Life) (Leader, bool) {
	i := int(l.Node)
	if i < 0 || i >= len(c.nodes) {
		return Leader{}, false
	}
	front := c.Pid(i)
	led := Leader{Node: i, Token: l.Token, Pids: Pids{Node: front, Keeper: int(l.Keeper), Child: int(l.Pid)}}
	switch {
	case front == 0:
		return led, false
	case l.Kind == lives.Library:
		led.Pids.Child = 0
		return led, int(l.Pid) == front
	case l.Keeper == 0:
		return led, false
	}
	s, ok := proc.Read(int(l.Keeper))
	return led, ok && s.Parent == front // and not of a life of the previous node process
}

// Calm waits until all nodes that should run do, follow one leader whose work stamps, and, among
// peers, answer and are connected with each other. It does not wait for nodes that are down, held
// or frozen (their Voter), nor for nodes that are no members. When ctx ends, the error gives the
// reason.
func (c *Cluster) Calm(ctx context.Context) (Leader, error) {
	ticks := time.NewTicker(10 * glance)
	defer ticks.Stop()
	var why error
	for {
		l, err := c.calm(ctx)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			return Leader{}, fmt.Errorf("cluster: no calm: %w: %w", context.Cause(ctx), cmp.Or(why, err))
		}
		why = err
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return Leader{}, fmt.Errorf("cluster: no calm: %w: %w", context.Cause(ctx), why)
		}
	}
}

// answer is how long Calm waits for nodes that do not answer before it tries again.
const answer = time.Second

// calm checks once. The error is the reason why it is not calm.
func (c *Cluster) calm(ctx context.Context) (Leader, error) {
	meant := make([]bool, len(c.nodes))
	for i, n := range c.nodes {
		n.mu.Lock()
		wanted, held, failed, frozen := n.wanted, n.held, n.failed, n.frozen[Family] || n.frozen[c.plain(i, Voter)]
		n.mu.Unlock()
		up := c.Up(i)
		switch {
		case failed != nil:
			return Leader{}, fmt.Errorf("%s cannot be started: %w", c.ID(i), failed)
		case wanted && !held && !up:
			return Leader{}, fmt.Errorf("%s is not there", c.ID(i))
		}
		meant[i] = up && wanted && !frozen
	}
	if c.client == nil {
		return c.now(ctx)
	}
	if err := c.unrest(ctx, meant, nil); err != nil {
		return Leader{}, err
	}
	l, err := c.now(ctx)
	if err == nil {
		err = c.unrest(ctx, meant, &l)
	}
	return l, err
}

// takesPart reports whether an id is a member.
func takesPart(m *peer.MembershipStatus, id string) bool {
	return slices.ContainsFunc(m.Voters, func(v peer.VoterStatus) bool { return v.ID == id }) ||
		slices.ContainsFunc(m.Observers, func(o peer.ObserverStatus) bool { return o.ID == id })
}

// now is the present leader, with a small delay.
func (c *Cluster) now(ctx context.Context) (Leader, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answer, errors.New("no node stamps"))
	defer cancel()
	l, err := c.Leader(ctx)
	if err != nil {
		return l, context.Cause(ctx)
	}
	return l, nil
}

// unrest returns why an election among peers is not at rest, under l if it is not nil.
func (c *Cluster) unrest(ctx context.Context, meant []bool, l *Leader) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	m, err := c.Members(ctx)
	switch {
	case err != nil:
		return err
	case m.Membership == nil:
		return cmp.Or(append(m.Errs, errors.New("it is not founded"))...)
	}
	in := func(i int) bool { return i >= 0 && meant[i] && takesPart(m.Membership, c.ID(i)) }
	led := false
	for i, s := range m.Nodes {
		switch {
		case !in(i):
			continue
		case s == nil:
			return fmt.Errorf("%s does not answer: %w", c.ID(i), cmp.Or(m.Errs[i], errors.New("it is not known")))
		case s.Leader == nil || s.Stale:
			return fmt.Errorf("%s follows no leader: %s", c.ID(i), s.Cause)
		case int64(s.Leader.Token) != m.Token && s.Plan.Lease != 0: // those of other protocols may be equal or fall
			return fmt.Errorf("%s follows %s with token %v, and another one follows %s with %d", c.ID(i), s.Leader.ID, s.Leader.Token, c.ID(m.Leader), m.Token)
		}
		for _, p := range s.Peers {
			if !p.Connected && in(c.Index(p.ID)) {
				return fmt.Errorf("%s has no connection with %s: %s", c.ID(i), p.ID, p.Error)
			}
		}
		led = led || i == m.Leader && (s.Active || s.Plan.Lease == 0)
	}
	switch {
	case m.Leader < 0:
		return errors.New("there is no leader")
	case !led:
		return fmt.Errorf("%s is said to lead, and has not proven its lease", c.ID(m.Leader))
	case l != nil && (l.Node != m.Leader || l.Token != m.Token):
		return fmt.Errorf("%s leads with token %d, and the work of %s stamps with %d", c.ID(m.Leader), m.Token, c.ID(l.Node), l.Token)
	}
	return nil
}

// Census describes all processes of the cluster.
func (c *Cluster) Census() string {
	var b strings.Builder
	all := c.find(func(*process) bool { return true })
	defer closeAll(all)
	for _, p := range all {
		who := p.auxiliary
		if p.node >= 0 {
			who = c.ID(p.node)
		}
		fmt.Fprintf(&b, "%s: %s\n", who, p.describe())
	}
	if c.cfg.Election == File {
		locks, _ := os.ReadFile("/proc/locks")
		b.Write(locks)
	}
	return b.String()
}
