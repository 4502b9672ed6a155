package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// process is one life of a node's program: a member, and a coordinator while E has elected it.
type process struct {
	w        *World
	node     *node
	nonce    protocol.Nonce
	settings machine.Settings

	frozen  bool
	freezes int
	inbox   []func() // what has arrived while it stood still
	pending func()   // the rest of the effects in the middle of which it stands still
	trap    *Fault

	m        *machine.Member // nil: it is none
	view     *view
	works    []*work
	returned []machine.Held // of works that have returned, and the machine is not told yet
	wants    map[machine.Key]bool
	conns    map[int]*conn // by the index of the candidate's node
	leaving  bool
	left     bool // its goodbye was sent
	leftBy   sim.Time
	resigned bool // its coordinator was asked to resign
	misfit   bool
	c        *coordinator
	accepted []*conn
	words    []machine.Session // of witnesses
	armed    [2]sim.Time
	spins    int                  // Fires after which the next one was no later
	top      uint64               // the greatest T that a coordinator has greeted with
	was      *machine.Coordinator // of the tenure before
	earlier  protocol.Reading     // of the step before, for a careless driver
}

// view is one object of a driver: that of one epoch.
type view struct {
	machine.View
	p      *process
	lapsed bool // its claim was seen to have passed
}

// coordinator is a machine and its tenure.
type coordinator struct {
	*machine.Coordinator
	tenure   *tenure
	t0       protocol.Instant
	covered  bool
	proven   bool
	placing  bool
	reported []reported
}

// reported is what a session has said of overruns, as a coordinator has taken it in.
type reported struct {
	session  machine.Session
	overruns []machine.Held
}

func (p *process) isMember() bool { return p.node.Member }
func (p *process) alive() bool    { return p.node.p == p }

func (p *process) reading() protocol.Reading { return p.node.clock.Read(p.w.now) }

// deliver hands something in, once the process runs. What has arrived is handed in before a timer that has come due.
func (p *process) deliver(do func()) {
	switch {
	case !p.alive():
	case p.frozen:
		p.inbox = append(p.inbox, do)
	default:
		do()
	}
}

// start starts the node's next process.
func (w *World) start(n *node) {
	if n.p != nil || n.gone {
		return
	}
	w.lives++
	p := &process{w: w, node: n, nonce: protocol.Nonce{w.chance.Uint64(), w.lives}, settings: w.s.Settings[n.settings], conns: map[int]*conn{}, wants: map[machine.Key]bool{}}
	p.armed = [2]sim.Time{forever, forever}
	if n.misfit {
		n.misfit, p.misfit = false, true
		p.settings.Promise += 2 * p.settings.Cover
		p.settings.Cover = p.settings.Promise
	}
	n.p = p
	w.tell(n, "starts, process %04x", p.nonce[0]>>48)
	for _, m := range w.nodes {
		w.dial(m, n)
	}
	if !n.Member {
		return
	}
	cfg := machine.MemberConfig{Settings: p.settings, ID: n.ID}
	mutateMember(&cfg, w.s.Mutant)
	m, err := machine.NewMember(cfg)
	if err != nil {
		panic(err)
	}
	p.m = m
	p.step(machine.Input{Kind: machine.Start, Session: machine.Session{Member: n.ID, Process: p.nonce}})
	p.choose(w.chance.Chance(0.7))
	for _, c := range w.nodes {
		w.dial(n, c)
	}
}

// choose draws what the member wants: all keys, or some.
func (p *process) choose(all bool) {
	if p.m == nil || p.leaving {
		return
	}
	w := p.w
	var in machine.Input
	for _, k := range w.keys {
		want := all || w.chance.Chance(0.6)
		switch {
		case want:
			in.Wants = append(in.Wants, machine.Want{Key: k.name, Priority: w.chance.Below(3)})
			p.wants[k.name] = true
		case p.wants[k.name]:
			in.Unwants = append(in.Unwants, k.name)
			delete(p.wants, k.name)
		}
	}
	in.Kind = machine.Choose
	p.step(in)
}

