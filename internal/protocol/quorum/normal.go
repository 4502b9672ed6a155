package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Normalize makes the machine the representative of all that behave as it does: as if its clocks
// showed 0 at the reading at, which is not before its latest step, and as if the latest durable
// save had the number 0. The caller then has to shift later inputs and outputs by at and by the
// number that is returned.
//
// Equal behaviour means: the same effects for the same inputs, for ever, as long as the clock does
// not jump (R16), and a NextFire that is the same or past in both. Of [protocol.View], only
// instants that are past may differ. Normalize is for the checker: the fewer representatives, the
// smaller its state space. The machine is Unclocked: the clock readings in acks are not shifted.
func (m *Machine) Normalize(at protocol.Reading) (saves uint64) {
	if m.role == protocol.Down || m.role == protocol.Halted {
		return 0
	}
	t := shift{at.Boot, at.Boot.Add(-m.cfg.Promise)}
	// Between two steps, NextFire alone reads the time of the latest step: a leader whose notBefore
	// has come since has to be stepped.
	due := m.role == protocol.Leader && !m.tenure.active && m.tenure.notBefore > m.now.Boot && m.tenure.notBefore <= at.Boot

	// Only the offset of the anchor matters, and only its difference from the present one.
	m.clock = protocol.Reading{Boot: protocol.Instant(m.clock.Offset() - at.Offset())}
	m.now = protocol.Reading{}
	if due {
		m.now.Boot--
		m.now.Mono--
	}
	t.timer(&m.saveAt)
	t.over(&m.bootUntil)  // the greatest of what is owed; or compared with now
	t.over(&m.quietUntil) // compared with now
	t.over(&m.asideUntil) // compared with now
	t.over(&m.placeBy)    // compared with now
	t.over(&m.promises.floor)
	if m.graceUntil != protocol.Always { // grace that is over does not begin again
		t.timer(&m.graceUntil)
	}
	for i := range m.promises.all[:m.promises.n] {
		// The promise stays though it is over: a release that drops it is acked.
		t.over(&m.promises.all[i].until)
	}
	if m.heard.at != protocol.Always {
		// expire would forget it at the start of the next step.
		if m.heard.at <= t.stale && !m.inTenure() {
			m.heard.at = protocol.Always
		} else {
			t.move(&m.heard.at)
		}
	}
	if m.heard.contact != protocol.Always {
		m.heard.contact = max(m.heard.contact, t.stale) // NextFire is then now
		t.move(&m.heard.contact)
	}
	if m.working() {
		m.electAt = 0 // it is set when the work has returned
	} else {
		t.timer(&m.electAt)
	}
	if !m.awaited() {
		m.votedAt = protocol.Always
	}
	t.since(&m.votedAt, m.patient(), true)
	t.round(m)
	t.tenure(m)

	// Several values that are read in the same way become one.
	m.maxSeen = max(m.maxSeen, m.ballot.Term) // the next term is above both
	m.given = max(m.given, m.cfg.Promise)     // as flush does
	for i := range m.known {
		k := &m.known[i]
		if i < len(m.ballot.Membership.Voters) && k.priority == 0 {
			k.priority = protocol.DefaultPriority // as priorityOf does; only Members distinguishes the two
		}
		t.over(&k.pace.apartUntil)
		t.move(&k.pace.apartSince)
		for _, s := range [...]*sample{&k.pace.first, &k.pace.second, &k.pace.last} {
			t.move(&s.sent)
			t.move(&s.got)
		}
	}
	return m.renumber()
}

