package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

// AddMember makes p a voter, or an observer; an observer becomes a voter by adding it again. The node of p must run
// with [Config].Join, and the leader's node must reach it at p.Addr. AddMember returns when the new membership is
// durable at a majority of its voters, after 45 s at most. Adding an existing member succeeds. step, if not nil, is
// called after each step with a description of it.
//
// A change that is not safe now is refused with [ErrRefused]; one change is made at a time. After
// [driver.ErrUnknownOutcome] the change may have been made. The error says what holds, and the same call goes on from
// there.
func (c *Client) AddMember(ctx context.Context, p Peer, observer bool, step func(string)) (*MemberChange, error) {
	return c.change(ctx, memberRequest{Op: opAdd, ID: protocol.NodeID(p.ID), Addr: p.Addr, Observer: observer}, step)
}

// RemoveMember removes the voter or the observer with that id. Its node need not run; if it does, its Campaign ends for
// good. The leader cannot be removed: let it hand over first. Removing an absent member succeeds. See
// [Client.AddMember] for the rest.
func (c *Client) RemoveMember(ctx context.Context, id string, step func(string)) (*MemberChange, error) {
	return c.change(ctx, memberRequest{Op: opRemove, ID: protocol.NodeID(id)}, step)
}

// ReplaceMember puts the node at p.Addr, or if that is empty at the voter's present address, in the place of the voter
// p.ID, because it has another data directory or has moved. If there is no such member, or an observer, as after an
// interruption, the node is made the voter. A node that is an observer by its own configuration is refused. See
// [Client.AddMember] for the rest.
func (c *Client) ReplaceMember(ctx context.Context, p Peer, step func(string)) (*MemberChange, error) {
	return c.change(ctx, memberRequest{Op: opReplace, ID: protocol.NodeID(p.ID), Addr: p.Addr}, step)
}

// change sends a change to the leader, directly or through another node.
func (c *Client) change(ctx context.Context, q memberRequest, step func(string)) (*MemberChange, error) {
	if err := q.check(); err != nil {
		return nil, driver.Permanent(err)
	}
	ctx, stop := c.while(ctx)
	defer stop()
	ctx, end := context.WithTimeoutCause(ctx, changeLimit+5*time.Second, fmt.Errorf("no answer within %v", changeLimit+5*time.Second))
	defer end()
	var err error
	for range 3 { // another node may be elected in between
		l, unknown := c.leader(ctx)
		if unknown != nil {
			return nil, unknown
		}
		var done *MemberChange
		if done, err = c.changeBy(ctx, l, q, step); !errors.Is(err, driver.ErrNoLeader) {
			if done != nil {
				done.Warnings = append(done.Warnings, c.few(&done.Membership)...)
			}
			return done, err
		}
		wait(ctx, retryFirst)
	}
	return nil, err
}

// few returns the members that this configuration does not list, if it lists too few of the present voters to be safe
// as that of a voter: with an empty directory, such a voter could found the election again with the voters of its
// list. It returns nil if the configuration lists enough.
func (c *Client) few(m *MembershipStatus) []string {
	listed := 0
	for _, v := range m.Voters {
		if has(c.cfg.Voters, v.ID) {
			listed++
		}
	}
	if listed > len(m.Voters)/2 {
		return nil
	}
	return []string{fmt.Sprintf("the URL lists %d of %d voters: give the units a list of those who are there now, or join=true to all of them; else those of an old list could found the election a second time when they lose their disks",
		listed, len(m.Voters))}
}

// changeBy asks the leader, or else another node. It stops at the first node that may have received the request.
func (c *Client) changeBy(ctx context.Context, l *driver.Leader, q memberRequest, step func(string)) (*MemberChange, error) {
	var trouble trouble
	for _, to := range c.ways(l) {
		if to.ID == string(q.ID) && to.ID != l.ID {
			continue // it takes no part yet, or will not for long
		}
		conn, err := c.dial(ctx, to)
		if err != nil {
			trouble = append(trouble, nodeError{to, because(ctx, err)})
			continue
		}
		done, err := callChange(ctx, conn, q, step)
		_ = conn.Close()
		if errors.Is(err, driver.ErrUnreachable) {
			trouble = append(trouble, nodeError{to, err}) // it could not pass the request on
			continue
		}
		return done, err
	}
	return nil, fmt.Errorf("%w: %s leads with token %v and could not be asked: %w", driver.ErrUnreachable, l.ID, l.Token, trouble)
}

// Newest returns the newest membership in the results, as the leader reports it if it is among them; nil if there is
// none.
func Newest(results []NodeResult) *MembershipStatus {
	var m *MembershipStatus
	for _, r := range results {
		if r.Status == nil || r.Status.Membership == nil {
			continue
		}
		other := r.Status.Membership
		if m != nil {
			// Of those that have the same membership the leader knows most.
			if c := other.id().Compare(m.id()); c < 0 || c == 0 && !r.Status.Active {
				continue
			}
		}
		m = other
	}
	return m
}

// Members is [Client.Statuses], and then asks the members of the newest membership that the configuration does not
// list, or lists at an address that did not answer. It takes up to twice as long.
func (c *Client) Members(ctx context.Context) []NodeResult {
	results := c.Statuses(ctx)
	var more []Peer
	for _, p := range c.unlisted(results) {
		if p.Addr == "" {
			results = append(results, NodeResult{Peer: p, Err: errNowhere})
			continue
		}
		more = append(more, p)
	}
	for _, r := range c.statuses(ctx, more) {
		if i := slices.IndexFunc(results, func(o NodeResult) bool { return o.Peer.ID == r.Peer.ID }); i >= 0 {
			results[i] = r // it has moved
			continue
		}
		results = append(results, r)
	}
	return results
}

// unlisted returns the members of the newest membership that the configuration does not list, or lists at an address
// that did not answer.
func (c *Client) unlisted(results []NodeResult) (all []Peer) {
	m := Newest(results)
	if m == nil {
		return nil
	}
	voters, observers := m.where()
	for _, p := range slices.Concat(voters, observers) {
		i := slices.IndexFunc(results, func(r NodeResult) bool { return r.Peer.ID == p.ID })
		if i < 0 || p.Addr != "" && results[i].Status == nil && results[i].Peer.Addr != p.Addr {
			all = append(all, p)
		}
	}
	return all
}