// step steps the member and carries out its effects.
func (p *process) step(in machine.Input) {
	if p.m == nil || !p.alive() || p.w.over {
		return
	}
	w := p.w
	in.Now, in.Rand = p.now(), w.chance.Uint64()
	w.fx.Reset()
	p.m.Step(&in, &w.fx)
	w.digest(uint64(w.now), w.events, uint64(in.Kind), uint64(len(w.fx.Stops)), uint64(len(w.fx.Sends)), uint64(len(w.fx.Starts)))
	p.notice(&in)
	top := p.top
	if in.Kind == machine.Receive {
		switch in.Message.Type {
		case machine.Admit, machine.Enrol:
			w.judgeVouched()
		case machine.Greet:
			top = max(top, in.Message.Tenure)
		}
	}
	b := batch{fx: &w.fx, view: p.m.View(), now: in.Now, top: p.top}
	p.top = top
	p.carry(b, 0)
}

// now is a reading after the arrival of what is reported; a careless driver uses an older one.
func (p *process) now() protocol.Reading {
	now := p.reading()
	if p.w.s.Mutant == CarelessReading && p.earlier != (protocol.Reading{}) {
		now, p.earlier = p.earlier, now
		return now
	}
	p.earlier = now
	return now
}

// begin makes a machine for a tenure that was proven, and tells it of all connections.
func (p *process) begin(t *tenure) {
	if t.over {
		return
	}
	w := p.w
	cfg := machine.CoordinatorConfig{Settings: p.settings}
	mutateCoordinator(&cfg, w.s.Mutant)
	m, err := machine.NewCoordinator(cfg)
	if err != nil {
		panic(err)
	}
	if p.was != nil && w.s.Mutant == "keeps-earlier-tenure" {
		m = p.was
	}
	p.was = m
	c := &coordinator{Coordinator: m, tenure: t, t0: p.reading().Boot}
	p.c = c
	p.armed[1] = forever
	p.coordinate(c, machine.Input{Kind: machine.Begin, Tenure: t.count})
	for _, k := range slices.Clone(p.accepted) {
		if p.c == c {
			p.opened(k)
		}
	}
	for _, s := range slices.Clone(p.words) {
		p.coordinate(c, machine.Input{Kind: machine.Dead, Session: s})
	}
}

// opened tells the coordinator of a connection.
func (p *process) opened(k *conn) {
	k.c = p.c
	p.coordinate(p.c, machine.Input{Kind: machine.Opened, Conn: k.id, From: k.member.node.ID})
}

// coordinate steps the coordinator and carries out its effects. With E's Check not nil it is the last step.
func (p *process) coordinate(c *coordinator, in machine.Input) {
	if c == nil || p.c != c || !p.alive() || p.w.over {
		return
	}
	w := p.w
	in.Now, in.Rand = p.now(), w.chance.Uint64()
	proven := !c.tenure.over
	in.Proven = proven
	if w.s.Mutant == CarelessBegin && in.Kind == machine.Begin {
		in.Now.Boot, in.Now.Mono = in.Now.Boot.Add(-60*time.Millisecond), in.Now.Mono.Add(-60*time.Millisecond)
	}
	if w.s.Mutant == CarelessCheck {
		in.Proven, c.proven = c.proven || in.Kind == machine.Begin, proven
	}
	before := p.before(c, &in)
	w.fx.Reset()
	c.Step(&in, &w.fx)
	w.digest(uint64(w.now), w.events, uint64(in.Kind)<<8, uint64(len(w.fx.Sends)), uint64(len(w.fx.Changes)))
	p.noticeCoordinator(c, &in, before)
	p.carry(batch{fx: &w.fx, c: c, resign: w.fx.Resign, proven: proven}, 0)
	if !in.Proven && p.c == c {
		p.drop()
	}
}

// drop drops the state of a tenure.
func (p *process) drop() {
	p.c = nil
	p.armed[1] = forever
	for _, k := range slices.Clone(p.accepted) {
		if k.c = nil; !p.w.s.Reuse {
			p.w.closeEnd(k, down, false, 0)
		}
	}
}

// batch is what a step wants done.
type batch struct {
	fx     *machine.Effects
	view   machine.View
	now    protocol.Reading // of the step
	c      *coordinator     // nil: of the member
	top    uint64           // the greatest T that the member had seen before the step
	resign bool
	proven bool
	// It goes on after it stood still in the middle.
	resumed bool
}

// The parts of effects, in their order.
const (
	partStops = iota
	partView
	partSends
	partStarts
	partCloses
	parts
)