// Deaf reports whether a message can make no difference to this machine any more, now or later, in
// this incarnation or the next ones, apart from promises that expire and terms that end in any
// step. Senders must not change their priority and position. A newer membership than the one in
// memory counts as a difference; the caller also has to compare it with the one on disk. It is for
// the checker, which drops such messages.
func (m *Machine) Deaf(from protocol.NodeID, msg *protocol.Message) bool {
	if m.role == protocol.Down || m.role == protocol.Halted || msg.Membership == nil || msg.Membership.Compare(m.ballot.Membership) > 0 {
		return false
	}
	if i := m.place(protocol.Voter{ID: from, Dir: msg.Dir}); i >= 0 && msg.Priority != 0 &&
		(msg.Priority != m.priorityOf(i) || msg.Position != m.known[i].position) {
		return false
	}
	switch msg.Type {
	case PreVoteReply, VoteReply:
		switch {
		case msg.Echo < m.ballot.Incarnation: // incarnations rise
			return true
		case msg.Term > max(m.maxSeen, m.ballot.Term): // the next term has to be above it
			return false
		case msg.Round > m.rounds || msg.Round == m.rounds && m.round.kind != idle: // rounds rise
			return false
		case msg.Type == VoteReply && msg.Granted:
			// A leader counts late votes; a participant that does not lead will lead a higher term
			// only.
			return !m.working() && msg.Term <= m.ballot.Term
		}
		return true
	case HeartbeatAck:
		switch {
		case msg.Echo < m.ballot.Incarnation:
			return true
		case m.inTenure(): // the term of a tenure rises
			return msg.Term < m.tenure.term
		}
		return msg.Term < m.ballot.Term || msg.Term == m.ballot.Term && m.round.kind != voting
	}
	return false
}

// renumber makes the latest durable save number 0. Numbers of saves are only compared with one
// another.
func (m *Machine) renumber() uint64 {
	base := m.saved
	for _, n := range [...]*uint64{&m.bootSave, &m.termSave, &m.promiseSave, &m.configSave, &m.nextSave, &m.saveNo, &m.saved} {
		*n = max(*n, base) - base
	}
	return base
}

// shift moves instants so that now becomes 0. An instant before stale is older than a promise.
type shift struct{ now, stale protocol.Instant }

// move only moves.
func (t shift) move(i *protocol.Instant) {
	if *i != protocol.Never && *i != protocol.Always {
		*i -= t.now
	}
}

// timer shifts an instant at which something is due. One that is past is due now.
func (t shift) timer(i *protocol.Instant) {
	*i = max(*i, t.now)
	t.move(i)
}

// over shifts an instant that ends or begins a condition. All past values are equal.
func (t shift) over(i *protocol.Instant) {
	if *i <= t.now {
		*i = protocol.Always
	}
	t.move(i)
}

// since shifts the instant since when so holds, where only matters whether it has held for longer
// than d. If so is false, the instant has no meaning.
func (t shift) since(i *protocol.Instant, d time.Duration, so bool) {
	if !so || i.Add(d) <= t.now {
		*i = protocol.Always
	}
	t.move(i)
}

// evidence shifts a time of sending: what was sent a promise ago claims nothing, and a quorum of it
// ends the term at the next step (R8).
func (t shift) evidence(i *protocol.Instant) {
	if *i <= t.stale {
		*i = protocol.Always
	}
	t.move(i)
}

func (t shift) round(m *Machine) {
	r := &m.round
	if r.kind == idle {
		return
	}
	t.since(&r.sent, m.patient(), true)
	t.timer(&r.ends)
	for i := range r.free {
		t.timer(&r.free[i])
		t.timer(&r.notBefore[i]) // the k-th least of what is past is past
	}
}

func (t shift) tenure(m *Machine) {
	if !m.inTenure() {
		return
	}
	g := &m.tenure
	t.timer(&g.beatAt)
	t.over(&g.leaseEnd)
	t.over(&g.covered)    // compared with leaseEnd, where that is not past
	if g.won <= g.fresh { // e_q never falls
		g.won = protocol.Always
	}
	t.evidence(&g.won)
	t.evidence(&g.fresh)
	t.evidence(&g.heard)
	t.since(&g.betterAt, m.cfg.Steady, g.better != "")
	t.since(&g.activeAt, m.cfg.MinTenure<<mostYields, g.active)
	t.timer(&g.notBefore)
	t.evidence(&g.sent)
	t.over(&g.strandAt)
	for i := range g.voters {
		f := &g.voters[i]
		t.evidence(&f.sent)
		t.over(&f.claim)
		t.timer(&f.notBefore)
	}
	for i := range g.marks {
		if k := &g.marks[i]; k.seq != 0 {
			// No claim goes beyond a promise from the sending on.
			t.evidence(&k.at)
		}
	}
}
