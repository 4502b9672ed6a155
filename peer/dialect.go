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
	"github.com/electd/elect/peer/internal/disk"
)

// dialect is what a node knows of the protocol that its machine follows: a row of the table of protocols. Everything
// else is the same for every protocol.
type dialect interface {
	// protocol is the name. In a Hello that of the first row is empty.
	protocol() string
	// plan computes the plan of a checked configuration.
	plan(c *setup) (Plan, error)
	// limits returns the limits of an election with p.
	limits(p Plan, voter bool) driver.Limits
	// lacks returns an error if the protocol does not have the feature.
	lacks(what feature) error
	// majority reports whether it takes a majority of the voters to elect. If not, one is enough.
	majority() bool
	// machine makes a machine for self. It also returns what the machine was made from, for the flight recorder: an
	// equal machine can be made from it.
	machine(c *setup, self protocol.Voter, ms *protocol.Membership) (m protocol.Machine, from any, err error)
	// read and write translate what the data directory keeps: the newest membership, and the data of the machine's last
	// save. write appends to dst, or returns data.
	read(kept []byte) (ms *protocol.Membership, data []byte, err error)
	write(dst []byte, ms *protocol.Membership, data []byte) []byte
	// pausing is the command that pauses or resumes the machine.
	pausing(on bool) protocol.Verb
	// remedy says what to do if a voter's memory is lost, for people.
	remedy() string
}

// feature is an ability that only some protocols have.
type feature int

const (
	leases feature = iota
	priorities
	transfers
	memberships
	witnesses
)

// dialects is the table of protocols. The first is the default.
func dialects() []dialect {
	table := []dialect{quorumDialect{}}
	for _, k := range classics() {
		table = append(table, k)
	}
	return table
}

// Protocols returns the values of Config.Protocol. The first one is the default, and the only one with a lease.
func Protocols() (all []string) {
	for _, d := range dialects() {
		all = append(all, d.protocol())
	}
	return all
}

// protocols is the table from which a configuration chooses.
func (c *setup) protocols() []dialect {
	if c.dialects != nil {
		return c.dialects
	}
	return dialects()
}

// dialect returns the row of the configured protocol, nil if there is none with that name.
func (c *setup) dialect() dialect {
	table := c.protocols()
	name := cmp.Or(c.Protocol, table[0].protocol())
	if i := slices.IndexFunc(table, func(d dialect) bool { return d.protocol() == name }); i >= 0 {
		return table[i]
	}
	return nil
}

// checkProtocol refuses an unknown protocol, and settings that the protocol would ignore.
func (c *setup) checkProtocol() error {
	d := c.dialect()
	if d == nil {
		var names []string
		for _, k := range c.protocols() {
			names = append(names, k.protocol())
		}
		return fmt.Errorf("unknown protocol %q; want one of: %s", c.Protocol, strings.Join(names, ", "))
	}
	if d.lacks(memberships) == nil {
		return nil
	}
	for _, o := range []struct {
		set       bool
		what, why string
	}{
		{len(c.Observers) > 0, "observers", "it knows voters only"},
		{c.Join, "join", "who takes part is settled when the election is founded"},
		{c.Priority != 0, "priority", "it has an order of its own"},
		{c.Tenure != 0, "tenure", "no leader hands over by itself"},
		{c.Position != "", "position", "it elects without"},
		{c.Locate != nil || c.LocateEvery != 0 || c.Compare != nil || c.CatchUp != nil, "Locate, LocateEvery, Compare and CatchUp", "it elects without positions"},
	} {
		if o.set {
			return fmt.Errorf("protocol=%s has no use for %s: %s; leave it out, or want protocol=%s", c.Protocol, o.what, o.why, quorum.Name)
		}
	}
	return nil
}

// spoken is the protocol as in a Hello: empty is the default.
func (c *setup) spoken() string {
	if name := c.dialect().protocol(); name != c.protocols()[0].protocol() {
		return name
	}
	return ""
}

// quorumDialect is that of package quorum. The data directory keeps the ballot of its machine as it is.
type quorumDialect struct{}

func (quorumDialect) protocol() string    { return quorum.Name }
func (quorumDialect) lacks(feature) error { return nil }
func (quorumDialect) majority() bool      { return true }
func (quorumDialect) remedy() string      { return disk.Remedy }

func (quorumDialect) plan(c *setup) (Plan, error) {
	qc, p, err := c.times()
	if err != nil {
		return Plan{}, err
	}
	if _, err := quorum.New(qc); err != nil {
		return Plan{}, fmt.Errorf("these times cannot hold: %s", strings.TrimPrefix(err.Error(), "quorum: "))
	}
	if err := fits(qc.Membership); err != nil {
		return Plan{}, err
	}
	p.count(&qc)
	return p, nil
}

func (quorumDialect) limits(p Plan, voter bool) driver.Limits {
	drift := protocol.DefaultDrift()
	// Takeover is bounded while the back end answers, which needs a majority. This holds with one and two voters too,
	// where the plan promises no takeover because no other voter is left; 0 would say that a hung leader stays for ever.
	l := driver.Limits{
		Lease: p.Lease, MinLease: 2 * time.Millisecond, MaxLease: drift.Claim(quorum.LongestPromise),
		Takeover: p.takeover, Exclusive: true, Abilities: []driver.Ability{driver.AbilityResign, driver.AbilityTransfer},
		Assumes: fmt.Sprintf("a majority of the voters can reach each other, the rates of their clocks are true within %d %%, and no data directory is a copy or an older one", drift.PPM/10_000),
	}
	if voter {
		l.Abilities = append(l.Abilities, driver.AbilityConfirm, driver.AbilityWitness, driver.AbilityPriority, driver.AbilityMetadata)
	}
	return l
}

func (quorumDialect) machine(c *setup, self protocol.Voter, ms *protocol.Membership) (protocol.Machine, any, error) {
	qc, _, err := c.times()
	if err != nil {
		return nil, nil, err
	}
	qc.Self, qc.Membership = self, ms
	mutate(&qc)
	if c.machine != nil {
		m, err := c.machine(qc)
		return m, &qc, err
	}
	m, err := quorum.New(qc)
	if err != nil {
		return nil, nil, err // so that an interface never holds a nil machine
	}
	return m, &qc, nil
}

func (quorumDialect) read(kept []byte) (*protocol.Membership, []byte, error) {
	if e, wrong := openEnvelope(kept); wrong == nil {
		return nil, nil, otherProtocol(e.protocol, quorum.Name)
	}
	b, err := quorum.DecodeBallot(kept)
	if err != nil {
		return nil, nil, err
	}
	return b.Membership, kept, nil
}

func (quorumDialect) write(_ []byte, _ *protocol.Membership, data []byte) []byte { return data }

func (quorumDialect) pausing(on bool) protocol.Verb {
	if on {
		return protocol.Pause
	}
	return protocol.Resume
}
