package peer

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
)

// clocks remembers what was logged about clocks that run at different rates. The loop owns it.
type clocks struct {
	voters uint16 // as View.Apart
	apart  []protocol.NodeID
	aside  bool
}

// compare logs the changes of the latest view.
func (c *clocks) compare(n *Node) {
	voters, aside := n.run.View().Apart, n.run.View().Aside
	if aside != c.aside {
		if c.aside = aside; aside {
			n.log.Warn("the clock of this node does not run like those of the others; the node does not stand for election")
		} else {
			// at the level of the line about the trouble
			n.log.Warn("this node may stand for election again; it did not because of its clock")
		}
	}
	if voters == c.voters {
		return
	}
	var apart []protocol.NodeID
	for _, v := range n.members() {
		if !v.Apart {
			continue
		}
		if apart = append(apart, v.ID); !slices.Contains(c.apart, v.ID) {
			n.log.Warn("the clock of a voter does not run like that of this node; its promises do not count", "voter", v.ID, "faster_by", v.Rate.String())
		}
	}
	for _, id := range c.apart {
		if !slices.Contains(apart, id) {
			n.log.Warn("a voter is not known any more to have a clock that does not run like that of this node", "voter", id)
		}
	}
	c.voters, c.apart = voters, apart
}
