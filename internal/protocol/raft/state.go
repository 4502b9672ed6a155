package raft

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// AppendState implements [protocol.Machine]. Fields that the present role does not read are left
// out, so that equal behaviour has equal bytes.
func (m *Machine) AppendState(dst []byte) []byte {
	c := protocol.Appending(dst)
	m.state(&c)
	return c.Appended()
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	*m = Machine{cfg: m.cfg, self: m.self, marks: m.marks, leader: -1, heardAt: protocol.Always, saveAt: protocol.Never}
	m.marks.Clear()
	c := protocol.Loading(src)
	m.state(&c)
	return c.Done("raft: state")
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	if !c.Role(&m.role, &m.fault, protocol.Follower, protocol.PreCandidate, protocol.Candidate, protocol.Leader, protocol.Fencing) {
		return
	}
	m.ballot.state(c)
	c.Uints(&m.saveNo, &m.saved, &m.termSave)
	c.Bools(&m.badDisk)
	if m.badDisk {
		c.Instants(&m.saveAt)
	}
	c.Bools(&m.candidate, &m.sick)
	protocol.Strings(c, &m.position)
	c.Bools(&m.located)
	c.Uints(&m.round)
	if m.role == protocol.Leader {
		c.Uints(&m.token)
		c.Instants(&m.beatAt)
		if m.cfg.CheckQuorum {
			c.Instants(&m.checkAt)
			m.marks.State(c)
		}
		return
	}
	c.Instants(&m.electAt)
	members.CodePlace(c, &m.leader, len(m.cfg.Members))
	if m.leader >= 0 {
		c.Instants(&m.heardAt)
	}
	switch m.role {
	case protocol.Fencing:
		c.Uints(&m.token)
	case protocol.PreCandidate, protocol.Candidate:
		m.marks.State(c)
	}
}
