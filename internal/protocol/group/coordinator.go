package group

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// Why a coordinator resigns, in Effects.Reason.
const (
	Unproven   = "its election does not prove the tenure any more"
	Jumped     = "this machine slept, or a clock was set"
	Deserted   = "most of its members are silent"
	UsedUp     = "a key has used up the numbers of its assignments"
	TooGreat   = "the count of its token leaves no bits for assignments"
	Misfit     = "its settings do not fit those of members that have keys"
	Resigned   = "asked to resign"
	Unanswered = "asked to resign; a voucher did not acknowledge the registry in time"
)

// CoordinatorConfig is what a coordinator's machine is made with.
type CoordinatorConfig struct {
	Settings
	// Unclocked: the coordinator's election depends on no clock. After a jump of its clock a coordinator extends its
	// promises and its cover; otherwise it resigns.
	Unclocked bool
	Mutant    mutant.Switch
}

// link is an open connection.
type link struct {
	from    protocol.NodeID
	session Session // of its last report; zero: none
	number  uint64  // of that report
}

// process is what is known of one, for the whole tenure.
type process struct {
	number  uint64   // of the latest report, or goodbye
	over    uint64   // this epoch and earlier ones are over
	dead    bool     // a witness says so
	session *session // nil if none is live
}

// Coordinator is one tenure of a group's coordinator: it is made anew for each. It is owned by one goroutine.
type Coordinator struct {
	cfg        CoordinatorConfig
	begun      bool
	over       bool // it has resigned
	tenure     uint64
	clock      protocol.Reading // the anchor: no jump since then
	before     protocol.Reading // of mutants: the reading of the step before,
	provenOnce bool             // and what Check said then

	links     map[Conn]*link
	processes map[life]*process
	lives     map[protocol.NodeID]int // how many of them are of a member
	sessions  []*session              // in the order of Compare
	slots     []*session              // by their slots; nil if it is over
	gone      int                     // how many slots are of sessions that are over

	begunAt   protocol.Instant
	cover     protocol.Instant // cover ends then
	wait      time.Duration    // W: its own, or that of a coordinator before it
	covered   bool             // cover is over
	account   account
	enrolment enrolment
	known     knownMembers

	keys    keys
	away    []Absence        // in the order of their ids
	touched []*session       // with an outbox, in this step
	wake    protocol.Instant // no promise, and no absence, ends earlier

	resigning bool
	resignAt  protocol.Instant
}

// NewCoordinator returns a machine that waits for its Begin, or an error that says what is wrong with the
// configuration.
func NewCoordinator(cfg CoordinatorConfig) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return makeCoordinator(cfg), nil
}

func makeCoordinator(cfg CoordinatorConfig) *Coordinator {
	return &Coordinator{
		cfg: cfg, links: make(map[Conn]*link), processes: make(map[life]*process), lives: make(map[protocol.NodeID]int), slots: make([]*session, 1),
		wake: protocol.Never, resignAt: protocol.Never,
	}
}

// Step takes one input and appends its effects to fx.
func (c *Coordinator) Step(in *Input, fx *Effects) {
	if c.over && !c.cfg.Mutant.Has("keeps-earlier-tenure") {
		return
	}
	if in.Kind == Begin {
		c.begin(in, fx)
		return
	}
	if !c.begun || c.over {
		return
	}
	proven, reading := in.Proven, in.Now
	switch {
	case c.cfg.Mutant.Has("no-check"):
		proven = true
	case c.cfg.Mutant.Has("check-of-before"):
		proven, c.provenOnce = c.provenOnce, proven
	case c.cfg.Mutant.Has("clock-of-before"):
		reading, c.before = c.before, reading
	}
	if !proven {
		c.end(fx, Unproven, 0)
		return
	}
	now := reading.Boot
	if in.Now.Jumped(c.clock) && !c.cfg.Mutant.Has("jump-ignored-by-coordinator") {
		if !c.cfg.Unclocked {
			c.end(fx, Jumped, 0)
			return
		}
		c.jumped(in.Now)
		now = in.Now.Boot
	}
	c.take(in, now, fx)
	c.decide(now, fx)
	if !c.over {
		c.flush(fx)
	}
}

