package ring

import "github.com/electd/elect/protocol"

// stop ends a reign. Until its work has returned this one does not stand.
func (m *Machine) stop(reason protocol.Reason, fx *protocol.Effects) {
	if m.role != protocol.Leader {
		return
	}
	fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: m.reign, Reason: reason})
	m.rest()
	m.floor = max(m.floor, m.reign)
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
		if m.role == protocol.Fencing && c.Token == m.reign {
			m.role, m.reign = protocol.Follower, 0
		}
	}
}

// quit ends a reign, or what the participant does in an election.
func (m *Machine) quit(reason protocol.Reason, fx *protocol.Effects) {
	m.stop(reason, fx)
	if m.role != protocol.Fencing {
		m.rest()
	}
}

// note remembers an epoch. A leader of an earlier one stops: its token would be
// refused.
func (m *Machine) note(epoch uint64, fx *protocol.Effects) {
	if epoch <= m.ballot.Epoch {
		return
	}
	m.ballot.Epoch = epoch
	m.touch()
	m.stop(Outdated, fx)
}

// touch makes the step end with a save and returns its number.
func (m *Machine) touch() uint64 {
	m.dirty = true
	return m.saveNo + 1
}

// flush begins the step's save.
func (m *Machine) flush(fx *protocol.Effects) {
	if m.dirty {
		m.dirty = false
		m.saveNo++
		fx.Save(m.saveNo, m.ballot.Append)
	}
}

// onSaved takes notice of a save. After a failure nothing is won until a save
// succeeds; it is tried again a heartbeat later.
func (m *Machine) onSaved(number uint64, failed bool, fx *protocol.Effects) {
	if number > m.saveNo || number <= m.saved {
		return
	}
	if failed {
		m.badDisk = true
		if m.bootSave > m.saved && m.bootSave <= number {
			m.bootSave = max(m.saveNo, number+1)
		}
		if m.phase == taking && m.takeSave <= number {
			m.rest()
			m.at = m.now.Add(m.cfg.Silence)
		}
		if number == m.saveNo {
			m.saveAt = m.now.Add(m.cfg.Heartbeat)
		}
		return
	}
	m.saved = number
	if number == m.saveNo {
		m.badDisk, m.saveAt = false, protocol.Never
	}
	if m.phase == taking && m.saved >= m.takeSave {
		if m.ballot.Epoch != m.reign && m.ballot.Epoch < MaxEpoch {
			m.take() // more was heard of meanwhile
		} else {
			m.win(fx)
		}
	}
}
