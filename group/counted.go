package group

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

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

type counted struct {
	renewals, lapsed, starts, overruns, changes atomic.Uint64

	mu    sync.Mutex
	moves map[string]uint64
}

// The causes of moves that are not those of package placement.
const (
	causeOperator = "operator" // somebody has asked for it
	causeOther    = "other"    // a placement of one's own does not say it
)

func (c *counted) move(cause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves == nil {
		c.moves = map[string]uint64{}
	}
	c.moves[cmp.Or(cause, causeOther)]++
}

// total is how many moves were begun.
func (c *counted) total() (n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.moves {
		n += of
	}
	return n
}

// Measurements are what a member knows without asking.
type Measurements struct {
	Keys        int               // that it holds, or whose work has not returned
	Claim       time.Duration     // for how long its keys are proven without another renewal; 0 if they are not
	Attached    bool              // it is connected with a coordinator, which has taken it in
	Coordinates bool              // it is the coordinator
	Moves       map[string]uint64 // that it has begun as a coordinator, by cause: one of package placement, operator, or other
}

// Measure returns how this member is. It waits for nothing.
func (g *Group) Measure() Measurements {
	m := Measurements{Keys: int(g.member.active.Load())}
	if v := g.member.seen.Load(); v != nil {
		m.Attached = v.Tenure != 0
		if now := g.env.now(); v.Proven(now) {
			m.Claim = v.Claim.Sub(now.Boot)
		}
	}
	g.mu.Lock()
	m.Coordinates = g.coordinator != nil
	g.mu.Unlock()
	c := &g.counted
	c.mu.Lock()
	m.Moves = maps.Clone(c.moves)
	c.mu.Unlock()
	return m
}

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
