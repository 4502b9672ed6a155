package blazingmq

import (
	"fmt"

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
	m.yes.Clear()
	m.heeds.Clear()
	*m = Machine{cfg: m.cfg, self: m.self, yes: m.yes, heeds: m.heeds, leader: noMember, tentative: noMember, saveAt: protocol.Never}
	c := protocol.Loading(src)
	m.state(&c)
	return c.Done("blazingmq: state")
}

// state codes the machine.
func (m *Machine) state(c *protocol.Coder) {
	if !c.Role(&m.role, &m.fault, protocol.Follower, protocol.PreCandidate, protocol.Candidate, protocol.Leader) {
		return
	}
	c.Instants(&m.now)
	m.ballot.state(c)
	c.Uints(&m.saveNo, &m.saved, &m.bootSave, &m.termSave, &m.term, &m.seen, &m.lsn.Term, &m.lsn.Counter)
	if m.term > protocol.MaxCount || m.seen > protocol.MaxCount {
		c.Fail(fmt.Errorf("terms %d and %d; want at most %d", m.term, m.seen, uint64(protocol.MaxCount)))
	}
	if c.Bools(&m.badDisk); m.badDisk {
		c.Instants(&m.saveAt)
	}
	c.Bools(&m.candidate, &m.sick, &m.fencing)
	if m.fencing || m.role == protocol.Leader {
		c.Uints(&m.token)
	}
	if m.fencing && m.role != protocol.Follower {
		c.Fail(fmt.Errorf("the role %v while work of an earlier term runs", m.role))
	}
	switch m.role {
	case protocol.Follower:
		m.place(c, &m.leader)
		m.place(c, &m.tentative)
		if m.leader != noMember && m.tentative != noMember {
			c.Fail(fmt.Errorf("a leader, %d, and one to be, %d", m.leader, m.tentative))
		}
		if m.follows() {
			c.Uints(&m.life)
			c.Instants(&m.heard)
		} else {
			c.Instants(&m.electAt)
		}
	case protocol.PreCandidate:
		c.Uints(&m.asked)
		c.Instants(&m.ends)
		m.yes.State(c)
		m.heeds.State(c)
		if m.asked <= m.term || m.asked > protocol.MaxCount {
			c.Fail(fmt.Errorf("it scouts for term %d in term %d", m.asked, m.term))
		}
	case protocol.Candidate:
		c.Instants(&m.ends)
		m.yes.State(c)
	case protocol.Leader:
		c.Instants(&m.beatAt)
		m.yes.State(c)
		if c.Loads() {
			m.leader = m.self
		}
	}
}

// place codes the place of another member, or noMember.
func (m *Machine) place(c *protocol.Coder, place *int) {
	if members.CodePlace(c, place, len(m.cfg.Members)); c.Loads() && *place == m.self {
		c.Fail(fmt.Errorf("the place %d, which is its own", m.self))
		*place = noMember
	}
}
