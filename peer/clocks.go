package peer

import (
	"log/slog"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
)

// clocks remembers what was logged about clocks that run at different rates. Turns own it.
type clocks struct {
	voters uint16 // as View.Apart
	apart  []protocol.NodeID
	aside  bool
}

// compare logs the changes of the latest view.
func (c *clocks) compare(log *slog.Logger, run *runtime.Runner) {
	voters, aside := run.View().Apart, run.View().Aside
	if aside != c.aside {
		if c.aside = aside; aside {
			log.Warn("the clock of this node does not run like those of the others; the node does not stand for election")
		} else {
			// at the level of the line about the trouble
			log.Warn("this node may stand for election again; it did not because of its clock")
		}
	}
	if voters == c.voters {
		return
	}
	var apart []protocol.NodeID
	for _, v := range othersOf(run.Machine()) {
		if !v.Apart {
			continue
		}
		if apart = append(apart, v.ID); !slices.Contains(c.apart, v.ID) {
			log.Warn("the clock of a voter does not run like that of this node; its promises do not count", "voter", v.ID, "faster_by", v.Rate.String())
		}
	}
	for _, id := range c.apart {
		if !slices.Contains(apart, id) {
			log.Warn("a voter is not known any more to have a clock that does not run like that of this node", "voter", id)
		}
	}
	c.voters, c.apart = voters, apart
}