// carry carries effects out, from a part on. A trap is in the middle of them.
func (p *process) carry(b batch, from int) {
	w := p.w
	for part := from; part < parts; part++ {
		if f := p.trap; f != nil && part == f.Part && b.fits(part) {
			p.trap = nil
			if f.Kind == TrapCrash {
				w.tell(p.node, "dies in the middle of its effects, before part %d", part)
				w.kill(p.node, f)
				return
			}
			w.tell(p.node, "stands still in the middle of its effects, before part %d, for %v", part, f.For)
			rest := b
			rest.resumed = true
			rest.fx = &machine.Effects{
				Stops: slices.Clone(b.fx.Stops), Sends: slices.Clone(b.fx.Sends), Starts: slices.Clone(b.fx.Starts), Closes: slices.Clone(b.fx.Closes),
				Changes: slices.Clone(b.fx.Changes), Aside: b.fx.Aside, Reason: b.fx.Reason,
			}
			p.pending = func() { p.carry(rest, part) }
			w.freeze(p, f.For)
			return
		}
		p.part(b, part)
		if !p.alive() || w.over {
			return
		}
	}
	switch {
	case b.c != nil:
		p.afterCoordinator(b)
	case !b.resumed: // else a Fire that is due comes next
		p.judgeTold()
	}
	p.arm(memberRole)
	p.arm(coordinatorRole)
}

// fits reports whether there is something to be in the middle of.
func (b *batch) fits(part int) bool {
	switch part {
	case partStops:
		return len(b.fx.Stops) > 0
	case partStarts:
		return len(b.fx.Starts) > 0
	}
	return len(b.fx.Stops)+len(b.fx.Sends)+len(b.fx.Starts) > 0
}

func (p *process) part(b batch, part int) {
	w := p.w
	switch part {
	case partStops:
		for i := range b.fx.Stops {
			p.stop(&b.fx.Stops[i])
		}
	case partView:
		if b.c == nil {
			p.publish(&b.view, b.now)
		}
	case partSends:
		for i := range b.fx.Sends {
			p.send(b, &b.fx.Sends[i])
		}
	case partStarts:
		for i := range b.fx.Starts {
			p.startWork(&b.fx.Starts[i])
		}
	case partCloses:
		for _, id := range b.fx.Closes {
			if b.c != nil {
				if i := slices.IndexFunc(p.accepted, func(k *conn) bool { return k.id == id }); i >= 0 {
					w.closeEnd(p.accepted[i], down, false, 0)
				}
				continue
			}
			for _, n := range w.nodes {
				if k := p.conns[n.index]; k != nil && k.id == id {
					w.closeEnd(k, up, false, 0)
					w.dial(p.node, n)
				}
			}
		}
	}
}

// send sends one message of the effects.
func (p *process) send(b batch, s *machine.Send) {
	w := p.w
	if b.c != nil {
		p.judgeGiven(b, &s.Message)
		if i := slices.IndexFunc(p.accepted, func(k *conn) bool { return k.id == s.Conn }); i >= 0 {
			w.tellMessage(p.node, p.accepted[i].member.node, &s.Message)
			w.send(p.accepted[i], down, s.Message)
		}
		return
	}
	p.judgeSaid(b, &s.Message)
	if s.Message.Type == machine.Goodbye {
		p.left = true
	}
	for _, n := range w.nodes {
		if k := p.conns[n.index]; k != nil && k.id == s.Conn {
			w.tellMessage(p.node, n, &s.Message)
			w.send(k, up, s.Message)
		}
	}
}

// publish publishes the view of a step at now. Each epoch has an object of its own.
func (p *process) publish(v *machine.View, now protocol.Reading) {
	old := p.view
	if old != nil && old.Session == v.Session {
		if old.Claim > 0 && (!old.Proven(now) || v.Claim < 0) {
			old.lapsed = true
		}
		if old.lapsed && v.Proven(now) {
			p.w.fail(Revived, p.node, "the claim of %v had passed, and is live again until %v", v.Session, v.Claim)
		}
		longer := v.Claim > old.Claim
		old.View = *v
		if longer {
			p.judgeExtended(old)
		}
		return
	}
	if old != nil && p.w.s.Mutant == CarelessView {
		old.View = *v
		return
	}
	if old != nil {
		p.w.saw(sawNextEpoch)
		p.w.tell(p.node, "goes on as %v", v.Session)
	}
	p.view = &view{View: *v, p: p}
}

