package blazingmq

import (
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/members"
)

// noMember is the place of no member.
const noMember = -1

// Machine is one participant. It implements [protocol.Machine].
type Machine struct {
	cfg  Config
	self int // its own place among the members

	// role is Down, Follower, PreCandidate (it scouts), Candidate, Leader or
	// Halted. A follower whose work has not returned shows as Fencing.
	role  protocol.Role
	fault string
	now   protocol.Instant // of the latest step
	rand  uint64           // of the current step; no part of the state

	ballot  Ballot
	saveNo  uint64 // of the latest save
	saved   uint64 // of the latest durable save
	dirty   bool   // the step ends with a save
	badDisk bool   // the latest save failed
	saveAt  protocol.Instant

	bootSave uint64 // holds Incarnation
	termSave uint64 // holds term, with Durable

	candidate, sick bool

	term      uint64
	seen      uint64 // the highest term in any refusal
	leader    int    // the place of the leader that it follows, or self
	tentative int    // the place that has its vote in term and has not sent a heartbeat yet
	life      uint64 // the incarnation of leader or tentative
	heard     protocol.Instant
	lsn       LSN

	electAt protocol.Instant // of the next try, while it follows no leader

	// While it scouts, stands or leads.
	asked uint64           // the term that it scouts for
	ends  protocol.Instant // of the present try
	yes   members.Set      // its supporters, itself among them
	heeds members.Set      // those that answered the scouting request

	// While it leads, or its work has not returned.
	beatAt  protocol.Instant
	token   uint64
	fencing bool
}

var _ protocol.Machine = (*Machine)(nil)

// New returns a machine that waits for its Boot, or an error that says what is invalid in the
// configuration.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	n := len(cfg.Members)
	return &Machine{cfg: cfg, self: members.Place(cfg.Members, cfg.Self), role: protocol.Down, yes: members.NewSet(n), heeds: members.NewSet(n)}, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	switch m.role {
	case protocol.Halted:
		return
	case protocol.Down:
		if in.Kind == protocol.Boot {
			m.now, m.rand = in.Now.Boot, in.Rand
			m.boot(in.Durable)
			m.flush(fx)
		}
		return
	}
	m.now, m.rand = in.Now.Boot, in.Rand
	switch in.Kind {
	case protocol.Receive:
		m.receive(in.From, &in.Message, fx)
	case protocol.Fire:
		m.fire(fx)
	case protocol.Saved:
		m.onSaved(in.Number, in.Failed, fx)
	case protocol.PeerClosed:
		m.onClosed(in.From, in.Incarnation, fx)
	case protocol.Do:
		m.do(in.Command, fx)
	}
	m.flush(fx)
}

// boot begins an incarnation. It knows only what the ledger holds: it has forgotten a vote in a
// higher term, unless terms are durable.
func (m *Machine) boot(durable []byte) {
	if durable != nil {
		b, err := DecodeBallot(durable)
		if err != nil {
			m.role, m.fault = protocol.Halted, err.Error()
			return
		}
		m.ballot = b
	}
	m.ballot.Incarnation++
	m.bootSave, m.saveAt = m.touch(), protocol.Never
	m.role, m.term, m.leader, m.tentative = protocol.Follower, m.ballot.Term, noMember, noMember
	m.electAt = m.now.Add(m.cfg.InitialWait + m.chance())
}

func (m *Machine) receive(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	i := members.Place(m.cfg.Members, from)
	if i < 0 || i == m.self || msg.Term > protocol.MaxCount {
		return
	}
	if msg.Term == 0 && msg.Type != ScoutingResponse && msg.Type != ElectionResponse {
		return // only an answer can come from a participant that knows no term yet
	}
	switch msg.Type {
	case ScoutingRequest:
		m.onScoutingRequest(i, msg, fx)
	case ScoutingResponse:
		m.onScoutingResponse(i, msg, fx)
	case ElectionProposal:
		m.onProposal(i, msg, fx)
	case ElectionResponse:
		m.onElectionResponse(i, msg, fx)
	case LeaderHeartbeat:
		m.onHeartbeat(i, msg, fx)
	case HeartbeatResponse:
		m.onHeartbeatResponse(msg, fx)
	case LeadershipCession:
		m.onCession(i, msg, fx)
	}
}

// fire acts on the timers that have expired.
func (m *Machine) fire(fx *protocol.Effects) {
	switch m.role {
	case protocol.Leader:
		if m.now >= m.beatAt {
			m.beat(fx)
		}
	case protocol.PreCandidate, protocol.Candidate:
		if m.now >= m.ends {
			m.rest()
		}
	case protocol.Follower:
		if m.follows() && m.now >= m.lost() {
			m.leader, m.tentative = noMember, noMember
			m.wait()
		}
		if m.mayStand() && m.now >= m.electAt {
			m.stand(fx)
		}
	}
	if m.badDisk && m.now >= m.saveAt {
		m.touch()
	}
}

// NextFire implements [protocol.Machine].
func (m *Machine) NextFire() protocol.Instant {
	at := protocol.Never
	switch m.role {
	case protocol.Down, protocol.Halted:
		return at
	case protocol.Leader:
		at = m.beatAt
	case protocol.PreCandidate, protocol.Candidate:
		at = m.ends
	case protocol.Follower:
		if m.follows() {
			at = m.lost()
		} else if m.mayStand() {
			at = m.electAt
		}
	}
	if m.badDisk {
		at = min(at, m.saveAt)
	}
	return at
}

