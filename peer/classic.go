package peer

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// classic is the dialect of a protocol without a lease. It makes the machines and configures their times.
//
// Differences from quorum:
//
//   - A leader is elected and never proven. So no campaign may ask for a lease, and Check of a term is
//     [driver.ErrNotExclusive]. Only the token tells two leaders apart, as far as the protocol's number rises.
//   - The founding settles the participants for good. All protocols keep the founding, although only raft and
//     blazingmq vote. A voter that has lost its disk has forgotten its votes, or the epoch that it must exceed, and
//     is refused as with quorum.
//   - The machine's ballot knows neither protocol nor membership; the directory
//     keeps them beside it, see envelope.
//   - The machine's messages carry neither the start of the term nor the leader's metadata. So the node adds both to
//     what a leader sends.
type classic struct {
	name string
	// rises says how far tokens rise, for people.
	rises string
	// quorate: it takes a majority of the voters to elect.
	quorate bool
	// build makes a machine. Its error says what cannot hold.
	build func(s *spec) (built, error)
	// boots returns an error if the data of a save is no ballot of this protocol.
	boots func(data []byte) error
}

// spec is the input for building a classic machine.
type spec struct {
	self    protocol.NodeID
	members []protocol.NodeID
	// heartbeat is how often a leader sends; detection is how long voters wait for a silent leader. 0 is the protocol's
	// default, or what follows from the other one.
	heartbeat, detection time.Duration
}

// built is the result of building a spec.
type built struct {
	machine              protocol.Machine
	from                 any // the machine's configuration
	heartbeat, detection time.Duration
	most                 time.Duration // how long voters wait for a silent leader at most, with the random part
	worst                time.Duration // see WorstTakeover of the machine's configuration
}

// plan computes the plan of a configuration.
func (k *classic) plan(c *setup) (Plan, error) {
	ms := c.founding()
	b, err := k.make(c, ms.Voters[0].ID, ms)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Protocol: k.name, Profile: cmp.Or(c.Profile, quorum.Profiles()[0].Name), Changed: c.Heartbeat != 0 || c.Promise != 0}
	k.count(&p, &b, len(ms.Voters))
	return p, nil
}

// count completes a plan.
func (k *classic) count(p *Plan, b *built, voters int) {
	p.Heartbeat, p.Promise, p.patience, p.takeover = b.heartbeat, b.detection, b.most, b.worst
	p.Voters, p.Quorum = voters, 1
	if k.quorate {
		p.Quorum = voters/2 + 1
	}
	p.Tolerates, p.WorstTakeover = voters-p.Quorum, 0
	if p.Tolerates > 0 {
		p.WorstTakeover = p.takeover
	}
	if p.Warnings = nil; k.quorate || voters == 1 {
		p.Warnings = warnings(voters)
	}
	p.Warnings = append(p.Warnings, fmt.Sprintf("protocol=%s proves no lease: two may lead at the same time; %s", k.name, k.rises))
}

// make makes a machine with the configured times.
func (k *classic) make(c *setup, self protocol.NodeID, ms *protocol.Membership) (built, error) {
	profile, err := profileOf(c.Profile)
	if err != nil {
		return built{}, err
	}
	if err := c.checkTimes(); err != nil {
		return built{}, err
	}
	s := spec{self: self, members: votersOf(ms), heartbeat: c.Heartbeat, detection: c.Promise}
	if s.detection == 0 && profile.Name != quorum.Profiles()[0].Name {
		s.detection = profile.Promise
	}
	b, err := k.build(&s)
	if err != nil {
		return built{}, fmt.Errorf("these times cannot hold: %s", strings.TrimPrefix(err.Error(), strings.SplitN(k.name, "-", 2)[0]+": "))
	}
	return b, nil
}

func (k *classic) machine(c *setup, self protocol.Voter, ms *protocol.Membership) (protocol.Machine, any, error) {
	b, err := k.make(c, self.ID, ms)
	return b.machine, b.from, err
}

// pausing returns the command that pauses or resumes a machine. A classic machine knows no operator, so it is told
// that its owner is unwell.
func (k *classic) pausing(on bool) protocol.Verb {
	if on {
		return protocol.Sicken
	}
	return protocol.Recover
}

func (k *classic) protocol() string { return k.name }
func (k *classic) majority() bool   { return k.quorate }

func (k *classic) limits(p Plan, _ bool) driver.Limits {
	return driver.Limits{
		Takeover: p.takeover, Abilities: []driver.Ability{driver.AbilityResign},
		Assumes: fmt.Sprintf("nothing: %s proves no lease, and two may lead at the same time; %s", k.name, k.rises),
	}
}

func (k *classic) lacks(what feature) error {
	unsupported := func(what, instead string) error {
		return fmt.Errorf("%w: protocol=%s %s; %s", driver.ErrUnsupported, k.name, what, instead)
	}
	switch what {
	case leases:
		return driver.Permanent(fmt.Errorf("%w: protocol=%s proves no lease, so that nobody can be told to lead alone; want protocol=%s, or elect.Config.NonExclusive (elect run --exclusive=false) if every effect of the work is fenced by its token",
			driver.ErrUnsupported, k.name, quorum.Name))
	case priorities:
		return driver.Permanent(unsupported("knows no priorities", "want 0"))
	case transfers:
		return unsupported("cannot hand over to a named candidate", "elect resign has the leader step down, and another one is elected")
	case memberships:
		return unsupported("has no memberships that change: who takes part is settled by the founding", "to change it, stop all voters, empty their directories, and start them with the new list and a higher era")
	}
	return unsupported("has no use for a witness", "nobody waits for a lease")
}

func (k *classic) remedy() string {
	return fmt.Sprintf("A voter that has forgotten what it said could help to elect a second leader of the same term, so it stays out; the others go on without it. "+
		"Want the directory as it was, and never a backup of it. Without it begin anew with all, because protocol=%s has no memberships that change: "+
		"stop all voters, empty their directories, and start them with a higher era", k.name)
}
