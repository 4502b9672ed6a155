package raft

import "github.com/electd/elect/internal/protocol"

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

// onSaved records a save. After a failure the participant keeps its state in memory, which forbids
// a second vote, and counts as durable only what is; it does not stand, and tries again a heartbeat
// later.
func (m *Machine) onSaved(number uint64, failed bool, fx *protocol.Effects) {
	if number > m.saveNo || number <= m.saved {
		return
	}
	if failed {
		if m.termSave > m.saved && m.termSave <= number {
			m.termSave = max(m.saveNo, number+1) // the next one holds it
		}
		m.badDisk = true
		if number == m.saveNo {
			m.saveAt = m.now.Add(m.cfg.Heartbeat)
		}
		return
	}
	m.saved = number
	m.badDisk, m.saveAt = false, protocol.Never
	m.tally(fx)
}
