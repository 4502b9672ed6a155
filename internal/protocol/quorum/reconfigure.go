package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// Reconfiguration without a log (R15), after Schultz, Dardik and Tripakis. A
// membership replaces the one before it; they are ordered by the term of the
// leader that made or took them over, then by a version. A leader in its tenure
// may make the next one when
//
//   - a majority of the present one has it durably, in this term: then no
//     membership before it can elect anybody any more;
//   - the majorities of both share a voter;
//   - all that was ever claimed of a lease is covered by promises of a majority
//     of the present one: who is elected by the next but one need not share a
//     voter with those who promised under the one before.
//
// The next one is durable before it is installed or sent. A leader goes on with
// the lease that it has: whoever is elected by the next one has the vote of a
// voter that promised it.

// Membership implements [protocol.Reconfigurable].
func (m *Machine) Membership() (ms *protocol.Membership, settled bool) {
	return m.ballot.Membership, m.settled()
}

// settled reports whether a majority has the present membership durably, by
// what they acked in this term.
func (m *Machine) settled() bool {
	if m.role != protocol.Leader {
		return false
	}
	ms := m.ballot.Membership
	id := ms.ID()
	if id.Term != m.tenure.term && !m.cfg.mutants.Has("new-term-not-stamped") {
		return false
	}
	n := 0
	for i := range ms.Voters {
		if i == m.self && m.held == id || i != m.self && m.tenure.voters[i].held.Compare(id) >= 0 {
			n++
		}
	}
	return n >= ms.Quorum()
}

// Members implements [protocol.Reconfigurable]; it appends nothing while this
// participant does not lead.
func (m *Machine) Members(dst []protocol.Member) []protocol.Member {
	if !m.inTenure() {
		return dst
	}
	for i, v := range m.ballot.Membership.Voters {
		if i == m.self {
			continue
		}
		f, k := &m.tenure.voters[i], &m.known[i]
		dst = append(dst, protocol.Member{
			Voter: v, Answered: f.sent, Idle: f.idle, Priority: k.priority, Position: k.position,
			Behind: m.compare(k.position, m.position) < 0, Held: f.held, Rate: k.pace.rate(), Apart: m.apart(i),
		})
	}
	return dst
}

// Objection implements [protocol.Reconfigurable]. A new voter counts as one that
// does not answer, unless there is one voter only: who adds it has to know that
// it is there.
func (m *Machine) Objection(next *protocol.Membership) error {
	if next == nil {
		return errors.New("no membership; want voters")
	}
	ms, g := m.ballot.Membership, &m.tenure
	has := m.cfg.mutants.Has
	if err := next.Validate(); err != nil {
		return err
	}
	switch {
	case m.role != protocol.Leader || !g.active:
		return fmt.Errorf("%s does not lead, or its lease is not proven yet", m.cfg.Self.ID)
	case m.next != nil:
		return fmt.Errorf("the change to version %d is being written down", m.next.Version)
	case m.badDisk:
		return fmt.Errorf("the disk of %s fails", m.cfg.Self.ID)
	case m.round.kind != idle:
		return errors.New("the leader is holding an election, because a voter is in a higher term")
	case !m.settled() && !has("reconfigure-without-quorum"):
		return fmt.Errorf("a majority of %s has not written membership %v down yet", names(ms), ms.ID())
	case !next.Has(m.cfg.Self):
		return fmt.Errorf("%s leads, and cannot make a membership without itself: transfer leadership first", m.cfg.Self.ID)
	case !next.Overlap(ms) && m.renewed(next) != "" && !has("reconfigure-two-at-once"):
		return fmt.Errorf("%s would have another data directory: remove it first, and add it then", m.renewed(next))
	case !next.Overlap(ms) && !has("reconfigure-two-at-once"):
		return fmt.Errorf("not every majority of %s shares a voter with every one of %s: add or remove one voter at a time", names(ms), names(next))
	case g.leaseEnd > g.covered && !has("largest-claim-forgotten"):
		return fmt.Errorf("a majority of %s has not yet renewed the lease that was had before", names(ms))
	case slices.Equal(ms.Voters, next.Voters) && slices.Equal(ms.Observers, next.Observers) && slices.Equal(ms.Addresses, next.Addresses):
		return errors.New("it is what there is")
	}
	return m.reachable(next)
}

