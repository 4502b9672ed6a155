package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Normalize makes the machine the representative of all that behave as it does:
// as if its clocks showed 0 at the reading at, which is not before its latest
// step, and as if the latest save that is durable had the number 0. Whoever
// drives it has to shift what it hands in later, and what it gets back, by at
// and by the number that is returned.
//
// Equal behaviour means: the same effects to the same inputs, for ever, as long
// as the clock does not jump (R16), and a NextFire that is the same or past in
// both. Of [protocol.View], only instants that are past may differ. It is for
// the checker: the fewer representatives, the smaller its world. The machine is
// Unclocked: what acks tell of a clock is no part of the shift.
func (m *Machine) Normalize(at protocol.Reading) (saves uint64) {
	if m.role == protocol.Down || m.role == protocol.Halted {
		return 0
	}
	t := shift{at.Boot, at.Boot.Add(-m.cfg.Promise)}
	// Between two steps, the time of the latest one is read by NextFire alone: a
	// leader whose notBefore came since has to be stepped.
	due := m.role == protocol.Leader && !m.tenure.active && m.tenure.notBefore > m.now.Boot && m.tenure.notBefore <= at.Boot

	// Of the anchor of the clocks only its offset matters, and of that only how
	// far it is from the present one.
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
	if m.graceUntil != protocol.Always { // grace that is over does not begin anew
		t.timer(&m.graceUntil)
	}
	for i := range m.promises.all[:m.promises.n] {
		// The promise stays though it is over: a release that drops it is acked.
		t.over(&m.promises.all[i].until)
	}
	if m.heard.at != protocol.Always {
		// expire would forget it first thing in the next step.
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

	// What has one value for several that are read in the same way.
	m.maxSeen = max(m.maxSeen, m.ballot.Term) // the next term is above both
	m.given = max(m.given, m.cfg.Promise)     // as flush does
	for i := range m.known {
		k := &m.known[i]
		if i < len(m.ballot.Membership.Voters) && k.priority == 0 {
			k.priority = DefaultPriority // as priorityOf does; only Members tells the two apart
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

// Deaf reports whether a message can make no difference to this machine any
// more, now or later in this life or the next ones, but for the promises that
// expire and the terms that end in any step. Senders must not change their
// priority and position. What is learnt from a membership counts as a
// difference if it is newer than the one in mind; who asks has to look at the
// one on disk, too. It is for the checker, which forgets such messages.
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
			// A leader counts late ones; who is none will lead a higher term.
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

// renumber makes the latest durable save number 0. Numbers of saves are only
// compared with one another.
func (m *Machine) renumber() uint64 {
	base := m.saved
	for _, n := range [...]*uint64{&m.bootSave, &m.termSave, &m.promiseSave, &m.configSave, &m.nextSave, &m.saveNo, &m.saved} {
		*n = max(*n, base) - base
	}
	return base
}

// shift moves instants so that now becomes 0. What lies before stale is older
// than a promise is long.
type shift struct{ now, stale protocol.Instant }

// move only moves.
func (t shift) move(i *protocol.Instant) {
	if *i != protocol.Never && *i != protocol.Always {
		*i -= t.now
	}
}

// timer is for instants that are compared with later ones, whether they are due:
// one that is past is due now.
func (t shift) timer(i *protocol.Instant) {
	*i = max(*i, t.now)
	t.move(i)
}

// over is for instants until which something is so, or from which on, of which
// the past is all one.
func (t shift) over(i *protocol.Instant) {
	if *i <= t.now {
		*i = protocol.Always
	}
	t.move(i)
}

// since is for instants from which on something has been so, of which it counts
// only whether that is longer than d; and nothing if it is not so.
func (t shift) since(i *protocol.Instant, d time.Duration, so bool) {
	if !so || i.Add(d) <= t.now {
		*i = protocol.Always
	}
	t.move(i)
}

// evidence is for times of sending: what was sent a promise ago claims nothing,
// and a quorum of it ends the term at the next step (R8).
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
