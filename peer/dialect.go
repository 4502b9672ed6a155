package peer

import (
	"cmp"
	"fmt"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// dialect is what a node has to know of the protocol that its machine follows.
// Everything else, from the links to the answers to clients, is one for all.
type dialect interface {
	// machine makes one for self, and says what it was made from, for the flight
	// recorder: what makes an equal machine again.
	machine(c *Config, self protocol.Voter, ms *protocol.Membership) (m protocol.Machine, from any, err error)
	// read reads what the data directory keeps: the newest membership, and the
	// Data of the machine's last Save.
	read(kept []byte) (ms *protocol.Membership, data []byte, err error)
	// incarnation is the boot counter in the Data of a Save.
	incarnation(data []byte) (uint64, error)
	// heartbeat reports whether a message is one with which its sender tells of
	// its leadership; elected says that it leads.
	heartbeat(m *protocol.Message, elected bool) bool
	// pausing is the command that has a machine stand no more, or again.
	pausing(on bool) protocol.Verb
}

// dialectOf is the dialect of a configuration that was checked.
func dialectOf(c *Config) dialect {
	if k := classicOf(c.Protocol); k != nil {
		return k
	}
	return quorumDialect{}
}

// protocolOf is the name of a configuration's protocol.
func protocolOf(c *Config) string { return cmp.Or(c.Protocol, quorum.Name) }

// quorumDialect is package quorum's: the ballot of its machine is what is kept.
type quorumDialect struct{}

func (quorumDialect) machine(c *Config, self protocol.Voter, ms *protocol.Membership) (protocol.Machine, any, error) {
	qc, _, err := c.times()
	if err != nil {
		return nil, nil, err
	}
	qc.Self, qc.Membership = self, ms
	mutate(&qc)
	if c.Machine != nil {
		m, err := c.Machine(qc)
		return m, &qc, err
	}
	m, err := quorum.New(qc)
	if err != nil {
		return nil, nil, err // and no nil machine in an interface
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

func (quorumDialect) incarnation(data []byte) (uint64, error) {
	b, err := quorum.DecodeBallot(data)
	if err != nil {
		return 0, fmt.Errorf("this machine saves no ballot of package quorum when it boots: %w; want a Config.Machine that does", err)
	}
	return b.Incarnation, nil
}

func (quorumDialect) heartbeat(m *protocol.Message, _ bool) bool {
	return m.Type == quorum.Heartbeat
}

func (quorumDialect) pausing(on bool) protocol.Verb {
	if on {
		return protocol.Pause
	}
	return protocol.Resume
}
