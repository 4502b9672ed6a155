package quorum

import (
	"time"

	"github.com/electd/elect/internal/protocol"
)

// A lease is safe only if clocks run at nearly the same rate (protocol.Drift). A
// leader checks that (R17). Each ack carries a reading of the voter's clock, which
// was taken between two readings of the leader's own clock: sent, before the
// heartbeat left, and got, after the ack arrived. Two acks bound the rate of the
// voter's clock as measured by the leader's:
//
//	C / (got₂ − sent₁)  ≤  rate  ≤  C / (sent₂ − got₁)
//
// where C is the time between the two readings of the voter's clock. Delays widen
// the bounds and never shift them, so a clock within the assumption is never found
// apart.
//
// The acks of a voter that is found apart are neither promises nor evidence. A
// leader without a quorum of voters whose clocks run like its own gives up. Both
// do not stand for a while, the voter because the leader's heartbeats say so.

const (
	// paceWindow is the greatest time between two acks that are compared, in
	// promises. The least is half of it, once that much time has passed.
	paceWindow = 8
	// asidePromises is the time, in promises, for which a voter does not count
	// and does not stand after it was last found apart. It is longer than a
	// window, so that the next leader finds the voter apart again before the end.
	asidePromises = 2 * paceWindow
)

// sample is one ack, as a comparison of two clocks.
type sample struct {
	sent, got protocol.Instant // of the own clock, before and after the voter's reading
	read      time.Duration    // of the voter's clock
}

// pace is what a leader knows of the rate of a voter's clock. The zero pace knows
// nothing.
type pace struct {
	incarnation   uint64 // of the voter; 0 is none
	jumps         uint64 // of its clock, in that incarnation
	seq           uint64 // of the heartbeat that the latest sample answers
	first, second sample // new samples are compared with these; first is the older one
	last          sample
	apartUntil    protocol.Instant // the voter does not count before; 0: it was never found apart
	apartSince    protocol.Instant // when it was first found apart in this period
}

// ratio is the greatest ratio of two rates that the assumption allows, as a
// fraction.
func ratio(d protocol.Drift) (num, den int64) {
	const million = 1_000_000
	return million + d.PPM, million - d.PPM
}

// scaled is d·num/den, rounded up.
func scaled(d time.Duration, num, den int64) time.Duration {
	whole, rest := int64(d)/den, int64(d)%den
	return time.Duration(whole*num + (rest*num+den-1)/den)
}

// apart reports whether the clocks ran apart between two samples: by more than
// the assumption allows, wherever between its bounds each reading was taken.
func (d differ) apart(since, s sample) bool {
	ran := s.read - since.read
	most, least := s.got.Sub(since.sent), s.sent.Sub(since.got)
	return ran > scaled(most, d.num, d.den)+d.guard || least > scaled(ran, d.num, d.den)+d.guard
}

// differ is how much two clocks may differ.
type differ struct {
	num, den int64
	// For the granularity of clocks, and for jumps that are too small to notice: on each side two
	// readings may be off by twice the tolerance, and one side's error counts (1+ρ)/(1−ρ) times, 1.5
	// at most.
	guard time.Duration
}

// clocked takes an ack as a sample. It reports whether the voter counts, because
// its clock was not found apart lately.
func (m *Machine) clocked(i int, sent mark, msg *protocol.Message, fx *protocol.Effects) bool {
	p := &m.known[i].pace
	now := m.now.Boot
	if m.cfg.Unclocked || m.cfg.mutants.Has("clock-rates-not-compared") {
		return true
	}
	if msg.Clock > 0 && (msg.Incarnation != p.incarnation || msg.Seq > p.seq) {
		s := sample{sent.at, now, msg.Clock}
		if msg.Incarnation != p.incarnation || msg.Jumps != p.jumps { // it restarted, or its clock jumped
			*p = pace{incarnation: msg.Incarnation, jumps: msg.Jumps, first: s, second: s, apartUntil: p.apartUntil, apartSince: p.apartSince}
		}
		p.seq, p.last = msg.Seq, s
		d := differ{guard: max(m.cfg.Drift.Guard, 6*protocol.JumpTolerance)}
		d.num, d.den = ratio(m.cfg.Drift)
		if d.apart(p.first, s) || d.apart(p.second, s) {
			if !m.apart(i) {
				p.apartSince = now
			}
			p.apartUntil = now.Add(asidePromises * m.cfg.Promise)
		}
		if now.Sub(p.second.got) >= paceWindow*m.cfg.Promise/2 {
			p.first, p.second = p.second, s
		}
	}
	if m.apart(i) {
		m.agree(fx)
		return false
	}
	return true
}

