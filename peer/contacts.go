package peer

import (
	"slices"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/link"
	"github.com/electd/elect/peer/internal/wire"
)

// contacts are the connections with the other nodes, and who was heard through them.
type contacts struct {
	*membership
	links // noLinks until the node is started
}

// noLinks are the links of a node that has none yet.
type noLinks struct{}

func (noLinks) Send(protocol.NodeID, *wire.Letter)                                          {}
func (noLinks) SetIncarnation(uint64)                                                       {}
func (noLinks) SetPeers(protocol.ConfigID, link.Peers, func(protocol.NodeID) *wire.Refusal) {}
func (noLinks) Announce(*wire.Welcome)                                                      {}
func (noLinks) Peers() []link.PeerInfo                                                      { return nil }
func (noLinks) Close() error                                                                { return nil }

// places returns the addresses of a voter, first the one at which the links are connected.
func (c *contacts) places(id protocol.NodeID) []string {
	ms := c.membership.Load()
	if ms == nil {
		ms = c.cfg.founding()
	}
	if ms.Index(id) < 0 {
		return nil
	}
	all := c.addresses(ms, id)
	for _, p := range c.Peers() {
		if i := slices.Index(all, p.Addr); p.ID == id && p.Connected && i > 0 {
			all[0], all[i] = all[i], all[0]
		}
	}
	return all
}

// rewire has the links keep connections with the members of ms and no others.
func (c *contacts) rewire(ms *protocol.Membership) {
	c.SetPeers(ms.ID(), c.routes(ms), func(id protocol.NodeID) *wire.Refusal { return outside(ms, id, false) })
}

// reaches reports whether a majority of the voters, this one included, was heard within a promise.
func (c *contacts) reaches(now protocol.Instant) bool {
	if c.membership.Load() == nil {
		return false
	}
	heard := 0
	if c.votes() {
		heard++
	}
	voters := c.voters()
	for _, p := range c.Peers() {
		if has(voters, p.ID) && c.hears(&p, now) {
			heard++
		}
	}
	if !c.dialect.majority() {
		return true // this node alone is enough
	}
	return heard > len(voters)/2
}

func (c *contacts) hears(p *link.PeerInfo, now protocol.Instant) bool {
	return p.LastHeard != 0 && clock.Boot(now).Sub(p.LastHeard) < c.idle()
}
