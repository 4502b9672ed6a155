package bully

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine].
func (m *Machine) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	c := protocol.Loading(src)
	*m = Machine{cfg: m.cfg, place: m.place}
	m.state(&c)
	return c.Done("bully: state")
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	if !c.Role(&m.role, &m.fault, protocol.Follower, protocol.Candidate, protocol.Leader, protocol.Fencing) {
		return
	}
	m.ballot.State(c)
	protocol.Small(c, &m.phase, "phase", 0, taking)
	c.Uints(&m.round, &m.leader.Incarnation, &m.leader.Term, &m.tenure, &m.takeSave)
	c.Instants(&m.restUntil, &m.at, &m.beatAt)
	c.Bools(&m.candidate, &m.sick, &m.paused)
	protocol.Strings(c, &m.leader.ID)
	if (m.phase == asking || m.phase == taking) != (m.role == protocol.Candidate) || m.phase == bullied && m.role != protocol.Follower {
		c.Fail(fmt.Errorf("the role %v does not go with the phase %d", m.role, m.phase))
	}
}