// afterCoordinator does what follows a coordinator's step.
func (p *process) afterCoordinator(b batch) {
	w := p.w
	if b.resign {
		if b.fx.Aside > 0 {
			p.node.aside = w.now + sim.Time(b.fx.Aside)
			w.saw(sawDeserted)
			w.stats.Deserted++
		}
		w.tell(p.node, "resigns: %s", b.fx.Reason)
		w.e.end(b.c.tenure, "the coordinator resigned", w.e.r.Exp(3*time.Millisecond))
		if p.c == b.c {
			p.drop()
		}
		return
	}
	if p.c == b.c && !b.c.placing {
		b.c.placing = true
		w.in(200*time.Microsecond+w.chance.Exp(200*time.Microsecond), func() {
			b.c.placing = false
			p.deliver(func() { p.place(b.c) })
		})
	}
}

// The roles of a process, which have a timer each.
const (
	memberRole = iota
	coordinatorRole
)

func (p *process) nextFire(role int) protocol.Instant {
	switch {
	case role == memberRole && p.m != nil:
		return p.m.NextFire()
	case role == coordinatorRole && p.c != nil:
		return p.c.NextFire()
	}
	return protocol.Never
}

// arm arranges for a Fire. A timer that is too early looks again.
func (p *process) arm(role int) {
	i := p.nextFire(role)
	if i == protocol.Never || p.w.over {
		return
	}
	at := max(p.node.clock.When(i, p.w.now), p.w.now)
	if p.armed[role] <= at || at >= forever {
		return
	}
	p.armed[role] = at
	p.w.at(at, func() {
		if p.armed[role] == at {
			p.armed[role] = forever
			p.fire(role)
		}
	})
}

// fire hands a Fire in if one is due.
func (p *process) fire(role int) {
	if !p.alive() || p.frozen { // thaw arms again
		return
	}
	i := p.nextFire(role)
	if i == protocol.Never {
		return
	}
	if i > p.reading().Boot {
		p.arm(role)
		return
	}
	in := machine.Input{Kind: machine.Fire}
	if role == memberRole {
		p.step(in)
	} else {
		p.coordinate(p.c, in)
	}
	if p.alive() && !p.frozen && p.nextFire(role) <= i {
		if p.spins++; p.spins > 100 && !p.w.over {
			p.w.fail(Spins, p.node, "after a Fire the next one is at %v still; it is %v", p.nextFire(role), p.reading().Boot)
		}
	} else {
		p.spins = 0
	}
}

// freeze makes a process stand still. E's lease may pass meanwhile.
func (w *World) freeze(p *process, d time.Duration) {
	if !p.alive() {
		return
	}
	p.frozen = true
	p.freezes++
	n := p.freezes
	w.in(d, func() {
		if p.freezes == n {
			w.thaw(p)
		}
	})
	if t := w.e.tenure; t != nil && t.p == p {
		w.in(w.e.r.Between(100*time.Millisecond, 400*time.Millisecond), func() {
			if p.frozen && p.freezes == n {
				w.e.end(t, "the coordinator stands still", w.e.gap())
			}
		})
	}
}

// thaw lets it run again.
func (w *World) thaw(p *process) {
	if !p.frozen || !p.alive() {
		return
	}
	p.frozen = false
	if p.node.asleep {
		p.node.asleep = false
	}
	w.tell(p.node, "runs again")
	if p.view != nil && p.view.Claim > 0 && !p.view.Proven(p.reading()) {
		w.saw(sawFrozenPastClaim)
	}
	if do := p.pending; do != nil {
		p.pending = nil
		do()
	}
	for len(p.inbox) > 0 && !p.frozen && p.alive() && !w.over {
		do := p.inbox[0]
		p.inbox = p.inbox[1:]
		do()
	}
	if p.alive() && !p.frozen {
		p.arm(memberRole)
		p.arm(coordinatorRole)
	}
}

