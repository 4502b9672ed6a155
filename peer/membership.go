package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// Once an election is founded the machine decides who takes part: by the newest membership that this node knows,
// which is in its ballot and travels in every message. The list of the URL founds the election. Afterwards it only
// says where to call first, so an outdated URL neither admits nor excludes any node.

// voters returns the voters and their addresses, as far as this node knows.
func (n *Node) voters() []Peer {
	ms := n.membership.Load()
	if ms == nil {
		return n.cfg.Voters
	}
	all := make([]Peer, 0, len(ms.Voters))
	for _, v := range ms.Voters {
		all = append(all, n.peerOf(ms, v.ID))
	}
	return all
}

func (n *Node) observers() []Peer {
	ms := n.membership.Load()
	if ms == nil {
		return n.cfg.Observers
	}
	all := make([]Peer, 0, len(ms.Observers))
	for _, id := range ms.Observers {
		all = append(all, n.peerOf(ms, id))
	}
	return all
}

func (n *Node) peerOf(ms *protocol.Membership, id protocol.NodeID) Peer {
	p := Peer{ID: string(id)}
	if addrs := n.addresses(ms, id); len(addrs) > 0 {
		p.Addr = addrs[0]
	}
	return p
}

// dialLeader connects with the leader's node, to send it a request. If the membership and the configuration have
// different addresses it tries each, first the one at which the links have found the leader.
func (n *Node) dialLeader(ctx context.Context, id protocol.NodeID) (conn, error) {
	places := n.places(id)
	if len(places) == 0 {
		return nil, fmt.Errorf("%w: the leader, %s, is not among the voters that are known here", driver.ErrUnreachable, id)
	}
	var failed error
	for _, addr := range places {
		c, err := n.dial(ctx, peerAt(id, addr))
		if err == nil {
			return c, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s leads, and cannot be reached from %s: %w", peerAt(id, addr), n.cfg.ID, err))
	}
	return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, failed)
}

// places returns the addresses of a voter, first the one at which the links are connected.
func (n *Node) places(id protocol.NodeID) []string {
	var all []string
	if ms := n.membership.Load(); ms == nil {
		if p := find(n.cfg.Voters, id); p != nil {
			all = []string{p.Addr}
		}
	} else if ms.Index(id) >= 0 {
		all = n.addresses(ms, id)
	}
	if len(all) < 2 || n.link == nil {
		return all
	}
	for _, p := range n.link.Peers() {
		if i := slices.Index(all, p.Addr); p.ID == id && p.Connected && i > 0 {
			all[0], all[i] = all[i], all[0]
		}
	}
	return all
}

// votes reports whether this node is a voter, with this very directory, as far as it knows.
func (n *Node) votes() bool {
	ms := n.membership.Load()
	if ms == nil {
		return n.cfg.voter()
	}
	return ms.Has(n.self)
}

// listed reports whether this node is in ms. An observer is known by its id alone, because it never counts.
func (n *Node) listed(ms *protocol.Membership) bool {
	return ms.Has(n.self) || slices.Contains(ms.Observers, n.self.ID)
}

// addresses returns the addresses of a participant, in the order in which they are tried. Until the first change of
// the membership each node uses those of its own URL, which may differ from node to node.
func (n *Node) addresses(ms *protocol.Membership, id protocol.NodeID) []string {
	var own string
	if p := find(slices.Concat(n.cfg.Voters, n.cfg.Observers), id); p != nil {
		own = p.Addr
	}
	all := []string{ms.Address(id), own}
	if ms.Version <= 1 && own != "" {
		all = all[1:]
	}
	all = slices.DeleteFunc(all, func(a string) bool { return a == "" })
	return slices.Compact(all)
}

// routes returns the nodes with which this one keeps connections, and where it dials them. Observers do not talk to
// each other.
func (n *Node) routes(ms *protocol.Membership) link.Peers {
	routes := make(link.Peers)
	if ms == nil {
		for _, p := range n.cfg.Voters {
			routes[protocol.NodeID(p.ID)] = []string{p.Addr}
		}
		delete(routes, n.cfg.ID)
		return routes
	}
	for _, v := range ms.Voters {
		routes[v.ID] = n.addresses(ms, v.ID)
	}
	if ms.Has(n.self) {
		for _, id := range ms.Observers {
			routes[id] = n.addresses(ms, id)
		}
	}
	delete(routes, n.cfg.ID)
	return routes
}