// begin is G7: the tenure was proven before Now was read.
func (c *Coordinator) begin(in *Input, fx *Effects) {
	if c.begun && !c.over {
		return
	}
	c.begun, c.over, c.resigning, c.resignAt = true, false, false, protocol.Never
	c.tenure, c.clock = in.Tenure, in.Now
	if mutant.Built {
		c.before, c.provenOnce = in.Now, in.Proven
	}
	c.begunAt = in.Now.Boot
	if c.wait = max(c.cfg.Cover, min(in.Cover, longest)); c.cfg.Mutant.Has("own-cover-only") {
		c.wait = c.cfg.Cover
	}
	cover := c.wait
	switch {
	case c.cfg.Mutant.Has("no-cover"):
		cover = 0
	case c.cfg.Mutant.Has("cover-a-tenth-short"):
		cover -= cover / 10
	case c.cfg.Mutant.Has("cover-three-tenths-short"):
		cover -= 3 * cover / 10
	}
	c.cover = in.Now.Boot.Add(cover)
	c.known.check = c.patience()
	if !in.Proven {
		c.end(fx, Unproven, 0)
	} else if in.Tenure == 0 || in.Tenure&protocol.MaxCount > protocol.MaxCount>>c.cfg.Bits {
		c.end(fx, TooGreat, 0)
	}
}

// end ends the tenure: nothing is decided any more.
func (c *Coordinator) end(fx *Effects, why string, aside time.Duration) {
	c.over = true
	fx.Resign, fx.Reason, fx.Aside = true, why, aside
	for _, s := range c.touched {
		s.assigns, s.revokes = nil, nil
	}
	c.touched = c.touched[:0]
}

// jumped extends all that is measured by the clock.
func (c *Coordinator) jumped(now protocol.Reading) {
	c.clock = now
	until := now.Boot.Add(c.longestPromise())
	for _, s := range c.sessions {
		s.promise = until
	}
	if !c.covered {
		c.cover = now.Boot.Add(c.wait)
	}
	c.wake = now.Boot
	c.known.heardAll(now.Boot)
	c.begunAt = now.Boot
	c.known.check = c.patience()
	if c.resigning {
		c.resignAt = now.Boot
	}
}

// longestPromise is what a report is promised: it may hold an older coordinator's promise.
func (c *Coordinator) longestPromise() time.Duration { return max(c.wait, c.cfg.Promise) }

// GivesWay is for how long a coordinator stands aside that gives way to members that do not fit (G14).
func (c *Coordinator) GivesWay() time.Duration { return 2 * c.longestPromise() }

// take handles what an input reports.
func (c *Coordinator) take(in *Input, now protocol.Instant, fx *Effects) {
	switch in.Kind {
	case Opened:
		c.links[in.Conn] = &link{from: in.From}
		fx.Sends = append(fx.Sends, Send{in.Conn, Message{Type: Greet, Tenure: c.tenure, Promise: c.cfg.Cover}})
	case Closed:
		if l := c.links[in.Conn]; l != nil {
			delete(c.links, in.Conn)
			if s := c.attached(l, in.Conn); s != nil {
				s.conn = 0
				fx.Members = true
				if c.cfg.Mutant.Has("closed-proves") {
					c.finish(s, fx)
				}
			}
		}
	case Receive:
		if l := c.links[in.Conn]; l != nil {
			c.receive(l, in, now, fx)
		}
	case Dead:
		c.dead(in.Session, fx)
	case Moves:
		for i := range in.Moves {
			c.move(&in.Moves[i], fx)
		}
	case Resign:
		if !c.resigning {
			c.resigning, c.resignAt = true, now.Add(2*c.cfg.Poll)
		}
	}
}

// attached returns the session whose latest attachment is that of a link, or nil.
func (c *Coordinator) attached(l *link, conn Conn) *session {
	if s := c.session(l.session); s != nil && s.conn == conn {
		return s
	}
	return nil
}

// receive takes a member's message. Beside a Report and a Goodbye only those of the latest attachment count.
func (c *Coordinator) receive(l *link, in *Input, now protocol.Instant, fx *Effects) {
	msg := &in.Message
	switch msg.Type {
	case Report:
		c.report(l, in.Conn, msg, now, fx)
		return
	case Goodbye:
		c.goodbye(l, in.Conn, msg, now, fx)
		return
	}
	s := c.attached(l, in.Conn)
	if s == nil && c.cfg.Mutant.Has("old-attachment-counts") {
		s = c.session(l.session)
	}
	if s == nil {
		c.tellOver(l, in.Conn, msg, fx)
		return
	}
	if msg.Number != s.number && !c.cfg.Mutant.Has("old-attachment-counts") {
		return
	}
	switch msg.Type {
	case Poll:
		c.polled(s, in.Conn, msg, now, fx)
	case Released:
		c.released(s, msg.Held, fx)
	case Ended:
		for i := range msg.Held {
			c.ended(s, &msg.Held[i], fx)
		}
	case Wish:
		if excess := c.excessOfWish(s, msg); excess != "" {
			c.refuse(in.Conn, fx, "%s", excess)
			return
		}
		var made rewants
		for i := range msg.Wants {
			c.want(s, &msg.Wants[i], &made, fx)
		}
		for _, k := range msg.Unwants {
			if i, ok := c.keys.find(k); ok && c.unwant(i, s, &made) {
				fx.Wanted = append(fx.Wanted, c.keys.all[i].key)
				c.tidy(i)
			}
		}
	case Tell:
		s.traits = msg.Traits
		fx.Members = true
	}
}