// kill ends a node's process: its work lives on for a while, within its claim; then a witness may speak.
func (w *World) kill(n *node, f *Fault) {
	p := n.p
	if p == nil {
		return
	}
	n.p = nil
	gap := w.e.gap()
	if t := w.e.tenure; t != nil && t.p == p {
		if f.Witness {
			gap = w.e.r.Exp(5 * time.Millisecond)
		}
		w.e.end(t, "the coordinator died", gap)
	}
	dead := w.now
	for _, k := range slices.Clone(p.works) {
		dies := w.now + sim.Time(f.Linger)
		if k.view.Claim > 0 {
			dies = min(dies, max(n.clock.When(k.view.Claim, w.now), w.now))
		}
		dead = max(dead, dies)
		w.at(dies, func() { w.ended(k) })
	}
	for _, o := range w.nodes {
		if k := p.conns[o.index]; k != nil {
			w.hangUp(k, up, f)
		}
	}
	for _, k := range slices.Clone(p.accepted) {
		w.hangUp(k, down, f)
	}
	if !f.Witness || p.m == nil {
		return
	}
	if w.s.Mutant == CarelessWitness {
		dead = w.now
	}
	session := machine.Session{Member: n.ID, Process: p.nonce}
	w.at(dead+sim.Time(f.Late), func() {
		w.tell(n, "its witness says that process %04x is dead", p.nonce[0]>>48)
		for _, o := range w.nodes {
			q := o.p
			if q == nil || w.net.Chance(0.1) {
				continue
			}
			w.in(w.delay(n, o), func() {
				q.deliver(func() {
					if n.p != nil {
						w.saw(sawLateWitness)
					}
					q.words = append(q.words, session)
					q.coordinate(q.c, machine.Input{Kind: machine.Dead, Session: session})
				})
			})
		}
	})
}

// hangUp closes an end of a connection because its process is gone: the kernel says so at once, or nobody does for long.
func (w *World) hangUp(k *conn, dir int, f *Fault) {
	late := time.Duration(0)
	if f.Part%2 == 1 {
		late = w.net.Between(0, 2*w.s.Settings[0].Promise)
	}
	w.closeEnd(k, dir, f.Part >= 2, late)
}

// leave makes a process leave in good order: goodbye, then, for a coordinator, resignation, then exit.
func (w *World) leave(n *node, back time.Duration) {
	p := n.p
	if p == nil || p.leaving {
		return
	}
	p.leaving, p.leftBy = true, w.now+sim.Time(300*time.Millisecond)
	w.tell(n, "leaves, and is back after %v", back)
	p.deliver(func() {
		p.step(machine.Input{Kind: machine.Leave})
	})
	w.in(400*time.Millisecond, func() {
		if p.alive() {
			w.kill(n, &Fault{})
			w.in(back, func() { w.start(n) })
		}
	})
	w.wake(p, back)
}

// wake looks whether a process that leaves is ready to exit.
func (w *World) wake(p *process, back time.Duration) {
	w.in(2*time.Millisecond, func() {
		switch {
		case !p.alive():
			return
		case p.m != nil && !p.left || len(p.works) > 0 || p.frozen:
		case p.c != nil && !p.resigned && p.known() && w.now < p.leftBy: // its goodbye is under way
		case p.c != nil && !p.resigned:
			p.resigned = true
			p.coordinate(p.c, machine.Input{Kind: machine.Resign})
		case p.c != nil:
		default:
			w.tell(p.node, "exits")
			w.saw(sawGoodbye)
			n := p.node
			w.kill(n, &Fault{})
			w.in(back, func() { w.start(n) })
			return
		}
		w.wake(p, back)
	})
}

// known reports whether the process's own coordinator still has a session of its member.
func (p *process) known() bool {
	return slices.ContainsFunc(p.c.Sessions(nil), func(s machine.Standing) bool { return s.Session.Process == p.nonce })
}

// tellMessage writes a message into the story.
func (w *World) tellMessage(from, to *node, m *machine.Message) {
	if w.out == nil && w.watch == nil {
		return
	}
	text := fmt.Sprintf("> %s %s number %d T %d", to.ID, m.Type, m.Number, m.Tenure)
	if m.Seq != 0 {
		text += fmt.Sprintf(" seq %d", m.Seq)
	}
	if m.Session != (machine.Session{}) {
		text += fmt.Sprintf(" of %v", m.Session)
	}
	if m.Admitted {
		text += " admitted"
	}
	if m.Acked != 0 {
		text += fmt.Sprintf(" acked %d", m.Acked)
	}
	if m.Registry != nil {
		text += fmt.Sprintf(" registry %d.%d %v", m.Registry.Tenure, m.Registry.Version, m.Registry.Sessions)
	}
	for _, h := range m.Held {
		text += fmt.Sprintf(" %s(%v)", h.Key, h.Token)
	}
	for _, h := range m.Overruns {
		text += fmt.Sprintf(" overrun %s(%v)", h.Key, h.Token)
	}
	if m.Text != "" {
		text += " " + m.Text
	}
	w.tell(from, "%s", text)
}
