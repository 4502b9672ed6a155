package group

import (
	"slices"
	"time"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
)

// kill ends a node's process: its work lives on for a while, within its claim; then a witness may speak.
func (w *World) kill(n *node, f *Fault) {
	p := n.p
	if p == nil {
		return
	}
	n.p = nil
	w.trace(p, &trace.Event{Kind: trace.Down, Now: p.reading()})
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
			if q == nil || f.Part == 3 && w.net.Chance(0.4) { // not every candidate hears it
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
		if w.s.Placement { // its keys are kept for it
			t := p.traits()
			t.Back = back + 200*time.Millisecond
			p.step(machine.Input{Kind: machine.Choose, Traits: &t})
		}
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
