package group

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
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
	draining bool
	leaving  bool
	left     bool // its goodbye was sent
	leftBy   sim.Time
	resigned bool // its coordinator was asked to resign
	unfit    unfit
	led      uint64   // the greatest T that E has shown
	refused  sim.Time // when the coordinator of that has refused its settings
	c        *coordinator
	term     *tenure // of E's participant, among peers
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
	placed   sim.Time // when placement was last asked for
	planner  *planner // nil: placement is by chance
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
	p := &process{w: w, node: n, nonce: protocol.Nonce{w.chance.Uint64(), w.lives}, settings: w.s.Settings[n.settings], unfit: fitting, conns: map[int]*conn{}, wants: map[machine.Key]bool{}}
	p.armed = [2]sim.Time{forever, forever}
	p.unfits(n.unfit)
	n.unfit = fitting
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
	w.e.show(p)
	p.choose(w.chance.Chance(0.7))
	for _, c := range w.nodes {
		w.dial(n, c)
	}
}

// traits are what placement is told of the member.
func (p *process) traits() machine.Traits {
	return machine.Traits{Weight: p.node.Weight, Zone: p.node.Zone, Draining: p.draining}
}

// choose draws what the member wants: all keys, or some.
func (p *process) choose(all bool) {
	if p.m == nil || p.leaving {
		return
	}
	w := p.w
	var in machine.Input
	for i, k := range w.keys {
		want := all || w.chance.Chance(0.6)
		switch own := w.s.Own; {
		case own < 0:
			want = true
		case own > 0:
			want = (i/own+1)%len(w.nodes) == p.node.index || i/own == p.node.index
		}
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
	if t := p.traits(); t != (machine.Traits{}) {
		in.Traits = &t
	}
	p.step(in)
}

// step steps the member and carries out its effects.
func (p *process) step(in machine.Input) {
	if p.m == nil || !p.alive() || p.w.over {
		return
	}
	w := p.w
	if in.Now = p.now(); in.Kind != machine.Led { // what else is drawn does not depend on who sees E
		in.Rand = w.chance.Uint64()
	}
	w.fx.Reset()
	p.m.Step(&in, &w.fx)
	p.traceTurn(nil, &in, &w.fx)
	w.digest(uint64(w.now), w.events, uint64(in.Kind), uint64(len(w.fx.Stops)), uint64(len(w.fx.Sends)), uint64(len(w.fx.Starts)))
	p.notice(&in)
	if t := w.e.tenure; t != nil && t.p == p && !p.stands() {
		w.e.end(t, "it does not stand any more", w.e.gap())
	}
	if in.Kind == machine.Receive && in.Message.Misfit && in.Message.Tenure == p.led {
		p.refused = w.now
	}
	if in.Kind == machine.Led {
		p.led = max(p.led, in.Tenure)
	}
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
	if !t.proven() {
		if t.peers != nil {
			t.peers.resign(t, 0)
		}
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
	if w.s.Placement {
		c.planner = newPlanner(w)
	}
	p.c = c
	p.armed[1] = forever
	in := machine.Input{Kind: machine.Begin, Tenure: t.count}
	if p.m != nil {
		in.Cover = p.m.Cover()
	}
	p.coordinate(c, in)
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
	proven := c.tenure.proven()
	in.Proven = proven
	if w.s.Mutant == CarelessLease && c.tenure.peers != nil {
		in.Proven = c.tenure.peers.leads(c.tenure)
	}
	if w.s.Mutant == CarelessBegin && in.Kind == machine.Begin {
		in.Now.Boot, in.Now.Mono = in.Now.Boot.Add(-60*time.Millisecond), in.Now.Mono.Add(-60*time.Millisecond)
	}
	if w.s.Mutant == CarelessCheck {
		in.Proven, c.proven = c.proven || in.Kind == machine.Begin, proven
	}
	before := p.before(c, &in)
	w.fx.Reset()
	c.Step(&in, &w.fx)
	p.traceTurn(c, &in, &w.fx)
	if w.stepped != nil {
		w.stepped(p, c, &in, &w.fx)
	}
	w.stats.Steps++
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
	w.still(p)
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

// still makes a process stand still until it is thawed.
func (w *World) still(p *process) {
	p.frozen = true
	w.trace(p, &trace.Event{Kind: trace.Freeze, Now: p.reading()})
	p.freezes++
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
	w.trace(p, &trace.Event{Kind: trace.Thaw, Now: p.reading()})
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
