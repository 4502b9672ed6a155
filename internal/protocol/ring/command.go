package ring

import "github.com/electd/elect/internal/protocol"

// stop ends a tenure. The participant does not stand until its work has returned.
func (m *Machine) stop(reason protocol.Reason, fx *protocol.Effects) {
	if m.role != protocol.Leader {
		return
	}
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.tenure, Reason: reason})
	m.rest()
	m.floor = max(m.floor, m.tenure)
	m.role, m.at = protocol.Fencing, m.now
}

// do carries out a command.
func (m *Machine) do(c protocol.Command, fx *protocol.Effects) {
	switch c.Verb {
	case protocol.Campaign:
		m.candidate = true
	case protocol.Recover:
		m.sick = false
	case protocol.Resume:
		m.paused = false
	case protocol.Withdraw:
		m.candidate = false
		m.quit(Withdrawn, fx)
	case protocol.Sicken:
		m.sick = true
		m.quit(Unhealthy, fx)
	case protocol.Pause:
		m.paused = true
		m.quit(Paused, fx)
	case protocol.Resign:
		if m.role == protocol.Leader {
			m.quit(Resigned, fx)
			m.restUntil = m.now.Add(m.cfg.WorstTakeover()) // until another has won
		}
	case protocol.Joined:
		if m.role == protocol.Fencing && c.Token == m.tenure {
			m.role, m.tenure = protocol.Follower, 0
		}
	}
}

// quit ends a tenure, or the participant's part in an election.
func (m *Machine) quit(reason protocol.Reason, fx *protocol.Effects) {
	m.stop(reason, fx)
	if m.role != protocol.Fencing {
		m.rest()
	}
}

// note records an epoch. A leader of an earlier one stops: its token would be refused.
func (m *Machine) note(epoch uint64, fx *protocol.Effects) {
	if m.ballot.Note(epoch) {
		m.stop(Outdated, fx)
	}
}

// onSaved records a save. After a failure nothing is won until a save succeeds; it tries again a
// heartbeat later.
func (m *Machine) onSaved(number uint64, failed bool, fx *protocol.Effects) {
	news := m.ballot.Saved(number, failed, m.now.Add(m.cfg.Heartbeat))
	switch {
	case !news || m.phase != taking || number < m.takeSave:
	case failed:
		m.rest()
		m.at = m.now.Add(m.cfg.Silence)
	case m.ballot.Epoch != m.tenure && m.ballot.Epoch < protocol.MaxCount:
		m.take() // a higher epoch was learned meanwhile
	default:
		m.win(fx)
	}
}