// do carries a command out.
func (m *Machine) do(c protocol.Command, fx *protocol.Effects) {
	switch c.Verb {
	case protocol.Campaign:
		m.candidate = true
		m.rouse()
	case protocol.Recover:
		m.sick = false
		m.rouse()
	case protocol.Withdraw:
		m.candidate = false
		m.quit(Withdrawn, fx)
	case protocol.Sicken:
		m.sick = true
		m.quit(Unhealthy, fx)
	case protocol.Resign:
		if m.role == protocol.Leader {
			m.quit(Resigned, fx)
			m.electAt = m.now.Add(m.cfg.silence() + m.chance())
		}
	case protocol.Joined:
		if m.fencing && c.Token == m.token {
			m.fencing, m.token = false, 0
			m.rouse()
		}
	}
}

// quit ends what the participant has begun: leading, standing or scouting.
func (m *Machine) quit(reason protocol.Reason, fx *protocol.Effects) {
	switch m.role {
	case protocol.Leader:
		m.cede(reason, m.term, fx)
	case protocol.PreCandidate, protocol.Candidate:
		m.rest()
	}
}

// onSaved records what is durable.
func (m *Machine) onSaved(number uint64, failed bool, fx *protocol.Effects) {
	switch {
	case number > m.saveNo:
	case !failed:
		m.saved = max(m.saved, number)
		m.count(fx)
	case number == m.saveNo:
		m.badDisk, m.saveAt = true, m.now.Add(m.cfg.Heartbeat)
	}
}

// touch makes the step end with a save, and returns its number.
func (m *Machine) touch() uint64 {
	if !m.dirty {
		m.dirty, m.badDisk = true, false
		m.saveNo++
	}
	return m.saveNo
}

func (m *Machine) flush(fx *protocol.Effects) {
	if m.dirty {
		m.dirty = false
		fx.Save(m.saveNo, m.ballot.Append)
	}
}

// raise adopts a higher term. With Durable, the term is saved before any message carries it.
func (m *Machine) raise(term uint64) {
	if term <= m.term {
		return
	}
	m.term = term
	if m.cfg.Durable && term > m.ballot.Term {
		m.ballot.Term = term
		m.termSave = m.touch()
	}
}

// record saves the present term: it has a leader.
func (m *Machine) record() {
	if m.term > m.ballot.Term {
		m.ballot.Term = m.term
		m.termSave = m.touch()
	}
}

// send sends a message once the incarnation is durable, and with Durable the term. If that save has
// failed the message is dropped.
func (m *Machine) send(fx *protocol.Effects, to int, msg *protocol.Message) {
	after := m.bootSave
	if m.cfg.Durable {
		after = max(after, m.termSave)
	}
	if after <= m.saved {
		after = 0
	}
	if after > 0 && m.badDisk {
		return
	}
	fx.Sends = append(fx.Sends, protocol.Send{To: m.cfg.Members[to], After: after, Message: *msg, Leads: m.role == protocol.Leader})
}

func (m *Machine) toAll(msg *protocol.Message, fx *protocol.Effects) {
	for i := range m.cfg.Members {
		if i != m.self {
			m.send(fx, i, msg)
		}
	}
}

func (m *Machine) message(kind protocol.MessageType, term uint64) protocol.Message {
	return protocol.Message{Type: kind, Incarnation: m.ballot.Incarnation, Term: term}
}

// answer answers a message of one member.
func (m *Machine) answer(to int, kind protocol.MessageType, granted bool, q *protocol.Message, fx *protocol.Effects) {
	msg := m.message(kind, m.term)
	msg.Granted, msg.Echo = granted, q.Incarnation
	m.send(fx, to, &msg)
}

func (m *Machine) quorum() int { return len(m.cfg.Members)/2 + 1 }

// follows reports whether it follows a leader, or a candidate that it has voted for.
func (m *Machine) follows() bool { return m.leader != noMember || m.tentative != noMember }

// lost is when the leader counts as lost.
func (m *Machine) lost() protocol.Instant { return m.heard.Add(m.cfg.silence()) }

// mayStand reports whether nothing but the time forbids a try.
func (m *Machine) mayStand() bool {
	return m.role == protocol.Follower && m.candidate && !m.sick && !m.fencing && !m.follows()
}

// chance draws a random wait.
func (m *Machine) chance() time.Duration {
	return time.Duration(m.rand % uint64(m.cfg.RandomWait+1))
}

func (m *Machine) wait() { m.electAt = m.now.Add(m.chance()) }

// rouse draws a wait for a participant that was ready to stand long ago.
func (m *Machine) rouse() {
	if m.mayStand() && m.electAt <= m.now {
		m.wait()
	}
}

// rest makes a participant that scouts or stands a follower, which will try again.
func (m *Machine) rest() {
	m.role = protocol.Follower
	m.wait()
}

// View implements [protocol.Machine]. Leader.Incarnation is the one that the messages carried.
func (m *Machine) View() protocol.View {
	v := protocol.View{Role: m.role, Term: m.term, Fault: m.fault, Incarnation: m.ballot.Incarnation}
	switch {
	case m.role == protocol.Leader:
		v.Leader = protocol.Leadership{ID: m.cfg.Self, Incarnation: m.ballot.Incarnation, Term: m.term}
		v.Elected, v.Token = true, m.token
	case m.role == protocol.Follower && m.leader != noMember:
		v.Leader = protocol.Leadership{ID: m.cfg.Members[m.leader], Incarnation: m.life, Term: m.term}
	}
	if m.fencing {
		v.Role = protocol.Fencing
	}
	return v
}
