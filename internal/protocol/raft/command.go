package raft

import "github.com/electd/elect/internal/protocol"

// do carries out a command.
func (m *Machine) do(c *protocol.Command, fx *protocol.Effects) {
	switch c.Verb {
	case protocol.Campaign:
		m.candidate = true
	case protocol.Withdraw:
		m.candidate = false
		m.giveUp(Withdrawn, fx)
	case protocol.Resign:
		if m.role == protocol.Leader {
			m.giveUp(Resigned, fx)
		}
	case protocol.Sicken:
		m.sick = true
		m.giveUp(Unhealthy, fx)
	case protocol.Recover:
		m.sick = false
	case protocol.Locate:
		m.locate(c.Position)
	case protocol.Joined:
		m.joined(c.Token)
	}
}

// giveUp ends its term or its candidacy. It waits for the longest timeout, so that the others time
// out before it.
func (m *Machine) giveUp(reason protocol.Reason, fx *protocol.Effects) {
	m.abandon()
	if m.role == protocol.Leader {
		m.stop(reason, fx)
		m.electAt = m.electAt.Add(2 * m.cfg.ElectionTimeout)
	}
}
