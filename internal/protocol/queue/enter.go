package queue

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// Q1 and Q2: a candidacy is a session, a nonce and an entry of its own, and
// serves one tenure. None of them is used again.

// begin begins a candidacy.
func (m *Machine) begin(in *protocol.Input) {
	m.phase, m.retryAt = opening, in.Now.Boot
	if m.nonce == (protocol.Nonce{}) {
		m.nonce[0] = in.Rand // the other half is drawn when the session is there
	}
}

// opened handles the answer to OpenSession. A session whose answer was lost is unknown here; it
// ends by itself.
func (m *Machine) opened(p pending, in *protocol.Input) {
	a := &in.Answer
	if a.Status != protocol.StatusDone || a.Session == 0 {
		if !m.stands() {
			m.rest(in)
			return
		}
		m.retry(in)
		return
	}
	now := in.Now.Boot
	m.session, m.granted = a.Session, a.TTL
	if m.nonce[1] == 0 {
		m.nonce[1] = in.Rand
	}
	m.renewAt = p.sent.Add(m.cfg.renewEvery(m.phase))
	switch {
	case m.cfg.Dialect == Etcd && a.TTL != m.cfg.TTL: // Q5
		m.halt(in, fmt.Sprintf("asked etcd for a lease of %v and was granted %v; choose a TTL that its servers grant (see server_election)", m.cfg.TTL, a.TTL))
		return
	case m.cfg.Dialect == ZooKeeper && a.TTL < m.cfg.Hold: // Q6
		m.halt(in, fmt.Sprintf("ZooKeeper granted a session of %v, which is less than the hold of %v; choose a hold that is not above it, or raise the server's maxSessionTimeout", a.TTL, m.cfg.Hold))
		return
	case m.cfg.Dialect == Etcd:
		m.sessionSeen(p.sent, a.TTL, now)
	}
	if !m.stands() {
		m.leave(in)
		return
	}
	m.to(entering, in)
}

// entered handles the answer to Enter.
func (m *Machine) entered(in *protocol.Input) {
	a := &in.Answer
	switch a.Status {
	case protocol.StatusDone:
		if m.adopt(&a.Entry, in) {
			m.to(listing, in)
		}
	case protocol.StatusGone:
		m.leave(in)
	case protocol.StatusRefused:
		m.retry(in)
	default:
		// The Enter may have been done, or may be done later. In etcd the machine asks for the same
		// key again. In ZooKeeper that would make a second entry: it lists first. Before that it
		// writes, because the server that it reads from may lag behind, and because the write
		// fences off requests still on their way.
		if m.cfg.Dialect == ZooKeeper {
			m.phase = syncing
			if m.cfg.mutants.Has("scan-without-sync") {
				m.phase = scanning
			}
		}
		m.retry(in)
	}
}

// adopt makes e the candidacy's entry if that is possible, or leaves.
func (m *Machine) adopt(e *protocol.Entry, in *protocol.Input) bool {
	switch {
	case e.Order > protocol.MaxCount: // Q9
		m.halt(in, fmt.Sprintf("the entry's order %d is above %d, so it cannot be a token's count; recreate the queue in a store with lower counts, under a higher era", e.Order, uint64(protocol.MaxCount)))
		return false
	case e.Order == 0 || !m.isOwn(e):
		m.leave(in)
		return false
	}
	m.own = *e
	return true
}

// isOwn reports whether an entry is this candidacy's: its nonce in its session.
func (m *Machine) isOwn(e *protocol.Entry) bool {
	return e.Nonce == m.nonce && (e.Session == m.session || m.cfg.mutants.Has("adopt-from-older-session"))
}

// synced handles the answer to Sync.
func (m *Machine) synced(in *protocol.Input) {
	switch in.Answer.Status {
	case protocol.StatusDone:
		m.to(scanning, in)
	case protocol.StatusGone:
		m.leave(in)
	default:
		m.retry(in)
	}
}

// halt ends the candidacy, and no other follows.
func (m *Machine) halt(in *protocol.Input, fault string) {
	m.fault = fault
	m.leave(in)
}
