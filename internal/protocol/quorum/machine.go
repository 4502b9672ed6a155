package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Machine is one participant. It implements [protocol.Machine].
type Machine struct {
	cfg Config

	role  protocol.Role
	fault string
	now   protocol.Reading // of the latest step
	clock protocol.Reading // the anchor: of the boot, or of the latest jump
	jumps uint64           // how many jumps were noticed
	rand  uint64           // of the current step; not part of the state

	// Durable state, and how much of it is durable. What a save holds is durable once saved has
	// reached its number (R3).
	ballot      Ballot
	saveNo      uint64               // of the latest save that was asked for
	saved       uint64               // of the latest that is durable
	bootSave    uint64               // holds Incarnation
	termSave    uint64               // holds Term and VotedFor
	promiseSave uint64               // holds MaxPromise
	configSave  uint64               // holds Membership
	held        protocol.ConfigID    // of the newest membership that is durable
	next        *protocol.Membership // that a leader saves before it installs it (R15)
	nextSave    uint64               // holds next
	dirty       bool                 // the step ends with a save
	badDisk     bool                 // the latest save failed
	saveAt      protocol.Instant

	self      int // the own place among the voters, or -1
	candidate bool
	sick      bool
	paused    bool
	priority  int // NeverLead, or 1 to protocol.MaxPriority
	position  string
	located   bool             // a Locate command has come in this incarnation
	placeBy   protocol.Instant // the latest time to wait for one
	metadata  string           // of the next heartbeats

	asideUntil protocol.Instant // it does not stand before (R17); Always if it was never found apart

	// As a voter.
	bootUntil  protocol.Instant // the boot residual (R1, R16)
	quietUntil protocol.Instant // no pre-vote is granted before (R1)
	promises   promises
	dead       deadLives
	heard      heard
	votePrev   uint64           // the term before the vote in Term
	votedAt    protocol.Instant // when that vote was asked for, while it is being saved
	given      time.Duration
	known      [protocol.MaxVoters]standing // by place; the own is not used
	graceUntil protocol.Instant             // until then a candidate that is behind is refused; Always if none is

	// As a candidate.
	electAt protocol.Instant
	cause   protocol.Reason
	ranking []protocol.NodeID
	failed  uint64 // failed elections in a row, without a leader
	voted   uint64 // votes in a row without a leader, own or for others, mostDoubled at most
	rounds  uint64
	maxSeen uint64 // the highest term in any answer
	round   round

	yielded protocol.NodeID // the voter that this leader handed over to (R12) and that has not led since
	yields  uint64          // how often

	// As a leader, or while the work has not returned.
	seq    uint64
	tenure tenure
	asked  uint64 // Confirm commands
	proven uint64 // how many of them a round trip has answered
}

var _ protocol.Machine = (*Machine)(nil)

// New returns a machine that waits for its Boot, or an error if the configuration cannot hold, with
// the arithmetic.
func New(cfg Config) (*Machine, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	return &Machine{cfg: cfg, role: protocol.Down}, nil
}

// Step implements [protocol.Machine].
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	switch m.role {
	case protocol.Halted:
		return
	case protocol.Down:
		if in.Kind == protocol.Boot {
			m.now, m.clock, m.rand = in.Now, in.Now, in.Rand
			m.boot(in.Durable)
			m.settle(fx)
		}
		return
	}
	m.now, m.rand = in.Now, in.Rand
	if in.Now.Jumped(m.clock) {
		m.clock = in.Now
		m.jumps++
		m.jump(fx)
	}
	m.expire(fx)
	switch in.Kind {
	case protocol.Receive:
		m.receive(in.From, &in.Message, fx)
	case protocol.Fire:
		m.fire(fx)
	case protocol.Saved:
		m.onSaved(in.Number, in.Failed, fx)
	case protocol.PeerClosed:
		m.onClosed(in.From, in.Incarnation)
	case protocol.Do:
		m.do(in.Command, fx)
	}
	m.settle(fx)
}

// receive drops messages that cannot be valid, and hands the rest on.
func (m *Machine) receive(from protocol.NodeID, msg *protocol.Message, fx *protocol.Effects) {
	if from == m.cfg.Self.ID && msg.Type != WitnessRelease || !wellFormed(msg) {
		return
	}
	sender := protocol.Voter{ID: from, Dir: msg.Dir}
	if msg.Type == WitnessRelease {
		m.onWitness(sender, msg.Echo, fx)
		return
	}
	if m.dead.holds(sender, msg.Incarnation) {
		return
	}
	m.learn(msg.Membership)
	m.note(sender, msg)
	switch msg.Type {
	case Heartbeat:
		m.onHeartbeat(sender, msg, fx)
	case HeartbeatAck:
		m.onAck(sender, msg, fx)
	case PreVote:
		m.onPreVote(sender, msg, fx)
	case Vote:
		m.onVote(sender, msg, fx)
	case PreVoteReply, VoteReply:
		m.onReply(sender, msg, fx)
	case Release:
		m.onRelease(sender, msg, fx)
	case TransferNow:
		m.onTransferNow(sender, msg, fx)
	}
}

