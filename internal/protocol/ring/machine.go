package ring

import (
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/epoch"
)

// phase is the state of an election, as this participant sees it.
type phase uint8

const (
	calm    phase = iota // none is on
	waiting              // a token has passed here, or was sent; the outcome is awaited
	taking               // this one has won; the epoch is being saved
)

// Machine is one participant. It implements [protocol.Machine].
type Machine struct {
	cfg   Config
	place int // its own place around the ring

	role  protocol.Role
	fault string
	now   protocol.Instant // of the latest step

	ballot epoch.Record // and how much of it is durable

	candidate bool
	sick      bool
	paused    bool
	restUntil protocol.Instant // it has resigned, and lets others try

	watch watch

	leader protocol.Leadership // that it follows; without a term if its epoch is not known yet
	floor  uint64              // tenures up to this epoch are over

	phase  phase
	mine   bool             // a token of its own is on its way
	closed bool             // and has come home: its Coordinator is on its way
	round  uint64           // of the latest election of its own
	at     protocol.Instant // waiting: when it is begun anew; calm: not before

	tenure   uint64 // the epoch that it takes or leads in, or whose work has not returned
	takeSave uint64 // taking: holds it
}

var _ protocol.Machine = (*Machine)(nil)

// New returns a machine that waits for its Boot, or an error that says what is invalid in the
// configuration.
func New(cfg Config) (*Machine, error) {
	cfg = cfg.filled()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, role: protocol.Down, place: slices.Index(cfg.Ring, cfg.Self)}, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	if m.role == protocol.Halted || (m.role == protocol.Down) != (in.Kind == protocol.Boot) {
		return // a life begins with its only Boot
	}
	m.now = in.Now.Boot
	switch in.Kind {
	case protocol.Boot:
		m.boot(in.Durable, in.Rand, fx)
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

// boot begins a life by looking for the successor.
func (m *Machine) boot(durable []byte, rand uint64, fx *protocol.Effects) {
	if err := m.ballot.Boot(Name, durable, rand); err != nil {
		m.role, m.fault = protocol.Halted, err.Error()
		return
	}
	m.role = protocol.Follower
	m.restUntil, m.at = protocol.Always, m.now
	m.watch.beatAt = m.now.Add(m.cfg.Heartbeat)
	m.seek(1, fx)
}

// fire acts on the timers that have expired. It runs in a Fire only, and what has arrived was
// handed in before it. A frozen participant has asked none meanwhile, and asks its successor once
// more; see look.
func (m *Machine) fire(fx *protocol.Effects) {
	m.look(fx)
	if m.now >= m.overAt() {
		m.over()
	}
	if m.now >= m.standAt() {
		m.begin(fx)
	}
	m.ballot.Retry(m.now)
}

// NextFire implements [protocol.Machine].
func (m *Machine) NextFire() protocol.Instant {
	if m.role == protocol.Down || m.role == protocol.Halted {
		return protocol.Never
	}
	return min(m.lookAt(), m.standAt(), m.overAt(), m.ballot.RetryAt())
}

// stands reports whether this participant would lead. One that would not passes tokens on without
// its id.
func (m *Machine) stands() bool {
	return m.role == protocol.Leader || m.role != protocol.Fencing && m.able() && m.now >= m.restUntil
}

func (m *Machine) able() bool {
	return m.candidate && !m.sick && !m.paused && m.ballot.Ready() && m.ballot.Epoch < protocol.MaxCount
}

// standAt is when an election of its own begins: at once when the leader is lost
// and the successor is known.
func (m *Machine) standAt() protocol.Instant {
	if m.phase == taking || m.role == protocol.Leader || m.role == protocol.Fencing || m.leader.Term > 0 || m.watch.seeking || !m.able() {
		return protocol.Never
	}
	return max(m.at, m.restUntil)
}

// View implements [protocol.Machine].
func (m *Machine) View() protocol.View {
	v := protocol.View{Role: m.role, Term: m.ballot.Epoch, Leader: m.claim(), Fault: m.fault, Incarnation: m.ballot.Incarnation}
	if m.role == protocol.Leader {
		v.Elected, v.Token = true, m.tenure
	}
	return v
}

// own returns its own leadership.
func (m *Machine) own() protocol.Leadership {
	return protocol.Leadership{ID: m.cfg.Self, Incarnation: m.ballot.Incarnation, Term: m.tenure}
}

// epoch is the highest known epoch, as other participants are told it. It does not include the
// epoch in which the participant is about to lead: a participant that knows an epoch and does not
// lead has led in it.
func (m *Machine) epoch() uint64 {
	if m.phase == taking {
		return m.ballot.Epoch - 1
	}
	return m.ballot.Epoch
}

// claim is the leader in its messages: none if the epoch of the winner is not known yet.
func (m *Machine) claim() protocol.Leadership {
	switch {
	case m.role == protocol.Leader:
		return m.own()
	case m.leader.Term > 0:
		return m.leader
	}
	return protocol.Leadership{}
}

// word is the leader in its answers. A participant that has lost its leader and does not stand
// begins no election, and no other may know of the loss: it answers up to which epoch the tenures
// are over, with no id.
func (m *Machine) word() protocol.Leadership {
	l := m.claim()
	if l.Term == 0 && m.phase == calm && !m.stands() {
		l.Term = m.floor
	}
	return l
}

// send sends a message after a save, 0 being none, and never before the
// incarnation is durable.
func (m *Machine) send(fx *protocol.Effects, to protocol.NodeID, after uint64, msg *protocol.Message) {
	if after, ok := m.ballot.After(after); ok {
		fx.Sends = append(fx.Sends, protocol.Send{To: to, After: after, Message: *msg, Leads: m.role == protocol.Leader})
	}
}
