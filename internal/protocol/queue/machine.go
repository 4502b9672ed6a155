package queue

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// phase is the machine's phase in the diagram of the package comment.
type phase uint8

const (
	down phase = iota
	idle
	opening   // OpenSession
	entering  // Enter
	syncing   // Sync, after an Enter whose answer was lost (ZooKeeper)
	scanning  // List, to find what that Enter did
	listing   // List
	waiting   // for the watches
	renewing  // first, but the claim has lapsed (etcd)
	touching  // Touch: does the entry exist? (ZooKeeper)
	verifying // Verify (etcd), List (ZooKeeper)
	leading   // between Elected and Stop
	fencing   // between Stop and Joined
	freeing   // Leave with the mark
	closing   // CloseSession
	halted
)

var roles = [...]protocol.Role{
	down: protocol.Down, idle: protocol.Observer, opening: protocol.Candidate, entering: protocol.Candidate, syncing: protocol.Candidate,
	scanning: protocol.Candidate, listing: protocol.Follower, waiting: protocol.Follower, renewing: protocol.Candidate, touching: protocol.Candidate,
	verifying: protocol.Candidate, leading: protocol.Leader, fencing: protocol.Fencing, freeing: protocol.Releasing, closing: protocol.Releasing,
	halted: protocol.Halted,
}

// pending is an ask that waits for its answer; the zero pending is none.
type pending struct {
	number  uint64
	op      protocol.Op
	session uint64
	sent    protocol.Instant // before it was sent
}

// Machine is one participant. It implements [protocol.Machine].
type Machine struct {
	cfg Config // with its defaults

	phase  phase
	wanted bool // Campaign, until Withdraw
	sick   bool
	fault  string

	base   protocol.Reading // the anchor: the clocks have not jumped since
	asked  uint64           // the last Ask's number
	fails  uint64           // failures in a row, of asks
	losses uint64           // candidacies in a row without a tenure

	// At most one ask of each kind is in flight: main is the phase's, renew extends the claim,
	// probe checks the entry. Answers to other asks are dropped.
	main, renew, probe        pending
	retryAt, renewAt, pollAt  protocol.Instant // when the next one may be asked
	watch, ownWatch           uint64           // asks that watch the predecessor and the own entry
	watched                   uint64           // the predecessor's order
	touches                   uint64           // the ask that watches the leader's touches
	touchAt                   protocol.Instant // when the own entry may be touched again (etcd)
	revision                  uint64           // the newest that was read
	stray                     uint64           // an Enter that was on its way when the candidacy was left
	deaf                      protocol.Instant // since when all asks of main and probe were in vain; Never if they were not
	asksConfirm, covers, done uint64           // since when main and probe asked in vain; Never if they did not

	// The candidacy (Q1).
	session uint64
	granted time.Duration
	nonce   protocol.Nonce
	own     protocol.Entry
	ahead   bool // an entry before this one is known, and not known to be gone

	leaseEnd  protocol.Instant // until when the session lives (Q5); Always: unknown
	holdEnd   protocol.Instant // until when the hold-off protects (Q6)
	firstView protocol.Instant // when it first saw no entry before its own; Never: not yet
	notBefore protocol.Instant // the end of the hold-off
	mark      protocol.QueueMark
	seen      protocol.QueueMark // the newest that was seen: its Order and Touched
	seenAt    protocol.Instant   // when it was first seen
	marking   bool               // the mark "held" was sent and may be written
	marked    bool               // it is written
	active    bool               // Lead was ordered
	led       bool               // and it led earlier in this candidacy
	over      bool               // the claim is over for good and not renewed

	leader protocol.Leadership
}

var _ protocol.Machine = (*Machine)(nil)

// New returns a machine that waits for its Boot, or an error if the configuration cannot hold.
func New(cfg Config) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Machine{cfg: cfg.withDefaults()}
	m.forget()
	return m, nil
}

// Config returns the configuration with its defaults filled in.
func (m *Machine) Config() Config { return m.cfg }

// forget drops what is known of a candidacy.
func (m *Machine) forget() {
	m.main, m.renew, m.probe, m.watch, m.ownWatch, m.watched, m.revision, m.stray = pending{}, pending{}, pending{}, 0, 0, 0, 0, 0
	m.session, m.granted, m.own, m.ahead, m.deaf = 0, 0, protocol.Entry{}, false, protocol.Never
	if !m.cfg.mutants.Has("adopt-from-older-session") {
		m.nonce = protocol.Nonce{}
	}
	m.leaseEnd, m.holdEnd = protocol.Always, protocol.Always
	m.firstView, m.notBefore, m.mark = protocol.Never, protocol.Always, protocol.QueueMark{}
	m.touches, m.touchAt, m.seen, m.seenAt = 0, protocol.Always, protocol.QueueMark{}, protocol.Never
	m.marking, m.marked, m.active, m.led, m.over = false, false, false, false, false
}

// Step implements protocol.Machine.
func (m *Machine) Step(in *protocol.Input, fx *protocol.Effects) {
	if m.phase == down {
		if in.Kind == protocol.Boot {
			m.phase, m.base = idle, in.Now
			m.retryAt = in.Now.Boot
		}
		return
	}
	m.checkClocks(in, fx)
	m.checkClaim(in, fx)
	switch in.Kind {
	case protocol.Replied:
		m.replied(in, fx)
	case protocol.Do:
		m.command(in, fx)
	}
	// Q7: PeerClosed is a suspicion, and proves nothing: the watches that the disconnection ends
	// are reported as closed, the lost answers as unknown, and the deadline stays.
	m.run(in, fx)
}

