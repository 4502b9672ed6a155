package bully

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/epoch"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// phase is the state of an election, as this participant sees it.
type phase uint8

const (
	calm    phase = iota // none is on
	asking               // Election was sent; OK is awaited
	bullied              // OK has come; Coordinator is awaited
	taking               // none has come; the epoch is being saved
)

// Machine is one participant. It implements [protocol.Machine].
type Machine struct {
	cfg   Config
	place int // its own place among the members

	role  protocol.Role
	fault string
	now   protocol.Instant // of the latest step

	ballot epoch.Record // and how much of it is durable

	candidate bool
	sick      bool
	paused    bool
	restUntil protocol.Instant // it has resigned, and lets others try

	phase  phase
	round  uint64              // of the latest election of its own
	at     protocol.Instant    // when the phase ends; calm: when the coordinator is missed
	leader protocol.Leadership // the leader that it follows

	tenure   uint64 // the epoch that it takes or leads in, or whose work has not returned
	takeSave uint64 // taking: holds it
	beatAt   protocol.Instant
}

var _ protocol.Machine = (*Machine)(nil)

// New returns a machine that waits for its Boot, or an error that says what is invalid in the
// configuration.
func New(cfg Config) (*Machine, error) {
	cfg = cfg.filled()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, role: protocol.Down, place: members.Place(cfg.Members, cfg.Self)}, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	if m.role == protocol.Halted || (m.role == protocol.Down) != (in.Kind == protocol.Boot) {
		return // a life begins with its only Boot
	}
	m.now = in.Now.Boot
	switch in.Kind {
	case protocol.Boot:
		m.boot(in.Durable, in.Rand)
	case protocol.Receive:
		m.receive(in.From, &in.Message, fx)
	case protocol.Fire:
		m.fire(fx)
	case protocol.Saved:
		m.onSaved(in.Number, in.Failed, fx)
	case protocol.Do:
		m.do(in.Command, fx)
	}
	m.ballot.Flush(fx)
}

// boot begins an incarnation. A candidate begins an election at once.
func (m *Machine) boot(durable []byte, rand uint64) {
	if err := m.ballot.Boot(Name, durable, rand); err != nil {
		m.role, m.fault = protocol.Halted, err.Error()
		return
	}
	m.role = protocol.Follower
	m.restUntil, m.at, m.beatAt = protocol.Always, m.now, protocol.Never
}

// fire acts on the timers that have expired. It runs in a Fire only, and what has arrived was
// handed in before it: a frozen participant does not take its own pause for a silent coordinator.
func (m *Machine) fire(fx *protocol.Effects) {
	if m.role == protocol.Leader && m.now >= m.beatAt {
		m.beat(fx)
	}
	if m.phase == asking && m.now >= m.at {
		m.take()
	}
	if m.now >= m.standAt() {
		m.begin(fx)
	}
	if m.now >= m.forgetAt() {
		m.leader = protocol.Leadership{}
	}
	m.ballot.Retry(m.now)
}

// NextFire implements [protocol.Machine].
func (m *Machine) NextFire() protocol.Instant {
	if m.role == protocol.Down || m.role == protocol.Halted {
		return protocol.Never
	}
	at := min(m.standAt(), m.forgetAt(), m.ballot.RetryAt())
	if m.role == protocol.Leader {
		at = min(at, m.beatAt)
	}
	if m.phase == asking {
		at = min(at, m.at)
	}
	return at
}

// stands reports whether this participant would lead. One that would not sends nothing, as if it
// were dead.
func (m *Machine) stands() bool {
	return m.role == protocol.Leader || m.role != protocol.Fencing && m.able() && m.now >= m.restUntil
}

func (m *Machine) able() bool {
	return m.candidate && !m.sick && !m.paused && m.ballot.Ready() && m.ballot.Epoch < protocol.MaxCount
}

// standAt is when it begins an election.
func (m *Machine) standAt() protocol.Instant {
	if m.role != protocol.Follower || !m.able() { // calm, or bullied
		return protocol.Never
	}
	return max(m.at, m.restUntil)
}

// forgetAt is when a participant that cannot stand forgets its coordinator.
func (m *Machine) forgetAt() protocol.Instant {
	if m.leader == (protocol.Leadership{}) {
		return protocol.Never
	}
	return m.at
}

// View implements [protocol.Machine].
func (m *Machine) View() protocol.View {
	v := protocol.View{Role: m.role, Term: m.ballot.Epoch, Leader: m.leader, Fault: m.fault, Incarnation: m.ballot.Incarnation}
	if m.role == protocol.Leader {
		v.Elected, v.Token = true, m.tenure
		v.Leader = protocol.Leadership{ID: m.cfg.Self, Incarnation: m.ballot.Incarnation, Term: m.tenure}
	}
	return v
}

// message returns a message with the fields that all messages carry.
func (m *Machine) message(kind protocol.MessageType, term uint64) protocol.Message {
	return protocol.Message{Type: kind, Incarnation: m.ballot.Incarnation, Term: term}
}

// send sends a message, never before the incarnation is durable.
func (m *Machine) send(fx *protocol.Effects, to protocol.NodeID, msg *protocol.Message) {
	if after, ok := m.ballot.After(0); ok {
		fx.Sends = append(fx.Sends, protocol.Send{To: to, After: after, Message: *msg, Leads: m.role == protocol.Leader})
	}
}