// tellOver answers a poll of a session that is over.
func (c *Coordinator) tellOver(l *link, conn Conn, msg *Message, fx *Effects) {
	if msg.Type != Poll || msg.Number != l.number || l.session == (Session{}) {
		return
	}
	if p := c.processes[lifeOf(l.session)]; p != nil && l.session.Epoch <= p.over {
		fx.Sends = append(fx.Sends, Send{conn, Message{Type: Over, Tenure: c.tenure, Number: l.number, Session: l.session}})
	}
}

// decide does what follows from the state and the time.
func (c *Coordinator) decide(now protocol.Instant, fx *Effects) {
	if c.over {
		return
	}
	if now >= c.wake {
		c.expire(now, fx)
	}
	if !c.covered && (now >= c.cover || c.accounted()) {
		c.covered = true
		c.enrolment.changed, c.enrolment.pass = true, true
	}
	if c.covered || c.cfg.Mutant.Has("admits-in-cover") {
		c.enrol(now, fx)
	}
	switch {
	case c.over:
	case now >= c.known.check && c.deserted(now):
		c.end(fx, Deserted, 2*c.cfg.Promise)
	case c.resigning && (c.acknowledged() || c.cfg.Mutant.Has("resigns-at-once")):
		c.flush(fx)
		c.end(fx, Resigned, 0)
	case c.resigning && now >= c.resignAt:
		c.flush(fx)
		c.end(fx, Unanswered, 0)
	}
}

// flush sends what was assigned and revoked in this step.
func (c *Coordinator) flush(fx *Effects) {
	for _, s := range c.touched {
		for _, m := range [...]Message{{Type: Revoke, Held: s.revokes}, {Type: Assign, Held: s.assigns}} {
			if len(m.Held) > 0 && s.conn != 0 {
				m.Tenure, m.Number = c.tenure, s.number
				fx.Sends = append(fx.Sends, Send{s.conn, m})
			}
		}
		s.assigns, s.revokes = nil, nil
	}
	c.touched = c.touched[:0]
}

// touch notes that a session has an outbox.
func (c *Coordinator) touch(s *session) {
	if len(s.assigns)+len(s.revokes) == 0 {
		c.touched = append(c.touched, s)
	}
}

// NextFire is when Step has to be called with a Fire, on the Boot clock, or Never.
func (c *Coordinator) NextFire() protocol.Instant {
	if !c.begun || c.over {
		return protocol.Never
	}
	next := min(c.wake, c.known.check, c.resignAt)
	if !c.covered {
		next = min(next, c.cover)
	}
	return next
}

// Standing is what a coordinator knows of a session.
type Standing struct {
	Session  Session          `json:"session"`
	Conn     Conn             `json:"conn,omitzero"`     // the latest attachment; 0 if it is closed
	Promise  protocol.Instant `json:"promise"`           // it is promised until then
	Admitted bool             `json:"admitted,omitzero"` // and it knows: it can be given keys
	Voucher  bool             `json:"voucher,omitzero"`
	Traits   Traits           `json:"traits,omitzero"`
	Keys     int              `json:"keys"` // that it holds
}

// Sessions appends the sessions that are not over, in the order of Compare.
func (c *Coordinator) Sessions(dst []Standing) []Standing {
	for _, s := range c.sessions {
		dst = append(dst, Standing{
			Session: s.id, Conn: s.conn, Promise: s.promise, Admitted: s.shown, Voucher: s.voucher, Traits: s.traits, Keys: s.keys,
		})
	}
	return dst
}

// Absence is a member that has said goodbye and that it will be back.
type Absence struct {
	Member protocol.NodeID  `json:"member"`
	Until  protocol.Instant `json:"until"` // the latest, on the Boot clock
}

// Away appends the members that are away, in the order of their ids. Until they are back, or it is too late, placement
// keeps their keys for them.
func (c *Coordinator) Away(dst []Absence) []Absence { return append(dst, c.away...) }

// Covered reports whether cover (G7) is over, so that free keys can be assigned.
func (c *Coordinator) Covered() bool { return c.covered && !c.over }

// find returns the place of a session among those that are not over, and whether it is there.
func (c *Coordinator) find(id Session) (int, bool) {
	return slices.BinarySearchFunc(c.sessions, id, func(s *session, id Session) int { return s.id.Compare(id) })
}
