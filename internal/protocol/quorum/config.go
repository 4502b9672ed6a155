package quorum

import (
	"cmp"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// Name is the protocol's name in URLs, traces and documents.
const Name = "quorum"

// LongestPromise is the greatest promise that can be configured, asked for or reported: a voter
// that restarts delays all others by as much.
const LongestPromise = time.Hour

// shortest is the least heartbeat: with a shorter one, timers decide and not the network.
const shortest = time.Millisecond

// Config is a participant's configuration. Membership and Self are required; for the other fields
// zero means the documented default. The voters of one election may differ in all but Drift.
type Config struct {
	// Self is this participant: its id and the identity of its data directory. An observer has one
	// too.
	Self protocol.Voter `json:"self"`
	// Membership applies until a newer one is known: one that was saved, or that arrives with a
	// message, replaces it.
	Membership *protocol.Membership `json:"membership"`

	// Heartbeat is the time between two heartbeats of a leader; 100 ms by
	// default, at least 1 ms.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Promise is D_V: the promise that a leader asks of its voters, and the time that a voter waits
	// for a silent leader. 1 s by default; at least 4 heartbeats, at most LongestPromise.
	Promise time.Duration `json:"promise,omitzero"`
	// Lease is D_L, which a leader claims of a promise of D_V. The default is the most that Promise
	// allows, Drift.Claim(Promise). More is refused. Less than 2 heartbeats is refused too, because
	// one lost heartbeat would end a tenure.
	Lease time.Duration `json:"lease,omitzero"`
	// Drift is the assumption about clocks; protocol.DefaultDrift() by default.
	// Its guard is at least 4·protocol.JumpTolerance.
	Drift protocol.Drift `json:"drift,omitzero"`
	// Unclocked switches the comparison of clocks off (R17). It is for checkers, whose clocks keep
	// to Drift and whose state spaces the comparison would enlarge.
	Unclocked bool `json:"unclocked,omitzero"`
	// Slot is the delay between the starts of two successive ranks of candidates: about 2·RTT +
	// 2·fsync, both at the 99th percentile, so that one election is over before the next begins. A
	// quarter of Heartbeat by default. The random delay that is added is below a quarter of Slot.
	Slot time.Duration `json:"slot,omitzero"`
	// Metadata tells others about this participant when it leads, such as an address, until a
	// Campaign command replaces it. It is UTF-8; heartbeats carry it.
	Metadata string `json:"metadata,omitzero"`

	// Priority is the preference for this participant as leader (R12): 1 to protocol.MaxPriority; 0 means
	// protocol.DefaultPriority, protocol.NeverLead a voter that only votes. A voter with a higher priority
	// stands earlier, and a leader with a lower one hands over to it.
	Priority int `json:"priority,omitzero"`
	// MinTenure is how long a tenure lasts before the leader hands over to a voter with a higher
	// priority; 10 promises by default.
	MinTenure time.Duration `json:"min_tenure,omitzero"`
	// Steady is how long that voter must have answered and been willing to stand without a gap; 5
	// promises by default.
	Steady time.Duration `json:"steady,omitzero"`
	// Position says how positions count (R13); IgnorePosition by default. All voters of an election
	// have the same setting.
	Position PositionPolicy `json:"position,omitzero"`
	// Grace is how long, with PreferPosition, a voter refuses a candidate that is behind it; 2
	// promises by default.
	Grace time.Duration `json:"grace,omitzero"`
	// AwaitPosition says that Locate commands tell this participant its position. Before the first
	// one after each start it does not know which candidates are behind it: it does not stand, and
	// refuses all candidates as behind it; with PreferPosition for no longer than a promise and
	// Grace.
	AwaitPosition bool `json:"await_position,omitzero"`
	// Compare orders positions as cmp.Compare does; protocol.CompareNumbers by default. The empty
	// position comes before all others without a call. It is called in Step: it must not block, and
	// must depend on its arguments only. A trace of a machine with another Compare cannot be
	// verified without it.
	Compare func(a, b string) int `json:"-"`

	mutants mutant.Switch
}

// Profile is a set of times that fit together.
type Profile struct {
	Name      string        `json:"name"`
	Heartbeat time.Duration `json:"heartbeat"`
	Promise   time.Duration `json:"promise"`
	Slot      time.Duration `json:"slot"`
	For       string        `json:"for"`
}

// Profiles returns the profiles; the first is the default. Slot is 2·RTT + 2·fsync at the 99th
// percentile, for the network and the disks that the profile is meant for.
func Profiles() []Profile {
	return []Profile{
		{"lan", 100 * time.Millisecond, time.Second, 25 * time.Millisecond, "ordinary hosts"},
		{"fast", 25 * time.Millisecond, 200 * time.Millisecond, 6250 * time.Microsecond, "quiet hosts in one rack"},
		{"wan", 500 * time.Millisecond, 5 * time.Second, 400 * time.Millisecond, "several regions"},
		{"calm", 2 * time.Second, 15 * time.Second, 500 * time.Millisecond, "slow disks, long pauses"},
	}
}

// In returns c with the times of p.
func (c Config) In(p Profile) Config {
	c.Heartbeat, c.Promise, c.Slot, c.Lease = p.Heartbeat, p.Promise, p.Slot, 0
	return c
}

// normal returns c with its defaults filled in, or an error if it cannot hold.
func (c Config) normal() (Config, error) {
	if _, err := protocol.ParseNodeID(string(c.Self.ID)); err != nil {
		return c, fmt.Errorf("quorum: self: %w", err)
	}
	if c.Membership == nil {
		return c, fmt.Errorf("quorum: no membership; want 1 to %d voters", protocol.MaxVoters)
	}
	if err := c.Membership.Validate(); err != nil {
		return c, fmt.Errorf("quorum: %w", err)
	}
	lan := Profiles()[0]
	if c.Heartbeat == 0 {
		c.Heartbeat = lan.Heartbeat
	}
	if c.Promise == 0 {
		c.Promise = lan.Promise
	}
	if c.Drift == (protocol.Drift{}) {
		c.Drift = protocol.DefaultDrift()
	}
	if c.Slot == 0 {
		c.Slot = c.Heartbeat / 4
	}
	if c.Priority == 0 {
		c.Priority = protocol.DefaultPriority
	}
	c.MinTenure = cmp.Or(c.MinTenure, 10*c.Promise)
	c.Steady = cmp.Or(c.Steady, 5*c.Promise)
	c.Grace = cmp.Or(c.Grace, 2*c.Promise)
	c.Position = cmp.Or(c.Position, IgnorePosition)
	if c.Compare == nil {
		c.Compare = protocol.CompareNumbers
	}
	if err := c.Drift.Validate(); err != nil {
		return c, fmt.Errorf("quorum: %w", err)
	}
	most := c.Drift.Claim(c.Promise)
	if c.Lease == 0 {
		c.Lease = most
	}
	return c, c.possible(most)
}

// possible returns an error if the times cannot hold together.
func (c Config) possible(most time.Duration) error {
	claim := fmt.Sprintf("%v · (1 − %g) / (1 + %g) − %v = %v", c.Promise, c.rho(), c.rho(), c.Drift.Guard, most)
	switch {
	case c.Drift.Guard < 4*protocol.JumpTolerance:
		return fmt.Errorf("quorum: a guard of %v; want at least %v, four times the precision to which a clock's jump can be told", c.Drift.Guard, 4*protocol.JumpTolerance)
	case c.Heartbeat < shortest:
		return fmt.Errorf("quorum: a heartbeat every %v; want at least %v", c.Heartbeat, shortest)
	case c.Promise > LongestPromise:
		return fmt.Errorf("quorum: a promise of %v; want at most %v", c.Promise, LongestPromise)
	case c.Promise < 4*c.Heartbeat:
		return fmt.Errorf("quorum: a promise of %v with a heartbeat every %v; want at least 4 · %v = %v, so that two heartbeats fit in the half after which promises are no longer asked for",
			c.Promise, c.Heartbeat, c.Heartbeat, 4*c.Heartbeat)
	case c.Lease > most:
		return fmt.Errorf("quorum: a lease of %v; a promise of %v allows at most %s", c.Lease, c.Promise, claim)
	case c.Lease < 2*c.Heartbeat:
		return fmt.Errorf("quorum: a lease of %v with a heartbeat every %v; want at least 2 · %v = %v; a promise of %v allows %s",
			c.Lease, c.Heartbeat, c.Heartbeat, 2*c.Heartbeat, c.Promise, claim)
	case c.Slot < 0 || c.Slot > c.Promise:
		return fmt.Errorf("quorum: a slot of %v; want more than 0 and at most the promise, %v", c.Slot, c.Promise)
	case c.Priority != protocol.NeverLead && (c.Priority < 1 || c.Priority > protocol.MaxPriority):
		return fmt.Errorf("quorum: a priority of %d; want 1 to %d, or %d for a voter that never leads", c.Priority, protocol.MaxPriority, protocol.NeverLead)
	case c.MinTenure < 0 || c.Steady < 0 || c.Grace < 0 || max(c.MinTenure, c.Steady, c.Grace) > 24*LongestPromise:
		return fmt.Errorf("quorum: a least tenure of %v, %v to be steady, a grace of %v; want 0 to %v each", c.MinTenure, c.Steady, c.Grace, 24*LongestPromise)
	case c.Position != IgnorePosition && c.Position != PreferPosition && c.Position != RequirePosition:
		return fmt.Errorf("quorum: the position policy %q; want %q, %q or %q", c.Position, IgnorePosition, PreferPosition, RequirePosition)
	}
	return nil
}

func (c Config) rho() float64 { return float64(c.Drift.PPM) / 1e6 }

// WorstTakeover is the longest time, in true time, from the moment a leader falls silent until
// another leader is active, if a majority of voters reach each other, each of their rounds fits in
// a slot, and all but the last of the successors are silent too. On the slowest clock allowed it is
//
//	(Promise + (voters + 2) · Slot) / (1 − ρ)
//	(Promise + (voters + 2) · Slot) / (1 − ρ)
//
// It counts one slot for each rank and two for the rounds. A colliding candidate, a lost message,
// or a voter that restarts at the wrong moment (which promises anew for at most Promise) adds to
// it. With PreferPosition it includes Grace. With RequirePosition it is no bound while the voters
// that are ahead cannot win. It is 0 for an invalid configuration.
func (c Config) WorstTakeover() time.Duration {
	c, err := c.normal()
	if err != nil {
		return 0
	}
	local := c.Promise + time.Duration(len(c.Membership.Voters)+2)*c.Slot
	if c.Position == PreferPosition {
		local += c.Grace
	}
	return time.Duration(float64(local) / (1 - c.rho()))
}
