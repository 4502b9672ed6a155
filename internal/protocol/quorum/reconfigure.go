package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// Reconfiguration without a log (R15), after Schultz, Dardik and Tripakis. Each membership replaces
// the previous one. They are ordered by the term of the leader that made it or took it over, then
// by a version. A leader in its tenure may make the next one when
//
//   - a majority of the present one has it durably, in this term: then no earlier membership can
//     elect any more;
//   - the majorities of both share a voter;
//   - promises of a majority of the present one cover all that was ever claimed of a lease: a
//     leader elected by the membership after the next need not share a voter with those that
//     promised under the previous one.
//
// The next membership is durable before it is installed or sent. A leader keeps its lease: a leader
// that the next membership elects has the vote of a voter that promised it.

// Membership implements [protocol.Reconfigurable].
func (m *Machine) Membership() (ms *protocol.Membership, settled bool) {
	return m.ballot.Membership, m.settled()
}

// settled reports whether a majority has the present membership durably, by its acks in this term.
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

// Members implements [protocol.Reconfigurable]; it appends nothing while this participant does not
// lead.
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

// Objection implements [protocol.Reconfigurable]. A new voter counts as one that does not answer,
// unless there is a single voter: the operator that adds the second one has to know that it runs.
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
		return fmt.Errorf("the change to version %d is still being saved", m.next.Version)
	case m.badDisk:
		return fmt.Errorf("the disk of %s fails", m.cfg.Self.ID)
	case m.round.kind != idle:
		return errors.New("the leader is holding an election, because a voter is in a higher term")
	case !m.settled() && !has("reconfigure-without-quorum"):
		return fmt.Errorf("a majority of %s has not saved membership %v yet", names(ms), ms.ID())
	case !next.Has(m.cfg.Self):
		return fmt.Errorf("%s leads, and cannot make a membership without itself: transfer leadership first", m.cfg.Self.ID)
	case !next.Overlap(ms) && m.renewed(next) != "" && !has("reconfigure-two-at-once"):
		return fmt.Errorf("%s would have another data directory: remove it first, and add it then", m.renewed(next))
	case !next.Overlap(ms) && !has("reconfigure-two-at-once"):
		return fmt.Errorf("not every majority of %s shares a voter with every one of %s: add or remove one voter at a time", names(ms), names(next))
	case g.leaseEnd > g.covered && !has("largest-claim-forgotten"):
		return fmt.Errorf("a majority of %s has not yet renewed the earlier lease", names(ms))
	case slices.Equal(ms.Voters, next.Voters) && slices.Equal(ms.Observers, next.Observers) && slices.Equal(ms.Addresses, next.Addresses):
		return errors.New("it is the present membership")
	}
	return m.reachable(next)
}

// renewed returns a voter that has another directory in the next membership.
func (m *Machine) renewed(next *protocol.Membership) protocol.NodeID {
	for _, v := range next.Voters {
		if m.ballot.Membership.Index(v.ID) >= 0 && !m.ballot.Membership.Has(v) {
			return v.ID
		}
	}
	return ""
}

// reachable returns an error with the missing voters if no majority of the next membership answers.
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

// names lists the voters of a membership for a message.
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

// install makes the next membership, which is durable, the present one, even if the tenure has
// ended in the meantime: a restart would do the same.
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
		g.heard = g.fresh // a quorum that hears this leader is not forgotten
		m.recount()
		m.beat(fx)
	case m.role != protocol.Fencing:
		m.abandon()
		m.role = m.rest()
	}
}

// reseat finds this participant's place in a membership that has replaced old, and keeps what is
// known of its voters.
func (m *Machine) reseat(old *protocol.Membership) {
	before := m.known
	m.known = [protocol.MaxVoters]standing{}
	for i, v := range m.ballot.Membership.Voters {
		if j := old.Index(v.ID); j >= 0 && old.Has(v) {
			m.known[i] = before[j]
		}
	}
	m.findSelf()
	m.overtake()
}

// overtake gives up a change that is older than the present membership.
func (m *Machine) overtake() {
	if m.next != nil && m.next.Compare(m.ballot.Membership) <= 0 {
		m.next = nil
	}
}

// hold records which membership is durable. The next ack tells the leader.
func (m *Machine) hold() {
	if m.saved >= m.configSave {
		m.held = m.ballot.Membership.ID()
	}
}