// founding is the membership that this node's configuration founds, without the directories.
func (c *setup) founding() *protocol.Membership {
	ms := &protocol.Membership{Version: 1, Observers: ids(c.Observers)}
	for _, id := range ids(c.Voters) {
		ms.Voters = append(ms.Voters, protocol.Voter{ID: id})
		ms.Addresses = append(ms.Addresses, protocol.Address{ID: id, Addr: find(c.Voters, id).Addr})
	}
	for _, id := range ms.Observers {
		if addr := find(c.Observers, id).Addr; addr != "" {
			ms.Addresses = append(ms.Addresses, protocol.Address{ID: id, Addr: addr})
		}
	}
	return ms
}

// fits returns an error if a membership is too large to save: a ballot has a fixed place on the disk.
func fits(ms *protocol.Membership) error {
	b := quorum.Ballot{
		Term: quorum.MaxTerm, VotedFor: ms.Voters[0], Membership: ms, MaxPromise: quorum.LongestPromise, Incarnation: 1<<64 - 1,
	}
	if size := len(b.Append(nil)); size > disk.MaxBallot {
		return fmt.Errorf("%d participants whose ids and addresses take %d bytes on the disk; want at most %d: shorter ones, or fewer observers",
			len(ms.Voters)+len(ms.Observers), size, disk.MaxBallot)
	}
	return nil
}

// follow applies the machine's new membership after a step.
func (n *Node) follow() {
	r, ok := n.run.Machine().(protocol.Reconfigurable)
	if !ok {
		return
	}
	ms, _ := r.Membership()
	before := n.membership.Load()
	if ms == before || ms == nil {
		return
	}
	n.membership.Store(ms) // before the links are told: Admit uses it
	if before != nil && before.Version == ms.Version && before.ConfigTerm == ms.ConfigTerm {
		return // the same membership at another address in memory
	}
	n.replan(ms)
	n.rewire(ms)
	if before != nil && before.Version == ms.Version && slices.Equal(before.Voters, ms.Voters) {
		return // only the term of a new leader is new
	}
	n.log.Info("the membership", "version", ms.ID(), "voters", list(ms.Voters), "observers", orNone(ms.Observers))
	if n.link != nil {
		n.link.Announce(&wire.Welcome{Membership: ms, Program: n.cfg.Program})
	}
	if own := n.refusals[n.cfg.ID]; own.Refusal != nil && own.Code == wire.CodeRemoved && n.listed(ms) {
		delete(n.refusals, n.cfg.ID)
	}
	if !n.listed(ms) {
		r := n.outside(ms, n.cfg.ID, n.cfg.Join)
		r.Final = !n.cfg.Join
		n.log.Warn("this node takes no part any more", "version", ms.ID(), "voters", list(ms.Voters))
		n.run.Do(func() { n.refuse(n.cfg.ID, r) }) // not within the step, whose effects are still to come
	}
}

// rewire has the links keep connections with the members of ms and no others.
func (n *Node) rewire(ms *protocol.Membership) {
	if n.link == nil {
		return // run makes them
	}
	n.link.SetPeers(ms.ID(), n.routes(ms), func(id protocol.NodeID) *wire.Refusal { return n.outside(ms, id, false) })
}

// outside is the refusal for a node that is not in ms. Its Hello tells whether ms is newer than what the node knows,
// and so final, and whether the node waits to join.
func (n *Node) outside(ms *protocol.Membership, id protocol.NodeID, join bool) *wire.Refusal {
	first := "start it with join=true and "
	if join {
		first = ""
	}
	return &wire.Refusal{Code: wire.CodeRemoved, Says: fmt.Sprintf(
		"%s takes no part in membership %v any more: it has %s. To have it back, %srun elect member add %s@HOST:PORT",
		id, ms.ID(), who(ms), first, id)}
}

// who lists the participants of a membership, for people.
func who(ms *protocol.Membership) string {
	text := "the voters "
	if len(ms.Voters) == 1 {
		text = "the voter "
	}
	all := make([]protocol.NodeID, len(ms.Voters))
	for i, v := range ms.Voters {
		all[i] = v.ID
	}
	text += list(all)
	if len(ms.Observers) > 0 {
		text += " and the observers " + list(ms.Observers)
	}
	return text
}

// replan updates the plan with the number of voters.
func (n *Node) replan(ms *protocol.Membership) {
	if n.dialect.lacks(memberships) != nil {
		return // the participants are the same
	}
	p := n.plan
	qc, _, err := n.cfg.times()
	if err != nil {
		return // New has checked
	}
	qc.Membership, qc.Self = ms, ms.Voters[0]
	p.count(&qc)
	n.counting.Store(&p)
}

// Plan returns the plan of the configuration with the present voters.
func (n *Node) Plan() Plan {
	if p := n.counting.Load(); p != nil {
		return *p
	}
	return n.plan
}
