package peer

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/internal/disk"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// Once an election is founded the machine decides who takes part: by the newest membership that this node knows,
// which is in its ballot and travels in every message. The list of the URL founds the election. Afterwards it only
// says where to call first, so an outdated URL neither admits nor excludes any node.

// membership is who takes part, and where, as far as this node knows. Any goroutine may read it; turns change it.
type membership struct {
	*facts
	atomic.Pointer[protocol.Membership]                      // the newest; nil before the election is founded
	counting                            atomic.Pointer[Plan] // the plan with its voters
}

// voters returns the voters and their addresses, as far as this node knows.
func (m *membership) voters() []Peer {
	ms := m.Load()
	if ms == nil {
		return m.cfg.Voters
	}
	return m.peersOf(ms, votersOf(ms))
}

func (m *membership) observers() []Peer {
	ms := m.Load()
	if ms == nil {
		return m.cfg.Observers
	}
	return m.peersOf(ms, ms.Observers)
}

func (m *membership) peersOf(ms *protocol.Membership, ids []protocol.NodeID) []Peer {
	all := make([]Peer, len(ids))
	for i, id := range ids {
		all[i] = m.peerOf(ms, id)
	}
	return all
}

func (m *membership) peerOf(ms *protocol.Membership, id protocol.NodeID) Peer {
	p := Peer{ID: string(id)}
	if addrs := m.addresses(ms, id); len(addrs) > 0 {
		p.Addr = addrs[0]
	}
	return p
}

// votes reports whether this node is a voter, with this very directory, as far as it knows.
func (m *membership) votes() bool {
	ms := m.Load()
	if ms == nil {
		return m.cfg.voter()
	}
	return ms.Has(m.self)
}

// listed reports whether this node is in ms. An observer is known by its id alone, because it never counts.
func (m *membership) listed(ms *protocol.Membership) bool {
	return ms.Has(m.self) || slices.Contains(ms.Observers, m.self.ID)
}

// addresses returns the addresses of a participant, in the order in which they are tried. Until the first change of
// the membership each node uses those of its own URL, which may differ from node to node.
func (m *membership) addresses(ms *protocol.Membership, id protocol.NodeID) []string {
	var own string
	if p := find(slices.Concat(m.cfg.Voters, m.cfg.Observers), id); p != nil {
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
func (m *membership) routes(ms *protocol.Membership) link.Peers {
	if ms == nil {
		ms = m.cfg.founding() // which has no directories, so that no node is a voter in it
	}
	routes := make(link.Peers)
	for _, v := range ms.Voters {
		routes[v.ID] = m.addresses(ms, v.ID)
	}
	if ms.Has(m.self) {
		for _, id := range ms.Observers {
			routes[id] = m.addresses(ms, id)
		}
	}
	delete(routes, m.cfg.ID)
	return routes
}

// here is this node with the address at which others find it, for people.
func (c *setup) here() string {
	if p := find(slices.Concat(c.Voters, c.Observers), c.ID); p != nil && p.Addr != "" {
		return p.String()
	}
	return string(c.ID) + "@HOST:PORT"
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

// outside is the refusal for a node that is not in ms. Its Hello tells whether ms is newer than what the node knows,
// and so final, and whether the node waits to join.
func outside(ms *protocol.Membership, id protocol.NodeID, join bool) *wire.Refusal {
	first := "start it with join=true and "
	if join {
		first = ""
	}
	return &wire.Refusal{Code: wire.CodeRemoved, Says: fmt.Sprintf(
		"%s takes no part in membership %v any more: it has %s. To have it back, %srun elect member add %s@HOST:PORT",
		id, ms.ID(), who(ms), first, id)}
}

// votersOf returns the ids of the voters.
func votersOf(ms *protocol.Membership) []protocol.NodeID {
	all := make([]protocol.NodeID, len(ms.Voters))
	for i, v := range ms.Voters {
		all[i] = v.ID
	}
	return all
}

// who lists the participants of a membership, for people.
func who(ms *protocol.Membership) string {
	text := "the voters "
	if len(ms.Voters) == 1 {
		text = "the voter "
	}
	text += list(votersOf(ms))
	if len(ms.Observers) > 0 {
		text += " and the observers " + list(ms.Observers)
	}
	return text
}

// replan updates the plan with the number of voters.
func (m *membership) replan(ms *protocol.Membership) {
	if m.dialect.lacks(memberships) != nil {
		return // the participants are the same
	}
	p := m.plan
	qc, _, err := m.cfg.times()
	if err != nil {
		return // New has checked
	}
	qc.Membership, qc.Self = ms, ms.Voters[0]
	p.count(&qc)
	m.counting.Store(&p)
}

// present is the plan of the configuration with the present voters.
func (m *membership) present() Plan {
	if p := m.counting.Load(); p != nil {
		return *p
	}
	return m.plan
}

// standing is the role of a node: the membership decides, or before the founding the configuration.
func (m *membership) standing(id protocol.NodeID) (votes, listed bool) {
	votes = has(m.voters(), id)
	return votes, votes || has(m.observers(), id)
}

// holds returns an error if a membership cannot hold with this configuration.
func (m *membership) holds(next *protocol.Membership) error {
	if err := next.Validate(); err != nil {
		return err
	}
	if err := fits(next); err != nil {
		return err
	}
	qc, _, err := m.cfg.times()
	if err != nil {
		return err
	}
	qc.Membership, qc.Self = next, next.Voters[0]
	if _, err := quorum.New(qc); err != nil {
		return fmt.Errorf("with %d voters these times cannot hold: %s", len(next.Voters), strings.TrimPrefix(err.Error(), "quorum: "))
	}
	return nil
}
