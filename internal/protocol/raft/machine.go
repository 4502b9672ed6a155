package raft

import (
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// Machine is one participant. It implements [protocol.Machine].
type Machine struct {
	cfg  Config
	self int // its own place among the members

	role  protocol.Role
	fault string
	now   protocol.Instant // of the current step; no part of the state
	rand  uint64           // likewise

	// Durable state, and how much of it is durable.
	ballot   Ballot
	saveNo   uint64 // of the latest save
	saved    uint64 // of the latest durable save
	termSave uint64 // holds Term, VotedFor and Incarnation
	dirty    bool   // the step ends with a save
	badDisk  bool   // the latest save failed
	saveAt   protocol.Instant

	candidate bool
	sick      bool
	position  string
	located   bool // it has been told its position in this life

	leader  int              // the place of the present term's leader, -1 if it is not known
	heardAt protocol.Instant // when it was heard last, or Always
	electAt protocol.Instant // when an election begins, unless it leads

	round uint64      // of pre-votes in this life
	marks members.Set // the voters that granted; of a leader, those that answered since the last check

	token   uint64 // of the term that it leads, or whose work has not returned
	beatAt  protocol.Instant
	checkAt protocol.Instant
}

var _ protocol.Machine = (*Machine)(nil)

// New returns a machine that waits for its Boot, or an error that says what is invalid in the
// configuration.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, self: members.Place(cfg.Members, cfg.Self), role: protocol.Down, marks: members.NewSet(len(cfg.Members))}, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	m.now, m.rand = in.Now.Boot, in.Rand
	switch m.role {
	case protocol.Halted:
		return
	case protocol.Down:
		if in.Kind == protocol.Boot {
			m.boot(in.Durable)
			m.flush(fx)
		}
		return
	}
	switch in.Kind {
	case protocol.Receive:
		m.receive(in.From, &in.Message, fx)
	case protocol.Fire:
		m.fire(fx)
	case protocol.Saved:
		m.onSaved(in.Number, in.Failed, fx)
	case protocol.Do:
		m.do(&in.Command, fx)
	}
	m.flush(fx)
}

// boot begins a life.
func (m *Machine) boot(durable []byte) {
	m.ballot = Ballot{}
	if durable != nil {
		b, err := DecodeBallot(durable)
		if err != nil {
			m.role, m.fault = protocol.Halted, err.Error()
			return
		}
		m.ballot = b
	}
	m.ballot.Incarnation++
	m.termSave = m.touch()
	m.saveAt = protocol.Never
	m.role, m.leader, m.heardAt = protocol.Follower, -1, protocol.Always
	m.wait()
}

// receive hands a message on. A higher term is entered first, except for the two kinds that must
// not disturb a leader.
func (m *Machine) receive(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	i := members.Place(m.cfg.Members, from)
	if i < 0 || i == m.self || msg.Term > protocol.MaxCount || len(msg.Position) > protocol.MaxPosition {
		return
	}
	switch msg.Type {
	case PreVote:
		m.onPreVote(i, msg, fx)
		return
	case Vote:
		if m.cfg.CheckQuorum && m.hears() {
			return // it does not even look at the term (4.2.3)
		}
	case PreVoteReply, VoteReply, Heartbeat, HeartbeatReply:
	default:
		return
	}
	if msg.Term > m.ballot.Term {
		m.enter(msg.Term, fx)
	}
	switch msg.Type {
	case PreVoteReply:
		m.onPreVoteReply(i, msg, fx)
	case Vote:
		m.onVote(i, msg, fx)
	case VoteReply:
		m.onVoteReply(i, msg, fx)
	case Heartbeat:
		m.onHeartbeat(i, msg, fx)
	case HeartbeatReply:
		m.onHeartbeatReply(i, msg)
	}
}

// fire acts on the timers that have expired.
func (m *Machine) fire(fx *protocol.Effects) {
	if m.badDisk && m.now >= m.saveAt {
		m.saveAt = protocol.Never
		m.touch()
	}
	if m.role != protocol.Leader {
		if m.now >= m.electAt {
			m.expire(fx)
		}
		return
	}
	if m.cfg.CheckQuorum && m.now >= m.checkAt {
		m.check(fx)
	}
	if m.role == protocol.Leader && m.now >= m.beatAt {
		m.beat(fx)
	}
}

// NextFire implements [protocol.Machine].
func (m *Machine) NextFire() protocol.Instant {
	at := protocol.Never
	switch m.role {
	case protocol.Down, protocol.Halted:
		return at
	case protocol.Leader:
		if at = m.beatAt; m.cfg.CheckQuorum {
			at = min(at, m.checkAt)
		}
	default:
		at = m.electAt
	}
	if m.badDisk {
		at = min(at, m.saveAt)
	}
	return at
}

// View implements [protocol.Machine].
func (m *Machine) View() protocol.View {
	v := protocol.View{Role: m.role, Term: m.ballot.Term, Fault: m.fault, Incarnation: m.ballot.Incarnation}
	switch {
	case m.role == protocol.Leader:
		v.Elected, v.Token = true, m.token
		v.Leader = protocol.Leadership{ID: m.cfg.Self, Incarnation: m.ballot.Incarnation, Term: m.token}
	case m.role != protocol.Down && m.role != protocol.Halted && m.leader >= 0:
		v.Leader = protocol.Leadership{ID: m.cfg.Members[m.leader], Term: m.ballot.Term}
	}
	return v
}

// message returns a message with the fields that all messages carry.
func (m *Machine) message(kind protocol.MessageType) protocol.Message {
	return protocol.Message{Type: kind, Incarnation: m.ballot.Incarnation, Term: m.ballot.Term}
}

// send sends a message once its term is durable, and with it the vote and the incarnation. If that
// save has failed the message is dropped.
func (m *Machine) send(fx *protocol.Effects, to int, msg *protocol.Message) {
	after := m.termSave
	if after <= m.saved {
		after = 0
	}
	if after > m.saveNo && !m.dirty {
		return
	}
	fx.Sends = append(fx.Sends, protocol.Send{To: m.cfg.Members[to], After: after, Message: *msg, Leads: m.role == protocol.Leader})
}

// toAll sends a message to all others.
func (m *Machine) toAll(fx *protocol.Effects, msg *protocol.Message) {
	for i := range m.cfg.Members {
		if i != m.self {
			m.send(fx, i, msg)
		}
	}
}
