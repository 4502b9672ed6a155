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

// flush begins the step's save.
func (m *Machine) flush(fx *protocol.Effects) {
	if !m.dirty {
		return
	}
	// The promises of earlier lives have elapsed with the boot residual, so
	// only those of this one need to be remembered.
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

// onSaved takes notice of a save. After a failure the voter keeps what it has
// in mind, which forbids, and counts as saved only what is, which allows (R3):
// it goes on acking within a term that is durable, but stands for nothing,
// votes for nobody, gives leadership up, and saves again a heartbeat later.
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

// lost moves what waited for a save that failed to the next one.
func (m *Machine) lost(waits *uint64, number uint64) {
	if *waits > m.saved && *waits <= number {
		*waits = max(m.saveNo, number+1)
	}
}

// jump answers a clock that jumped, or a machine that slept (R16): instants
// that were computed before mean nothing any more. A leader's evidence is void,
// and so its tenure over. A voter does not know how long its promises have
// left; it may have promised the longest of them just before.
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
		if c.Priority >= protocol.NeverLead && c.Priority <= MaxPriority {
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
