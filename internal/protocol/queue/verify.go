package queue

import "github.com/electd/elect/internal/protocol"

// Q4: a win is read back when the wait is over. It was true at some time that no entry is lower;
// that the entry exists, is of this session and first, must be true at a time that the claim
// covers. (etcd's phantom leader, #19597; Jepsen's analysis of etcd 3.4.3.)

// isFirst goes on after a list without a lower entry.
func (m *Machine) isFirst(p pending, in *protocol.Input, fx *protocol.Effects) {
	now := in.Now.Boot
	if m.cfg.mutants.Has("no-verify") {
		m.entrySeen(p.sent, now)
		m.verifiedFirst(in, fx)
		return
	}
	switch {
	case m.cfg.Dialect == ZooKeeper && m.phase == verifying:
		m.verifiedFirst(in, fx)
	case m.cfg.Dialect == ZooKeeper:
		m.to(touching, in)
	case now < m.leaseEnd:
		m.to(verifying, in)
	default:
		m.to(renewing, in)
		m.renewAt = now
	}
}

// renewedFirst goes on after the renewal of a lapsed claim.
func (m *Machine) renewedFirst(p pending, in *protocol.Input) {
	switch {
	case in.Now.Boot < m.leaseEnd:
		m.to(verifying, in)
	case p.sent < m.firstView:
		m.renewAt = in.Now.Boot // from before the end of the wait; the next one counts
	default:
		m.leave(in) // too far from the store to lead
	}
}

// touched handles the answer to a Touch before the win (ZooKeeper): the entry existed when it was
// committed. The list that follows on the same session shows at least what was committed by then.
func (m *Machine) touched(p pending, in *protocol.Input) {
	switch in.Answer.Status {
	case protocol.StatusDone:
		m.entrySeen(p.sent, in.Now.Boot)
		m.renewAt = p.sent.Add(m.cfg.KeepAliveEvery)
		m.to(verifying, in)
	case protocol.StatusGone:
		m.leave(in)
	default:
		m.retry(in)
	}
}

// verified handles the answer to Verify (etcd).
func (m *Machine) verified(p pending, in *protocol.Input, fx *protocol.Effects) {
	a := &in.Answer
	switch a.Status {
	case protocol.StatusDone:
		m.revision = max(m.revision, a.Revision)
		switch {
		case a.Entry.Order != m.own.Order:
			m.to(listing, in)
		case a.Entry.Session != m.session:
			m.leave(in)
		default:
			m.entrySeen(p.sent, in.Now.Boot)
			m.pollAt = m.checkAt(p.sent, m.cfg.KeepAliveEvery) // where Hold is set
			m.verifiedFirst(in, fx)
		}
	case protocol.StatusGone, protocol.StatusConflict:
		m.leave(in)
	default:
		m.phase = listing
		m.retry(in)
	}
}

// verifiedFirst wins, unless the deadline has passed meanwhile.
func (m *Machine) verifiedFirst(in *protocol.Input, fx *protocol.Effects) {
	if in.Now.Boot >= m.claimEnd() {
		m.leave(in)
		return
	}
	m.elect(in, fx)
}
