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

// AddMember makes p a voter of the election, or an observer. Its node must run,
// with Config.Join, and be found at p.Addr by the leader's node, which adds it: as
// an observer first, so that it is connected and has the membership on its disk,
// and then as a voter. An observer is made a voter by adding it again. AddMember
// returns when a majority of the new membership has written it down.
//
// A change that is not safe now is refused, with the reason: [ErrRefused]. With
// [ErrUnknown] the change may have been made. In both cases, and after a change
// that ended half-way, the error says what holds, and the same call goes on from
// there; who is there already is no error. One change is made at a time. step, if it
// is not nil, is told what was done, as it is done. It takes 45 s at most.
func (c *Client) AddMember(ctx context.Context, p Peer, observer bool, step func(string)) (*MemberChange, error) {
	return c.change(ctx, memberRequest{Op: opAdd, ID: protocol.NodeID(p.ID), Addr: p.Addr, Observer: observer}, step)
}

// RemoveMember takes the voter or the observer with that id out of the election.
// Its node need not run; if it does, it is told, and a Campaign of it ends for good.
// The leader cannot be removed: let it hand over first. Who is not there is no
// error. See [Client.AddMember] for the rest.
func (c *Client) RemoveMember(ctx context.Context, id string, step func(string)) (*MemberChange, error) {
	return c.change(ctx, memberRequest{Op: opRemove, ID: protocol.NodeID(id)}, step)
}

// ReplaceMember has the node at p.Addr, or where it was if that is empty, take the
// place of the voter p.ID: with a data directory of its own, because the disk of the
// old one was lost, or with the same one, because it has moved. A lost one is
// removed, and then added as by [Client.AddMember], which says the rest. Repeated after
// an interruption it goes on from what it finds: nobody of that id, or an observer, is
// made the voter. Who is an observer by its own configuration is refused.
func (c *Client) ReplaceMember(ctx context.Context, p Peer, step func(string)) (*MemberChange, error) {
	return c.change(ctx, memberRequest{Op: opReplace, ID: protocol.NodeID(p.ID), Addr: p.Addr}, step)
}

// change asks the leader for a change, or another node to ask it.
func (c *Client) change(ctx context.Context, q memberRequest, step func(string)) (*MemberChange, error) {
	if err := q.check(); err != nil {
		return nil, driver.Permanent(err)
	}
	ctx, stop := c.while(ctx)
	defer stop()
	ctx, end := context.WithTimeoutCause(ctx, changeLimit+5*time.Second, fmt.Errorf("no answer within %v", changeLimit+5*time.Second))
	defer end()
	var err error
	for range 3 { // somebody else may be elected in between
		if c.life.Err() != nil {
			return nil, driver.ErrClosed
		}
		s, looked := c.look(ctx)
		switch {
		case looked != nil:
			return nil, looked
		case s.Stale:
			return nil, fmt.Errorf("who leads cannot be told: %w", s.Cause)
		case s.Leader == nil && s.Cause != nil:
			return nil, fmt.Errorf("%w: %w", driver.ErrNoLeader, s.Cause)
		case s.Leader == nil:
			return nil, driver.ErrNoLeader
		}
		var done *MemberChange
		if done, err = c.changeBy(ctx, s.Leader, q, step); !errors.Is(err, driver.ErrNoLeader) {
			if done != nil {
				done.Warnings = append(done.Warnings, c.few(&done.Membership)...)
			}
			return done, err
		}
		wait(ctx, retryFirst)
	}
	return nil, err
}

// few says that the configuration lists too few of the voters that there are now to
// be that of a voter, whom an empty directory lets found the election anew with those
// of its list; nil if it lists enough.
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

// changeBy asks the leader, or else another node. Whoever may have heard it is the
// last one that is asked.
func (c *Client) changeBy(ctx context.Context, l *driver.Leader, q memberRequest, step func(string)) (*MemberChange, error) {
	ways := slices.Clone(c.nodes)
	slices.SortStableFunc(ways, func(a, b Peer) int { return rank(l, a) - rank(l, b) })
	var trouble trouble
	for _, to := range ways {
		if to.ID == string(q.ID) && to.ID != l.ID {
			continue // it takes no part yet, or not for long any more
		}
		conn, err := c.dial(ctx, to)
		if err != nil {
			trouble = append(trouble, nodeError{to, because(ctx, err)})
			continue
		}
		done, err := callChange(ctx, conn, q, step)
		_ = conn.Close()
		if errors.Is(err, driver.ErrUnreachable) {
			trouble = append(trouble, nodeError{to, err}) // it could not pass it on
			continue
		}
		return done, err
	}
	return nil, fmt.Errorf("%w: %s leads with token %v and could not be asked: %w", driver.ErrUnreachable, l.ID, l.Token, trouble)
}

// Newest is the newest membership that nodes tell of, as the leader tells it if it is
// among them; nil if none does.
func Newest(results []NodeResult) *MembershipStatus {
	var m *MembershipStatus
	for _, r := range results {
		if r.Status == nil || r.Status.Membership == nil {
			continue
		}
		other := r.Status.Membership
		if m != nil {
			// Of those who have the same one the leader knows most.
			if c := other.id().Compare(m.id()); c < 0 || c == 0 && !r.Status.Active {
				continue
			}
		}
		m = other
	}
	return m
}

// Members is Statuses, and then asks those of the newest membership that the nodes
// tell of, see [Newest], whom the configuration does not list, or lists at another
// address where nobody answered. So it takes twice as long at most.
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

// unlisted are the participants of the newest membership whom the configuration
// does not list, or lists at another address where nobody answered.
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
