package quorum

import "github.com/electd/elect/internal/protocol"

// quietBeats is for how many heartbeats a voter that has just started grants no pre-vote: it may
// not have heard the leader yet (R1).
const quietBeats = 3

// boot begins an incarnation (R1). Promises from before the start may still be live: the voter
// reports the longest one that it may have given as its boot residual, counted from now. It votes
// at once; only activation waits.
func (m *Machine) boot(durable []byte) {
	m.ballot = Ballot{Membership: m.cfg.Membership}
	if durable != nil {
		b, err := DecodeBallot(durable)
		if err != nil {
			m.role, m.fault = protocol.Halted, err.Error()
			return
		}
		m.ballot = b
	}
	if durable == nil {
		// Answers name the incarnation that they are for, but not the directory. An answer to a
		// voter whose disk was wiped must not fit the voter that has taken its name.
		m.ballot.Incarnation = m.rand >> 16
	}
	now := m.now.Boot
	m.bootUntil = protocol.Always
	if m.ballot.MaxPromise > 0 && !m.cfg.mutants.Has("promise-forgotten-on-restart") {
		m.bootUntil = now.Add(m.ballot.MaxPromise)
	}
	m.quietUntil = now.Add(quietBeats * m.cfg.Heartbeat)
	if m.cfg.mutants.Has("no-quiet-start") {
		m.quietUntil = protocol.Always
	}
	m.ballot.Incarnation++
	// What this incarnation may claim as a leader is durable before it sends anything.
	m.ballot.MaxPromise = max(m.ballot.MaxPromise, m.cfg.Promise)
	if m.cfg.mutants.Has("promise-shrinks-at-once") {
		m.ballot.MaxPromise = m.cfg.Promise
	}
	m.votePrev = m.ballot.Term
	m.bootSave = m.touch()
	m.termSave, m.promiseSave, m.configSave = m.bootSave, m.bootSave, m.bootSave
	if durable != nil {
		m.held = m.ballot.Membership.ID()
	}
	m.saveAt = protocol.Never
	m.metadata, m.priority = m.cfg.Metadata, m.cfg.Priority
	m.heard.forget()
	m.promises.floor = protocol.Always
	m.graceUntil, m.placeBy, m.asideUntil = protocol.Always, protocol.Never, protocol.Always
	if m.cfg.Position == PreferPosition {
		m.placeBy = now.Add(m.cfg.Promise + m.cfg.Grace)
	}
	m.findSelf()
	m.role = m.rest()
	m.electAt = now
	if len(m.ballot.Membership.Voters) > 1 {
		m.electIn(m.cfg.Promise+m.stagger(), Timeout)
	} else {
		m.cause = Timeout
	}
}
