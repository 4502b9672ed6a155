package peer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// Plan is the times of a configuration, and what they promise.
type Plan struct {
	Protocol string `json:"protocol"`
	// Changed means that Heartbeat or Promise is not the profile's own.
	Profile string `json:"profile"`
	Changed bool   `json:"changed,omitzero"`

	Heartbeat time.Duration `json:"heartbeat_ns"` // between two heartbeats of a leader
	Promise   time.Duration `json:"promise_ns"`   // how long a voter waits for a silent leader at least
	Lease     time.Duration `json:"lease_ns"`     // what a leader claims of a promise; 0: the protocol has no lease
	Slot      time.Duration `json:"slot_ns"`      // between the ranks of candidates; 0: the protocol has none
	// WorstTakeover is the longest time from a leader's silence until another one is active; 0 if no voter may fail.
	WorstTakeover time.Duration `json:"worst_takeover_ns,omitzero"`

	Voters    int `json:"voters"`
	Quorum    int `json:"quorum"`    // the voters needed to elect
	Tolerates int `json:"tolerates"` // the voters that may fail
	// Warnings point out consequences that the user may not expect.
	Warnings []string `json:"warnings,omitempty"`

	patience time.Duration // without a lease: how long voters wait for a silent leader at most
	takeover time.Duration // while a majority is connected; never 0
}

// Plan returns the times of the configuration with these voters, or an error with the arithmetic if they cannot hold.
// It does no I/O.
func (c Config) Plan(voters []Peer) (Plan, error) {
	return setup{Config: c, Voters: voters}.plan()
}

// named is plan for an election that has a name.
func (c *setup) named() (Plan, error) {
	if err := driver.CheckName(c.Name); err != nil {
		return Plan{}, err
	}
	return c.plan()
}

func (c setup) plan() (Plan, error) {
	if err := c.check(); err != nil {
		return Plan{}, err
	}
	if err := c.guarded(); err != nil {
		return Plan{}, err
	}
	return c.dialect().plan(&c)
}

// count computes what follows from the number of voters.
func (p *Plan) count(qc *quorum.Config) {
	p.Lease = protocol.DefaultDrift().Claim(p.Promise)
	p.Voters = len(qc.Membership.Voters)
	p.Quorum = qc.Membership.Quorum()
	p.Tolerates = p.Voters - p.Quorum
	p.takeover, p.WorstTakeover = qc.WorstTakeover(), 0
	if p.Tolerates > 0 {
		p.WorstTakeover = p.takeover
	}
	p.Warnings = warnings(p.Voters)
}

// warnings say what that number of voters is not worth.
func warnings(voters int) []string {
	switch {
	case voters == 1:
		return []string{"one voter: nobody takes over when it fails"}
	case voters == 2:
		return []string{"two voters: a majority is both of them, so none may fail; a third one changes that"}
	case voters%2 == 0:
		return []string{fmt.Sprintf("%d voters: no more of them may fail than of %d, and a majority is one more", voters, voters-1)}
	}
	return nil
}

// times makes a machine's configuration, without the directories, which are not known yet, and the part of the plan
// that it is made from.
func (c *setup) times() (quorum.Config, Plan, error) {
	profile, err := profileOf(c.Profile)
	if err == nil {
		err = c.checkTimes()
	}
	if err != nil {
		return quorum.Config{}, Plan{}, err
	}
	p := Plan{
		Protocol: quorum.Name, Profile: profile.Name, Slot: profile.Slot,
		Heartbeat: cmp.Or(c.Heartbeat, profile.Heartbeat), Promise: cmp.Or(c.Promise, profile.Promise),
	}
	p.Changed = p.Heartbeat != profile.Heartbeat || p.Promise != profile.Promise
	if p.Heartbeat != profile.Heartbeat { // a slot depends on the same network
		p.Slot = max(time.Duration(float64(profile.Slot)*float64(p.Heartbeat)/float64(profile.Heartbeat)), time.Microsecond)
	}
	ms := c.founding()
	return quorum.Config{
		Self: ms.Voters[0], Membership: ms, Heartbeat: p.Heartbeat, Promise: p.Promise, Slot: p.Slot,
		Priority: c.Priority, MinTenure: c.Tenure, Position: quorum.PositionPolicy(c.Position), Compare: c.Compare, AwaitPosition: c.Locate != nil,
	}, p, nil
}

// profileOf returns the profile of that name; empty is the default.
func profileOf(name string) (quorum.Profile, error) {
	profiles := quorum.Profiles()
	if name == "" {
		return profiles[0], nil
	}
	if i := slices.IndexFunc(profiles, func(p quorum.Profile) bool { return p.Name == name }); i >= 0 {
		return profiles[i], nil
	}
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return quorum.Profile{}, fmt.Errorf("unknown profile %q; want one of: %s", name, strings.Join(names, ", "))
}

// checkTimes refuses invalid times.
func (c *setup) checkTimes() error {
	for _, d := range []struct {
		what  string
		value time.Duration
	}{{"heartbeat", c.Heartbeat}, {"promise", c.Promise}} {
		if d.value < 0 {
			return fmt.Errorf("a %s of %v; want more than 0", d.what, d.value)
		}
	}
	return nil
}

// String is the plan in one line, for people.
func (p Plan) String() string {
	voters, fail := fmt.Sprintf("%s voters", small(p.Voters)), "none may fail"
	switch {
	case p.Voters == 1:
		voters = "one voter"
	case p.Tolerates > 0:
		fail = small(p.Tolerates) + " may fail"
	}
	profile := "profile " + p.Profile
	if p.Changed {
		profile += ", changed"
	}
	then := "nobody takes over"
	if p.Protocol != quorum.Name {
		if p.WorstTakeover > 0 { // repeated split votes have no bound
			then = fmt.Sprintf("another is elected within %v of a silent leader, as a rule", up(p.WorstTakeover))
		}
		if profile == "profile "+quorum.Profiles()[0].Name {
			profile = "its own times"
		}
		waits := p.Promise.String()
		if p.patience > p.Promise { // voters draw it at random
			waits += " to " + p.patience.String()
		}
		return fmt.Sprintf("%s, %s; protocol %s, %s: heartbeat %v, a silent leader is waited for %s, no lease; %s",
			voters, fail, p.Protocol, profile, p.Heartbeat, waits, then)
	}
	if p.WorstTakeover > 0 {
		then = fmt.Sprintf("another is active at most %v after a silent leader", up(p.WorstTakeover))
	}
	return fmt.Sprintf("%s, %s; %s: heartbeat %v, promise %v, lease %v; %s",
		voters, fail, profile, p.Heartbeat, p.Promise, p.Lease.Truncate(unit(p.Lease)), then)
}

// small writes a number of voters, 1 as a word.
func small(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}

// unit is the precision in which people want to know a time: about three digits.
func unit(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return 100 * time.Millisecond
	case d >= time.Second:
		return 10 * time.Millisecond
	case d >= 10*time.Millisecond:
		return time.Millisecond
	}
	return time.Microsecond
}

// up rounds up: an upper bound must not be understated.
func up(d time.Duration) time.Duration {
	u := unit(d)
	return (d + u - 1).Truncate(u)
}
