package quorum

import (
	"cmp"
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// Name is the protocol's name in URLs, traces and on pages.
const Name = "quorum"

// LongestPromise is the greatest promise that can be configured, asked for or
// reported: a voter that restarts holds everybody up for as long.
const LongestPromise = time.Hour

// shortest is the least heartbeat: below it timers, not the network, decide.
const shortest = time.Millisecond

// Config is a participant's configuration. Membership and Self are required;
// zero means the documented default elsewhere. Voters of one election may
// differ in everything but the assumption about clocks.
type Config struct {
	// Self is who this participant is: its id and the identity of its data
	// directory. An observer has one too.
	Self protocol.Voter `json:"self"`
	// Membership is who takes part, until a newer one is learnt: what was
	// saved or arrives with a message counts before it.
	Membership *protocol.Membership `json:"membership"`

	// Heartbeat is the time between two heartbeats of a leader; 100 ms by
	// default, at least 1 ms.
	Heartbeat time.Duration `json:"heartbeat,omitzero"`
	// Promise is D_V, what a leader asks of its voters, and how long a voter
	// waits for a silent leader. 1 s by default; at least 4 heartbeats, at most
	// LongestPromise.
	Promise time.Duration `json:"promise,omitzero"`
	// Lease is D_L, what a leader claims of a promise of D_V. The default is
	// the most that Promise allows, Drift.Claim(Promise). More is refused; less
	// than 2 heartbeats too, because one lost heartbeat would end a tenure.
	Lease time.Duration `json:"lease,omitzero"`
	// Drift is the assumption about clocks; protocol.DefaultDrift() by default.
	// Its guard is at least 4·protocol.JumpTolerance.
	Drift protocol.Drift `json:"drift,omitzero"`
	// Unclocked leaves the comparison of clocks out (R17). It is for checkers,
	// whose clocks keep to Drift, and whose worlds it would make larger.
	Unclocked bool `json:"unclocked,omitzero"`
	// Slot is how much later each rank of candidates starts than the one before:
	// about 2·RTT + 2·fsync, both at the 99th percentile, so that one election
	// is over before the next begins. A quarter of Heartbeat by default. The
	// random delay beside it is below a quarter of Slot.
	Slot time.Duration `json:"slot,omitzero"`
	// Metadata is what others may know of this participant when it leads, such
	// as an address, until a Campaign command brings another. UTF-8; heartbeats
	// carry it.
	Metadata string `json:"metadata,omitzero"`

	// Priority is how gladly this participant leads (R12): 1 to MaxPriority;
	// DefaultPriority if it is 0, protocol.NeverLead for a voter that only votes.
	// Who has a higher one stands earlier, and gets leadership handed over by a
	// leader who has a lower one.
	Priority int `json:"priority,omitzero"`
	// MinTenure is how long a tenure lasts before the leader hands over to a voter
	// of a higher priority; 10 promises by default.
	MinTenure time.Duration `json:"min_tenure,omitzero"`
	// Steady is for how long that voter must have answered and been willing
	// without a gap; 5 promises by default.
	Steady time.Duration `json:"steady,omitzero"`
	// Position says what positions count for (R13); IgnorePosition by default.
	// It is one setting for a whole election.
	Position PositionPolicy `json:"position,omitzero"`
	// Grace is how long a voter that is ahead holds up a candidate that is
	// behind, with PreferPosition; 2 promises by default.
	Grace time.Duration `json:"grace,omitzero"`
	// AwaitPosition says that this participant is told its position by Locate
	// commands. Until the first one of a life it does not know whom it is ahead
	// of: it does not stand, and counts as ahead of everybody; with PreferPosition
	// for no longer than a promise and Grace.
	AwaitPosition bool `json:"await_position,omitzero"`
	// Compare orders positions as cmp.Compare does; protocol.CompareNumbers by
	// default. The empty position is before all others without asking it. It is
	// called in Step: it does not block, and depends on nothing but its arguments.
	// A trace of a machine with another one cannot be verified without it.
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

// Profiles returns the profiles; the first is the default. Slot is 2·RTT +
// 2·fsync at the 99th percentile, for the network and the disks that the
// profile is meant for.
func Profiles() []Profile {
	return []Profile{
		{"lan", 100 * time.Millisecond, time.Second, 25 * time.Millisecond, "ordinary hosts"},
		{"fast", 25 * time.Millisecond, 200 * time.Millisecond, 6250 * time.Microsecond, "quiet hosts in one rack"},
		{"wan", 500 * time.Millisecond, 5 * time.Second, 400 * time.Millisecond, "several regions"},
		{"calm", 2 * time.Second, 15 * time.Second, 500 * time.Millisecond, "slow disks, long pauses"},
	}
}

// In returns c with the times of a profile.
func (c Config) In(p Profile) Config {
	c.Heartbeat, c.Promise, c.Slot, c.Lease = p.Heartbeat, p.Promise, p.Slot, 0
	return c
}

// normal returns c with its defaults filled in, or says what cannot hold.
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
		c.Priority = DefaultPriority
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

// possible says which of the times cannot hold together, and why.
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
	case c.Priority != protocol.NeverLead && (c.Priority < 1 || c.Priority > MaxPriority):
		return fmt.Errorf("quorum: a priority of %d; want 1 to %d, or %d for a voter that never leads", c.Priority, MaxPriority, protocol.NeverLead)
	case c.MinTenure < 0 || c.Steady < 0 || c.Grace < 0 || max(c.MinTenure, c.Steady, c.Grace) > 24*LongestPromise:
		return fmt.Errorf("quorum: a least tenure of %v, %v to be steady, a grace of %v; want 0 to %v each", c.MinTenure, c.Steady, c.Grace, 24*LongestPromise)
	case c.Position != IgnorePosition && c.Position != PreferPosition && c.Position != RequirePosition:
		return fmt.Errorf("quorum: the position policy %q; want %q, %q or %q", c.Position, IgnorePosition, PreferPosition, RequirePosition)
	}
	return nil
}

func (c Config) rho() float64 { return float64(c.Drift.PPM) / 1e6 }

// WorstTakeover is how long it takes at most, in true time, from the moment
// when a leader falls silent until another is active: when a majority can talk
// to each other, each round of theirs fits in a slot, and all but the last of
// the successors are silent too. That is, on the slowest clock allowed,
//
//	(Promise + (voters + 2) · Slot) / (1 − ρ)
//
// It counts one slot for each rank and two for the rounds. A colliding
// candidate, a lost message, or a voter that restarts at the wrong moment
// (which promises anew for at most Promise) comes on top. With PreferPosition it
// includes Grace; with RequirePosition it is no bound while those who are ahead
// cannot win. An invalid configuration has none: 0.
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
