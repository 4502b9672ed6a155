package group

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

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
				Changes: slices.Clone(b.fx.Changes), Wanted: slices.Clone(b.fx.Wanted), Members: b.fx.Members, Aside: b.fx.Aside, Reason: b.fx.Reason,
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
		p.judgeGiven(b, s.Conn, &s.Message)
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

// resigns gives a tenure up, and stands aside for a while.
func (p *process) resigns(c *coordinator, why string, aside time.Duration) {
	w := p.w
	if aside > 0 {
		p.node.aside = w.now + sim.Time(aside)
	}
	switch why {
	case machine.Deserted:
		w.saw(sawDeserted)
		w.stats.Deserted++
	case machine.Misfit:
		w.saw(sawGaveWay)
	}
	w.tell(p.node, "resigns: %s", why)
	w.e.end(c.tenure, "the coordinator resigned", w.e.r.Exp(3*time.Millisecond))
	if q := w.e.peers; q != nil {
		q.resign(c.tenure, aside)
	}
	if p.c == c {
		p.drop()
	}
}

// afterCoordinator does what follows a coordinator's step.
func (p *process) afterCoordinator(b batch) {
	w := p.w
	if b.resign {
		p.resigns(b.c, b.fx.Reason, b.fx.Aside)
		return
	}
	if p.c == b.c && b.c.planner != nil {
		b.c.planner.changed(b.fx)
	}
	changed := len(b.fx.Changes) > 0 || len(b.fx.Wanted) > 0 || b.fx.Members || w.now >= b.c.placed+sim.Time(100*time.Millisecond)
	if p.c == b.c && !b.c.placing && changed {
		b.c.placing, b.c.placed = true, w.now
		pace := 200 * time.Microsecond
		if len(w.nodes) > 20 {
			pace = 20 * time.Millisecond
		}
		w.in(pace+w.chance.Exp(200*time.Microsecond), func() {
			b.c.placing = false
			p.deliver(func() { p.place(b.c) })
		})
	}
}