// fire acts on the timers that have expired. It runs in a Fire only, and the driver hands in what
// has arrived before it: a process that was paused must not take its own pause for a silent leader
// (R16).
func (m *Machine) fire(fx *protocol.Effects) {
	now := m.now.Boot
	if m.inTenure() && now >= m.tenure.beatAt {
		m.beat(fx)
		if m.role == protocol.Leader {
			m.yield(fx)
		}
	}
	if m.round.kind != idle && now >= m.round.ends && !m.prolong() {
		m.endRound(fx)
	}
	if m.mayStand() && now >= m.electAt && m.saved >= m.termSave {
		m.stand(fx)
	}
	if m.idles() && now >= m.electAt {
		m.spread(fx)
	}
	if m.badDisk && now >= m.saveAt {
		m.saveAt = protocol.Never
		m.touch()
	}
}

// NextFire implements [protocol.Machine].
func (m *Machine) NextFire() protocol.Instant {
	at := protocol.Never
	if m.role == protocol.Down || m.role == protocol.Halted {
		return at
	}
	if m.badDisk {
		at = m.saveAt
	}
	if m.round.kind != idle {
		at = min(at, m.round.ends)
	}
	switch {
	case m.inTenure():
		at = min(at, m.tenure.beatAt, m.tenureEnds())
		if m.role == protocol.Leader && !m.tenure.active && m.tenure.notBefore > m.now.Boot {
			at = min(at, m.tenure.notBefore)
		}
	case m.mayStand() && m.saved < m.termSave: // it stands once this is saved; see onSaved
	case m.mayStand(), m.idles():
		at = min(at, m.electAt)
	}
	if m.role == protocol.Follower && m.candidate && m.unplaced() {
		at = min(at, m.placeBy)
	}
	if m.role == protocol.Follower && m.asideUntil > m.now.Boot {
		at = min(at, m.asideUntil)
	}
	if m.heard.contact != protocol.Always && !m.inTenure() {
		at = min(at, m.heard.contact.Add(m.cfg.Promise))
	}
	return at
}

// settle ends a step: it acts on what has become possible, and saves.
func (m *Machine) settle(fx *protocol.Effects) {
	if m.inTenure() {
		m.advance(fx)
	}
	m.flush(fx)
}

// View implements [protocol.Machine]. While the role is Fencing and the lease is still renewed,
// LeaseEnd is the deadline for the work to return; 0 if unchanged.
func (m *Machine) View() protocol.View {
	v := protocol.View{
		Role: m.role, Term: m.ballot.Term, Confirmed: m.proven, Fault: m.fault, Read: m.clock,
		Incarnation: m.ballot.Incarnation, Aside: m.now.Boot < m.asideUntil,
	}
	if m.now.Boot < m.bootUntil { // R1, R16
		v.OwesUntil = m.bootUntil
	}
	switch {
	case m.inTenure():
		v.Leader = protocol.Leadership{ID: m.cfg.Self.ID, Incarnation: m.ballot.Incarnation, Term: m.tenure.term}
		v.LeaseEnd, v.NotBefore = m.tenure.leaseEnd, m.tenure.notBefore
		// The renewed lease is the next tenure's. It does not cover the work that was told to stop.
		if m.tenure.again && !m.cfg.mutants.Has("overtaken-work-renews") {
			v.LeaseEnd = 0
		}
		for i := range m.ballot.Membership.Voters {
			if i != m.self && m.apart(i) {
				v.Apart |= 1 << i
			}
		}
	case m.heard.contact != protocol.Always:
		v.Leader = m.heard.leadership()
	}
	if m.role == protocol.Leader {
		v.Elected, v.Active, v.Token = true, m.tenure.active, m.tenure.token
	}
	return v
}

// message returns a message with the fields that all messages carry.
func (m *Machine) message(kind protocol.MessageType, term uint64) protocol.Message {
	return protocol.Message{
		Type: kind, Dir: m.cfg.Self.Dir, Incarnation: m.ballot.Incarnation, Term: term, Membership: m.ballot.Membership,
		Priority: m.priority, Position: m.position,
	}
}

// send sends a message after a save (0 is none), and never before the incarnation is durable. A
// message that would wait for a failed save is dropped: no save is in flight to wait for.
func (m *Machine) send(fx *protocol.Effects, to protocol.NodeID, after uint64, msg *protocol.Message) {
	after = max(after, m.bootSave)
	if after <= m.saved {
		after = 0
	}
	if after > m.saveNo && !m.dirty {
		return
	}
	fx.Sends = append(fx.Sends, protocol.Send{To: to, After: after, Message: *msg, Leads: msg.Type == Heartbeat})
}

// toVoters sends a message to all other voters, without waiting for a save.
func (m *Machine) toVoters(msg *protocol.Message, fx *protocol.Effects) {
	for i := range m.ballot.Membership.Voters {
		if i != m.self {
			m.send(fx, m.ballot.Membership.Voters[i].ID, 0, msg)
		}
	}
}

// wellFormed reports whether a message keeps the bounds that every honest sender keeps.
func wellFormed(msg *protocol.Message) bool {
	return msg.Term <= MaxTerm && msg.PrevTerm <= MaxTerm && (msg.Handover == nil || msg.Handover.Term <= MaxTerm) &&
		msg.Priority >= protocol.NeverLead && msg.Priority <= protocol.MaxPriority && len(msg.Position) <= protocol.MaxPosition && len(msg.Ranking) <= protocol.MaxVoters &&
		msg.Promise >= 0 && msg.Promise <= LongestPromise &&
		msg.Residual >= 0 && msg.Residual <= LongestPromise &&
		msg.RetryAfter >= 0 && msg.RetryAfter <= LongestPromise
}
