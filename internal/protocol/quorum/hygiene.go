package quorum

import (
	"cmp"

	"github.com/electd/elect/internal/protocol"
)

// touch makes the step end with a save and returns its number.
func (m *Machine) touch() uint64 {
	m.dirty = true
	return m.saveNo + 1
}

// flush appends the step's save.
func (m *Machine) flush(fx *protocol.Effects) {
	if !m.dirty {
		return
	}
	// The promises of earlier incarnations have elapsed with the boot residual. Only those of this
	// one need to be remembered.
	if m.now.Boot >= m.bootUntil {
		m.ballot.MaxPromise = max(m.given, m.cfg.Promise)
	}
	m.dirty = false
	m.saveNo++
	b := m.ballot
	if m.next != nil {
		b.Membership = m.next
	}
	fx.Save(m.saveNo, b.Append)
}

// onSaved handles the end of a save. After a failure, the voter keeps its state in memory for what
// it forbids, and counts only saved state for what it allows (R3). It goes on acking within a
// durable term, but does not stand, votes for no candidate, gives up leadership, and saves again a
// heartbeat later.
func (m *Machine) onSaved(number uint64, failed bool, fx *protocol.Effects) {
	if number > m.saveNo || number <= m.saved {
		return
	}
	if failed {
		m.lost(&m.bootSave, number)
		m.lost(&m.termSave, number)
		m.lost(&m.promiseSave, number)
		m.lost(&m.configSave, number)
		m.lost(&m.nextSave, number)
		m.badDisk = true
		if number == m.saveNo {
			m.saveAt = m.now.Boot.Add(m.cfg.Heartbeat)
		}
		m.giveUp(DiskFailed, fx)
		return
	}
	if m.saved < m.termSave && number >= m.termSave {
		m.slowed()
	}
	m.saved = number
	if number == m.saveNo {
		m.badDisk, m.saveAt = false, protocol.Never
	}
	if m.next != nil && m.saved >= m.nextSave {
		m.install(fx)
	}
	m.hold()
	if m.round.kind == voting {
		m.tally(fx)
	}
}

// lost makes what waited for a failed save wait for the next one.
func (m *Machine) lost(waits *uint64, number uint64) {
	if *waits > m.saved && *waits <= number {
		*waits = max(m.saveNo, number+1)
	}
}

// jump handles a clock that jumped, or a machine that slept (R16): instants computed before have no
// meaning any more. A leader's evidence is void, so its tenure ends. A voter does not know how much
// of its promises is left; it may have given the longest of them just before.
func (m *Machine) jump(fx *protocol.Effects) {
	if m.cfg.mutants.Has("clock-jump-ignored") || !m.working() && m.cfg.mutants.Has("jump-ignored-by-voters") {
		return
	}
	now := m.now.Boot
	if !m.cfg.mutants.Has("jump-forgets-promises") {
		m.bootUntil = now.Add(m.ballot.MaxPromise)
	}
	m.promises.clear()
	m.forgetPaces()
	m.asideUntil = min(m.asideUntil, now.Add(asidePromises*m.cfg.Promise))
	m.graceUntil = protocol.Always
	if m.placeBy != protocol.Never {
		m.placeBy = now.Add(m.cfg.Promise + m.cfg.Grace)
	}
	m.quietUntil = min(m.quietUntil, now.Add(quietBeats*m.cfg.Heartbeat))
	m.saveAt = min(m.saveAt, now.Add(m.cfg.Heartbeat))
	if m.heard.at != protocol.Always {
		m.heard.at = now
	}
	if m.heard.contact != protocol.Always {
		m.heard.contact = now
	}
	m.end(ClockJump, fx)
	m.abandon()
	m.electIn(m.cfg.Promise+m.stagger(), Timeout)
}

// do carries out a command.
func (m *Machine) do(c protocol.Command, fx *protocol.Effects) {
	switch c.Verb {
	case protocol.Campaign:
		m.candidate = true
		m.metadata = cmp.Or(c.Metadata, m.metadata)
		if c.Priority >= protocol.NeverLead && c.Priority <= protocol.MaxPriority {
			m.priority = cmp.Or(c.Priority, m.priority)
		}
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
	case protocol.Transfer:
		m.transfer(c.Target, Transferred, fx)
	case protocol.Pause:
		m.paused = true
		if !m.cfg.mutants.Has("paused-stands") {
			m.giveUp(Paused, fx)
		}
	case protocol.Resume:
		m.paused = false
	case protocol.Reconfigure:
		m.reconfigure(c.Membership, fx)
	case protocol.Locate:
		m.locate(c.Position)
	case protocol.Joined:
		m.joined(c.Token, fx)
	case protocol.Confirm:
		m.confirm(fx)
	}
}