// renewed is a voter that the next membership has with another directory.
func (m *Machine) renewed(next *protocol.Membership) protocol.NodeID {
	for _, v := range next.Voters {
		if m.ballot.Membership.Index(v.ID) >= 0 && !m.ballot.Membership.Has(v) {
			return v.ID
		}
	}
	return ""
}

// reachable says which voters are missing for the next membership to have a
// majority that answers.
func (m *Machine) reachable(next *protocol.Membership) error {
	n := 0
	var silent []string
	for _, v := range next.Voters {
		i := m.place(v)
		switch {
		case i == m.self, i < 0 && len(m.ballot.Membership.Voters) == 1, i >= 0 && m.tenure.voters[i].sent >= m.now.Boot.Add(-m.cfg.Promise/2):
			n++
		case i < 0:
			silent = append(silent, fmt.Sprintf("%s is new", v.ID))
		default:
			silent = append(silent, fmt.Sprintf("%s does not answer", v.ID))
		}
	}
	if n >= next.Quorum() {
		return nil
	}
	return fmt.Errorf("%d voters of %s answer, and a majority is %d: %s", n, names(next), next.Quorum(), strings.Join(silent, ", "))
}

// names is the voters of a membership, for people.
func names(ms *protocol.Membership) string {
	var b strings.Builder
	for i, v := range ms.Voters {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(v.ID))
	}
	return "{" + b.String() + "}"
}

// reconfigure begins a change: the next membership is saved.
func (m *Machine) reconfigure(next *protocol.Membership, fx *protocol.Effects) {
	if m.Objection(next) != nil {
		return
	}
	made := protocol.Membership{
		ConfigTerm: m.ballot.Membership.ConfigTerm, Version: m.ballot.Membership.Version + 1,
		Voters:    append([]protocol.Voter(nil), next.Voters...), // and nil where there is none, as when it is read back
		Observers: append([]protocol.NodeID(nil), next.Observers...),
		Addresses: append([]protocol.Address(nil), next.Addresses...),
	}
	m.next = &made
	m.nextSave = m.touch()
	if m.cfg.mutants.Has("membership-before-durable") {
		m.install(fx)
	}
}

// install makes the next membership, which is durable, the present one. That is
// done even if the leadership has ended in the meantime: after a restart it
// would be so, too.
func (m *Machine) install(fx *protocol.Effects) {
	old := m.ballot.Membership
	m.ballot.Membership, m.next = m.next, nil
	m.configSave = m.nextSave
	m.reseat(old)
	switch {
	case m.inTenure():
		m.round = round{}
		g := &m.tenure
		before := g.voters
		for i, v := range m.ballot.Membership.Voters {
			g.voters[i] = follower{sent: protocol.Always, claim: protocol.Always, notBefore: protocol.Never, clean: g.term}
			if j := old.Index(v.ID); j >= 0 && old.Has(v) {
				g.voters[i] = before[j]
			}
			if m.cfg.mutants.Has("standing-by-place") {
				g.voters[i] = before[i]
			}
		}
		for i := len(m.ballot.Membership.Voters); i < len(g.voters); i++ {
			g.voters[i] = follower{}
		}
		g.heard = g.fresh // that a quorum hears it is not forgotten
		m.recount()
		m.beat(fx)
	case m.role != protocol.Fencing:
		m.abandon()
		m.role = m.rest()
	}
}

// reseat finds the own place in a membership that has replaced old, and keeps
// what is known of its voters.
func (m *Machine) reseat(old *protocol.Membership) {
	before := m.known
	m.known = [protocol.MaxVoters]standing{}
	for i, v := range m.ballot.Membership.Voters {
		if j := old.Index(v.ID); j >= 0 && old.Has(v) {
			m.known[i] = before[j]
		}
	}
	m.seat()
	m.overtake()
}

// overtake gives a change up that is older than the present membership.
func (m *Machine) overtake() {
	if m.next != nil && m.next.Compare(m.ballot.Membership) <= 0 {
		m.next = nil
	}
}

// hold takes notice of which membership is durable. The next ack tells the leader.
func (m *Machine) hold() {
	if m.saved >= m.configSave {
		m.held = m.ballot.Membership.ID()
	}
}