// command carries out a command of the participant's owner.
func (m *Machine) command(in *protocol.Input, fx *protocol.Effects) {
	switch in.Command.Verb {
	case protocol.Campaign:
		m.wanted = true
	case protocol.Withdraw:
		m.wanted, m.losses = false, 0
	case protocol.Sicken:
		m.sick = true
	case protocol.Recover:
		m.sick = false
	case protocol.Resign:
		if m.phase == leading {
			m.end(Resigned, in, fx)
		}
	case protocol.Joined:
		if m.phase == fencing && in.Command.Token == m.own.Order {
			m.leave(in)
		}
	case protocol.Confirm:
		m.confirm(in)
	}
	if m.stands() {
		return
	}
	switch {
	case m.phase == leading && m.sick:
		m.end(Unhealthy, in, fx)
	case m.phase == leading:
		m.end(Withdrawn, in, fx)
	case m.phase == opening && m.main.number == 0: // otherwise the session's number is still to come
		m.rest(in)
	case m.phase >= entering && m.phase <= verifying:
		m.leave(in)
	}
}

// stands reports whether it is, or wants to be, a candidate.
func (m *Machine) stands() bool { return m.wanted && !m.sick && m.fault == "" }

// replied passes an answer to the handler of its ask. An answer that nothing waits for is dropped.
func (m *Machine) replied(in *protocol.Input, fx *protocol.Effects) {
	a := &in.Answer
	if a.Number == 0 {
		return
	}
	if m.cfg.mutants.Has("deadline-across-streams") && m.cfg.Dialect == Etcd && a.Status == protocol.StatusDone &&
		a.TTL > 0 && m.renew.number != 0 && a.Number < m.renew.number && a.Number != m.main.number {
		m.renewed(m.renew, in, fx)
		return
	}
	if a.Number == m.stray {
		m.strayed(in)
		return
	}
	switch a.Number {
	case m.main.number, m.renew.number, m.probe.number, m.watch, m.ownWatch, m.touches:
	default:
		return
	}
	if m.replaced(a) && m.phase != freeing && m.phase != closing {
		m.lost(SessionGone, in, fx)
		return
	}
	switch a.Number {
	case m.main.number:
		p := m.main
		m.main = pending{}
		m.hear(p, in)
		m.answered(p, in, fx)
	case m.renew.number:
		p := m.renew
		m.renew = pending{}
		if m.phase == renewing {
			m.hear(p, in)
		}
		m.renewed(p, in, fx)
	case m.probe.number:
		p := m.probe
		m.probe = pending{}
		m.hear(p, in)
		m.probed(p, in, fx)
	case m.touches:
		m.touchSaid(in)
	default:
		m.watchSaid(in, fx)
	}
}

// replaced reports whether the answer came from another session than the one that asked (Q7): the
// runtime's client has opened one by itself. The old one no longer belongs to the client and ends
// by itself. The request may have been carried out in the new one, and an entry in it would live as
// long as the process, so the new one has to be closed.
func (m *Machine) replaced(a *protocol.Answer) bool {
	if m.session == 0 || a.Session == 0 || a.Session == m.session || m.cfg.mutants.Has("session-replaced-silently") {
		return false
	}
	m.session = a.Session
	return true
}

// answered handles the answer to the phase's ask.
func (m *Machine) answered(p pending, in *protocol.Input, fx *protocol.Effects) {
	if in.Answer.Status == protocol.StatusDone && p.op != protocol.List {
		m.fails = 0
	}
	switch p.op {
	case protocol.OpenSession:
		m.opened(p, in)
	case protocol.Enter:
		m.entered(in)
	case protocol.Sync:
		m.synced(in)
	case protocol.List:
		m.listed(p, in, fx)
	case protocol.Touch:
		m.touched(p, in)
	case protocol.Verify:
		m.verified(p, in, fx)
	case protocol.Mark:
		m.markWritten(p, in, fx)
	case protocol.Leave:
		m.left(in)
	case protocol.CloseSession:
		m.closed(p, in)
	}
}

// View implements protocol.Machine.
func (m *Machine) View() protocol.View {
	v := protocol.View{
		Role: roles[m.phase], Term: m.leader.Term, Leader: m.leader, NotBefore: 0,
		Confirmed: m.done, Fault: m.fault,
	}
	if m.fault != "" {
		v.Role = protocol.Halted
	}
	if m.phase == leading {
		v.Elected, v.Token = true, m.own.Order
		if m.notBefore != protocol.Always {
			v.NotBefore = m.notBefore
		}
	}
	switch {
	case m.active:
		v.Active, v.LeaseEnd, v.Read = true, m.claimEnd(), m.base
	case m.phase == fencing && !m.over: // the deadline for the work to return
		v.LeaseEnd, v.Read = m.claimEnd(), m.base
	}
	return v
}

// say records the leader as far as the queue shows it: the holder of the first entry.
func (m *Machine) say(first *protocol.Entry) {
	m.leader = protocol.Leadership{ID: first.Holder, Term: first.Order}
}
