package group

import (
	"sync/atomic"

	"github.com/electd/elect/driver"
	machine "github.com/electd/elect/internal/protocol/group"
)

// Counts are what a member has counted since it joined.
type Counts struct {
	Renewals uint64 // how often its claim was extended
	Lapsed   uint64 // how often its claim has ended, and with it all its keys
	Starts   uint64 // keys that it got
	Overruns uint64 // keys whose work had not returned when the claim ended
	Changes  uint64 // of holders, that it has decided as a coordinator
}

type counted struct{ renewals, lapsed, starts, overruns, changes atomic.Uint64 }

func (c *counted) view(before, now machine.View) {
	if before.Session == now.Session && now.Claim > before.Claim {
		c.renewals.Add(1)
	}
}

// Counts returns what this member has counted. It waits for nothing.
func (g *Group) Counts() Counts {
	c := &g.counted
	return Counts{Renewals: c.renewals.Load(), Lapsed: c.lapsed.Load(), Starts: c.starts.Load(), Overruns: c.overruns.Load(), Changes: c.changes.Load()}
}

func (g *Group) measure() driver.Measurements {
	return driver.Measurements{Renewals: g.counted.renewals.Load()}
}
