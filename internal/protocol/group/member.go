package group

import (
	"fmt"
	"slices"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// The reasons of a Stop, beside those of package protocol.
const (
	Unrenewed   protocol.Reason = "session-lapsed" // no coordinator renewed the session in time
	SessionOver protocol.Reason = "session-over"   // the coordinator says that the session is over
	Revoked     protocol.Reason = "revoked"        // the coordinator takes the key back
)

// maxID is the longest id of a member, as package driver has it: back ends name participants more freely than the other
// protocols do.
const maxID = 128

// MemberConfig is what a member's machine is made with.
type MemberConfig struct {
	Settings
	ID       protocol.NodeID
	Observer bool // it never stands in E
	Mutant   mutant.Switch
}

// attachment is the latest one. It is the zero value if its connection is closed.
type attachment struct {
	conn   Conn
	tenure uint64
}

// sent is a poll, or a report, that was not answered.
type sent struct {
	seq uint64
	at  protocol.Instant
}

// Member is one process's part in a group. It is owned by one goroutine.
type Member struct {
	cfg     MemberConfig
	started bool
	leaving bool
	left    bool             // it has said goodbye, or has nobody to say it to
	clock   protocol.Reading // the anchor: no jump since then
	session Session
	claim   protocol.Instant // until when the session is proven; Always if it never was
	// admitted and registry belong to the session.
	admitted bool
	registry *Registry
	traits   Traits

	top     uint64 // the greatest tenure that was seen
	members uint64 // how many members the last coordinator knew of
	at      attachment
	number  uint64 // of the latest report
	seq     uint64 // of the latest poll
	polls   []sent // of the latest attachment, in the order of their numbers
	pollAt  protocol.Instant

	keys     memberKeys
	standing standing
	draft    *Message // of the mutant report-before-greet
}

// NewMember returns a machine that waits for its Start, or an error that says what is wrong with the configuration.
func NewMember(cfg MemberConfig) (*Member, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if n := len(cfg.ID); n == 0 || n > maxID {
		return nil, fmt.Errorf("group: the id %.20q of a member has %d bytes; want 1 to %d", cfg.ID, n, maxID)
	}
	return &Member{cfg: cfg, claim: protocol.Always, pollAt: protocol.Never}, nil
}

// Step takes one input and appends its effects to fx.
func (m *Member) Step(in *Input, fx *Effects) {
	now := in.Now.Boot
	if in.Kind == Start {
		if !m.started {
			m.started, m.clock = true, in.Now
			m.session = Session{Member: m.cfg.ID, Process: in.Session.Process, Epoch: 1}
			m.standing.quiet = in.Now.Boot
		}
		return
	}
	if !m.started {
		return
	}
	if now >= m.standing.then {
		m.standing.owed = 0
	}
	if in.Kind == Returned || m.cfg.Mutant.Has("revived-by-late-answer") {
		// What has returned is no overrun, and is not stopped.
		m.take(in, fx)
		m.watch(in.Now, fx)
	} else {
		m.watch(in.Now, fx)
		m.take(in, fx)
		m.drain(now, fx)
	}
	if m.at.conn != 0 && now >= m.pollAt {
		m.poll(now, fx)
	}
	m.leave(fx)
	m.stand(now)
}

// take handles what an input reports.
func (m *Member) take(in *Input, fx *Effects) {
	now := in.Now.Boot
	switch in.Kind {
	case Receive:
		m.receive(in, fx)
	case Closed:
		if in.Conn == m.at.conn {
			if m.cfg.Mutant.Has("report-before-greet") {
				draft := m.compose(now)
				m.draft = &draft
			}
			m.detach()
		}
	case Choose:
		m.choose(in, fx)
	case Returned:
		m.returned(in.Held, fx)
	case Led:
		m.led(in)
	case Unseen:
		m.sees(unseen, now)
	case Leave:
		if m.leaving {
			return
		}
		m.leaving = true
		m.traits.Draining = true
		m.tell(fx)
		m.stopAll(protocol.Withdrawn, fx)
	}
}

// watch is G1: a session whose claim has lapsed, or whose clock has jumped, is over for ever.
func (m *Member) watch(now protocol.Reading, fx *Effects) {
	if m.cfg.Mutant.Has("session-goes-on") {
		return
	}
	if now.Jumped(m.clock) && !m.cfg.Mutant.Has("jump-ignored-by-member") {
		m.clock = now
		m.polls = m.polls[:0]
		m.pollAt = min(m.pollAt, now.Boot)
		if m.claim != protocol.Always {
			m.end(protocol.ClockJump, now.Boot, fx)
		}
	}
	if m.claim != protocol.Always && now.Boot >= m.claim {
		m.end(Unrenewed, now.Boot, fx)
	}
	m.drain(now.Boot, fx)
}

// drain stops the work before the claim ends.
func (m *Member) drain(now protocol.Instant, fx *Effects) {
	if m.keys.running > 0 && now >= m.claim.Add(-m.cfg.Drain) && !m.cfg.Mutant.Has("session-goes-on") {
		m.stopAll(Unrenewed, fx)
	}
}

// live reports whether work may begin.
func (m *Member) live(now protocol.Instant) bool {
	return m.claim != protocol.Always && now < m.claim.Add(-m.cfg.Drain)
}

// end ends the session. Work that has not returned is an overrun from now on.
func (m *Member) end(why protocol.Reason, now protocol.Instant, fx *Effects) {
	m.stopAll(why, fx)
	m.claim = protocol.Always
	m.forgotten(now)
	m.keys.overrun()
	m.session.Epoch++
	vouches := m.registry
	if !m.cfg.Mutant.Has("admission-outlives-session") {
		m.admitted, m.registry = false, nil
	}
	if m.cfg.Mutant.Has("lapsed-vouches") {
		m.registry = vouches
	}
	if m.at.conn != 0 {
		m.report(now, fx)
	}
}

func (m *Member) stopAll(why protocol.Reason, fx *Effects) {
	if m.keys.running == 0 {
		return
	}
	m.keys.sort()
	for i := range m.keys.all {
		m.stop(&m.keys.all[i], why, fx)
	}
}

func (m *Member) stop(p *memberKey, why protocol.Reason, fx *Effects) {
	if p.stage != running {
		return
	}
	p.stage = stopping
	m.keys.running--
	fx.Stops = append(fx.Stops, Stop{Held: Held{Key: p.key, Token: p.token}, Reason: why})
}

func (m *Member) detach() {
	m.at, m.polls, m.pollAt = attachment{}, m.polls[:0], protocol.Never
}

func (m *Member) send(fx *Effects, msg Message) {
	if m.at.conn == 0 {
		return
	}
	msg.Number = m.number
	fx.Sends = append(fx.Sends, Send{Conn: m.at.conn, Message: msg})
}

// greeted is G2: a coordinator's connection is there, and the report is composed now.
func (m *Member) greeted(conn Conn, tenure uint64, now protocol.Instant, fx *Effects) {
	if tenure < m.top && !m.cfg.Mutant.Has("older-tenure-obeyed") {
		fx.Closes = append(fx.Closes, conn)
		return
	}
	m.top = max(m.top, tenure)
	m.at = attachment{conn, tenure}
	if m.left {
		m.goodbye(fx)
		return
	}
	m.report(now, fx)
}

// report begins an attachment.
func (m *Member) report(now protocol.Instant, fx *Effects) {
	m.number++
	m.polls = m.polls[:0]
	msg := m.compose(now)
	if m.draft != nil {
		msg, m.draft = *m.draft, nil
	}
	msg.Seq = m.sends(now)
	msg.Tenure = m.at.tenure
	m.send(fx, msg)
}

// compose returns a report without its number, tenure and seq.
func (m *Member) compose(now protocol.Instant) Message {
	if !m.admitted && !m.cfg.Mutant.Has("unadmitted-vouches") && !m.cfg.Mutant.Has("lapsed-vouches") {
		m.registry = nil
	}
	msg := Message{Type: Report, Session: m.session, Admitted: m.admitted, Promise: m.cfg.Promise, Traits: m.traits, Members: m.members}
	if !m.cfg.Observer {
		msg.Cover = m.cfg.Cover
	}
	msg.Registry = m.Vouches(now)
	m.keys.report(&msg)
	return msg
}

// Vouches returns the registry for which a report at now vouches (G9), nil if for none.
func (m *Member) Vouches(now protocol.Instant) *Registry {
	lapsed := m.cfg.Mutant.Has("lapsed-vouches")
	admitted := m.admitted || lapsed || m.cfg.Mutant.Has("unadmitted-vouches")
	if !admitted || !lapsed && (m.claim == protocol.Always || now >= m.claim) {
		return nil
	}
	return m.registry
}

// sends notes that a poll is sent now, and returns its number.
func (m *Member) sends(now protocol.Instant) uint64 {
	m.seq++
	m.polls = append(m.polls, sent{m.seq, now})
	m.pollAt = now.Add(m.cfg.Poll)
	return m.seq
}

func (m *Member) poll(now protocol.Instant, fx *Effects) {
	// What was sent too long ago to prove anything is not waited for.
	old := 0
	for old < len(m.polls) && now >= m.polls[old].at.Add(m.cfg.Promise) {
		old++
	}
	m.polls = append(m.polls[:0], m.polls[old:]...)
	msg := Message{Type: Poll, Tenure: m.at.tenure, Seq: m.sends(now), Admitted: m.admitted}
	if m.registry != nil && m.registry.Tenure == m.at.tenure {
		msg.Acked = m.registry.Version
	}
	m.send(fx, msg)
}

// receive takes a coordinator's message. Beside a Greet only those of the latest attachment count.
func (m *Member) receive(in *Input, fx *Effects) {
	msg, now := &in.Message, in.Now.Boot
	m.heard(now)
	if msg.Type == Greet {
		m.greeted(in.Conn, msg.Tenure, now, fx)
		return
	}
	if msg.Type == Refuse {
		if msg.Misfit {
			m.judged(unfitted, msg.Tenure, now)
		}
		if in.Conn == m.at.conn {
			m.detach()
		}
		return
	}
	latest := m.at.conn != 0 && in.Conn == m.at.conn && msg.Tenure == m.at.tenure && msg.Number == m.number
	if !latest && !(m.cfg.Mutant.Has("old-assignment-counts") && msg.Type == Assign) &&
		!(m.cfg.Mutant.Has("old-admission-counts") && (msg.Type == Admit || msg.Type == Enrol)) {
		return
	}
	switch msg.Type {
	case Answer:
		m.answered(msg, now)
	case Assign:
		m.assigned(msg.Held, now, fx)
	case Revoke:
		m.revoked(msg.Held, fx)
	case Enrol:
		if msg.Registry == nil {
			return
		}
		if m.cfg.Mutant.Has("ack-before-kept") {
			kept := m.registry
			m.keep(msg.Registry)
			m.poll(now, fx)
			m.registry = kept
			return
		}
		m.keep(msg.Registry)
		m.poll(now, fx)
	case Admit:
		m.admit(msg.Registry, now, fx)
	case Over:
		if msg.Session == m.session {
			m.end(SessionOver, now, fx)
		}
	}
}

// answered is G3: the claim counts from the sending of the poll that was answered.
func (m *Member) answered(msg *Message, now protocol.Instant) {
	i := 0
	for i < len(m.polls) && m.polls[i].seq < msg.Seq {
		i++
	}
	if i == len(m.polls) || m.polls[i].seq != msg.Seq {
		return
	}
	m.members = msg.Members
	if m.admitted {
		m.judged(fits, m.at.tenure, now)
	}
	from := m.polls[i].at
	m.polls = append(m.polls[:0], m.polls[i+1:]...)
	switch {
	case m.cfg.Mutant.Has("claim-from-answer"):
		from = now
	case m.cfg.Mutant.Has("claim-from-latest-send") && len(m.polls) > 0:
		from = m.polls[len(m.polls)-1].at
	}
	// A member whose settings are older than the coordinator's claims no more than it says in its reports.
	promise := min(msg.Promise, m.cfg.Promise)
	claim := m.cfg.Drift.Claim(promise)
	if m.cfg.Mutant.Has("ignore-drift") {
		claim = promise
	}
	if until := from.Add(claim); now < until {
		m.claim = max(m.claim, until)
	}
}

// keep keeps a newer registry.
func (m *Member) keep(r *Registry) {
	if m.registry == nil || r.Tenure > m.registry.Tenure || r.Tenure == m.registry.Tenure && r.Version > m.registry.Version {
		m.registry = r
	}
}

// admit is G8: an admission takes effect at a live claim.
func (m *Member) admit(r *Registry, now protocol.Instant, fx *Effects) {
	if m.claim == protocol.Always || now >= m.claim {
		return
	}
	if !m.admitted {
		m.registry = nil // what was kept before lacks what was admitted since
	}
	if r != nil {
		m.keep(r)
	}
	m.admitted = true
	m.judged(fits, m.at.tenure, now)
	m.poll(now, fx)
}

// assigned is G4.
func (m *Member) assigned(held []Held, now protocol.Instant, fx *Effects) {
	var refused []Held
	for i := range held {
		h := &held[i]
		p := m.keys.find(h.Key)
		switch {
		case p != nil && p.stage == running && p.token == h.Token:
		case (m.live(now) || m.cfg.Mutant.Has("begins-late")) && (m.admitted || m.cfg.Mutant.Has("unadmitted-assigned")) && !m.leaving && p != nil && p.wanted && p.stage == idle && !m.keys.overruns(h.Key):
			p.stage, p.token = running, h.Token
			m.keys.running++
			m.keys.held++
			fx.Starts = append(fx.Starts, *h)
		default:
			refused = append(refused, *h)
		}
	}
	if refused != nil {
		m.send(fx, Message{Type: Released, Held: refused})
	}
}

// revoked is G5: the keys are given up when their work has returned.
func (m *Member) revoked(held []Held, fx *Effects) {
	var gone []Held
	for _, h := range held {
		p := m.keys.find(h.Key)
		if p == nil || p.stage == idle || p.token != h.Token {
			gone = append(gone, Held{Key: h.Key, Token: h.Token})
			continue
		}
		m.stop(p, Revoked, fx)
		if m.cfg.Mutant.Has("release-before-join") {
			gone = append(gone, Held{Key: h.Key, Token: h.Token})
		}
	}
	if gone != nil {
		m.send(fx, Message{Type: Released, Held: gone})
	}
}

// returned is G5 and G12: work has been joined.
func (m *Member) returned(held []Held, fx *Effects) {
	var released, ended []Held
	for _, h := range held {
		if len(h.State) > MaxState {
			h.State = nil
		}
		p := m.keys.find(h.Key)
		switch {
		case p != nil && p.stage != idle && p.token == h.Token:
			if p.stage == running {
				m.keys.running--
			}
			p.stage, p.token = idle, Token{}
			m.keys.held--
			m.keys.tidy(h.Key)
			released = append(released, h)
		case m.keys.returned(h.Key, h.Token):
			ended = append(ended, Held{Key: h.Key, Token: h.Token})
		}
	}
	if released != nil {
		m.send(fx, Message{Type: Released, Held: released})
	}
	if ended != nil {
		m.send(fx, Message{Type: Ended, Held: ended})
	}
}

// choose changes what the member wants.
func (m *Member) choose(in *Input, fx *Effects) {
	if m.leaving {
		return
	}
	for _, w := range in.Wants {
		m.keys.want(w)
	}
	for _, k := range in.Unwants {
		if p := m.keys.find(k); p != nil {
			p.wanted = false
			m.stop(p, protocol.Withdrawn, fx)
			m.keys.tidy(k)
		}
	}
	if len(in.Wants)+len(in.Unwants) > 0 {
		m.send(fx, Message{Type: Wish, Wants: slices.Clone(in.Wants), Unwants: slices.Clone(in.Unwants)})
	}
	if in.Traits != nil && *in.Traits != m.traits {
		m.traits = *in.Traits
		m.tell(fx)
	}
}

func (m *Member) tell(fx *Effects) { m.send(fx, Message{Type: Tell, Traits: m.traits}) }

// leave says goodbye when all work was joined.
func (m *Member) leave(fx *Effects) {
	if !m.leaving || m.left || m.keys.held > 0 || len(m.keys.over) > 0 {
		return
	}
	m.left, m.claim, m.admitted, m.registry = true, protocol.Always, false, nil
	if m.at.conn != 0 {
		m.goodbye(fx)
	}
}

// goodbye ends the session at the coordinator, with or without a report before it.
func (m *Member) goodbye(fx *Effects) {
	m.number++
	m.send(fx, Message{Type: Goodbye, Session: m.session, Traits: m.traits})
	m.detach()
}

// NextFire is when Step has to be called with a Fire, on the Boot clock, or Never.
func (m *Member) NextFire() protocol.Instant {
	next := protocol.Never
	if !m.started {
		return next
	}
	if m.at.conn != 0 {
		next = m.pollAt
	}
	if m.claim != protocol.Always && !m.cfg.Mutant.Has("session-goes-on") {
		next = min(next, m.claim)
		if m.keys.running > 0 {
			next = min(next, m.claim.Add(-m.cfg.Drain))
		}
	}
	if !m.standing.is && m.standing.sight != others {
		next = min(next, m.standing.quiet.Add(m.Cover()))
	}
	return next
}

// View is what the work and observers see.
func (m *Member) View() View {
	return View{Session: m.session, Claim: m.claim, Read: m.clock, Tenure: m.at.tenure, Admitted: m.admitted}
}