// agree gives up leadership if there is no quorum whose clocks run alike: then the
// own clock is as likely wrong as the others.
func (m *Machine) agree(fx *protocol.Effects) {
	n := len(m.ballot.Membership.Voters)
	for i := range m.ballot.Membership.Voters {
		if i != m.self && m.apart(i) {
			n--
		}
	}
	if n < m.ballot.Membership.Quorum() {
		m.aside()
		if m.working() { // of a tenure that is to follow (R5), too
			m.giveUp(ClocksApart, fx)
		}
	}
}

// alone makes a leader stand aside that loses its quorum because voters that answer are apart. It
// does not know whether the clocks of the silent voters agree with its own, so it has not given up.
// But it would win again with the votes of voters whose promises it cannot use, and keep others
// from leading.
func (m *Machine) alone() {
	n, apart, since := 1, 0, m.now.Boot.Add(-m.cfg.Promise)
	for i := range m.ballot.Membership.Voters {
		switch p := &m.known[i].pace; {
		case i == m.self:
		case m.apart(i) && p.incarnation != 0 && p.last.got >= since:
			apart++
		case m.tenure.voters[i].sent >= since:
			n++
		}
	}
	if k := m.ballot.Membership.Quorum(); n < k && n+apart >= k && !m.cfg.mutants.Has("apart-leads-again") {
		m.aside()
	}
}

// apart reports whether the clock of the voter at a place does not run like the
// own one.
func (m *Machine) apart(i int) bool {
	until := m.known[i].pace.apartUntil
	return until != 0 && m.now.Boot < until
}

// tells reports whether to tell the voter at a place that it is apart. A leader
// whose own clock is wrong finds all voters apart one by one, and must not keep
// them from replacing it. So it waits for half a window: it has given up by then.
func (m *Machine) tells(i int) bool {
	return m.apart(i) && m.now.Boot >= m.known[i].pace.apartSince.Add(paceWindow*m.cfg.Promise/2)
}

// aside keeps this participant from standing for a while, because its clock does
// not run like those of the others.
func (m *Machine) aside() { m.asideUntil = m.now.Boot.Add(asidePromises * m.cfg.Promise) }

// forgetPaces drops all samples, because the clock jumped. A voter that is apart stays so as long
// as if that was found now.
func (m *Machine) forgetPaces() {
	now := m.now.Boot
	for i := range m.known {
		if p := &m.known[i].pace; p.apartUntil != 0 {
			*p = pace{apartUntil: min(p.apartUntil, now.Add(asidePromises*m.cfg.Promise)), apartSince: min(p.apartSince, now)}
		} else {
			*p = pace{}
		}
	}
}

// rate is the rate of a voter's clock as measured by the own clock.
func (p *pace) rate() protocol.Rate {
	most, least := p.last.got.Sub(p.first.sent), p.last.sent.Sub(p.first.got)
	if p.incarnation == 0 || least <= 0 {
		return protocol.Rate{}
	}
	ran := float64(p.last.read - p.first.read)
	return protocol.Rate{Low: int64((ran/float64(most) - 1) * 1e6), High: int64((ran/float64(least) - 1) * 1e6), Over: least}
}
