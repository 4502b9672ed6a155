package group

import (
	"fmt"
	"slices"
	"time"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim"
)

// fault lets a fault begin.
func (w *World) fault(f *Fault) {
	n, to := w.nodeOf(f.Node), w.nodes[f.To%len(w.s.Nodes)]
	if n == nil {
		return
	}
	if n.p == nil {
		switch f.Kind {
		case Rollout, Standing, Rolling, Overlap, Desert, Lapse, Resign, Move, Wild, Misfit, Halt, Gone:
		default:
			return
		}
	}
	w.tell(n, "fault: %s for %v", f.Kind, f.For)
	w.trace(nil, &trace.Event{Kind: trace.Fault, Says: fmt.Sprintf("%s at %s for %v", f.Kind, n.ID, f.For)})
	until := w.now + sim.Time(f.For)
	switch f.Kind {
	case Pause:
		w.freeze(n.p, f.For)
	case Trap, TrapCrash:
		n.p.trap = f
	case Crash:
		w.crash(n, f)
	case Both:
		if t := w.e.tenure; t != nil {
			if t.p.node == n { // another one beside it
				n = w.nodes[(n.index+1)%len(w.nodes)]
			}
			w.crash(t.p.node, f)
			w.crash(n, f)
		}
	case Break:
		if k := n.p.conns[to.index]; k != nil {
			w.sever(k)
		}
	case Cut:
		w.cut(n, to, until)
	case Isolate:
		for _, o := range w.nodes {
			w.cut(n, o, until)
			w.cut(o, n, until)
		}
	case Stall:
		if k := w.connected(n, to); k != nil {
			for dir := range 2 {
				if f.Part%3 != dir {
					k.stall[dir] = max(k.stall[dir], until)
				}
			}
			if f.Witness { // the member gives it up, and what it has sent arrives late
				w.in(f.Linger, func() { w.learn(k, up) })
			}
		}
	case Fade:
		if k := w.connected(n, to); k != nil {
			k.lost[up] = w.now + sim.Time(f.Late)
			k.stall[down] = w.now + sim.Time(f.Linger)
			w.in(f.For, func() { w.sever(k) })
		}
	case Orphan:
		if t := w.e.tenure; t != nil && t.p.node != n {
			alone := func() {
				for _, o := range w.nodes {
					w.cut(n, o, until)
					w.cut(o, n, until)
				}
			}
			if f.Part%2 == 0 {
				alone()
				w.in(f.Late, func() { w.e.end(t, "E's lease has lapsed", 0) })
			} else { // it may have reported to the next one
				w.e.end(t, "E's lease has lapsed", 0)
				w.in(10*time.Millisecond+f.Late, alone)
			}
		}
	case Lapse:
		if t := w.e.tenure; t != nil {
			w.e.end(t, "E's lease has lapsed", w.e.gap())
		}
	case Resign:
		if t := w.e.tenure; t != nil {
			t.p.deliver(func() { t.p.coordinate(t.p.c, machine.Input{Kind: machine.Resign}) })
		}
	case Slow:
		n.slow, n.linger = until, f.Linger
	case Move, Wild:
		if t := w.e.tenure; t != nil {
			t.p.deliver(func() { t.p.shuffle(t.p.c, f.Kind == Wild) })
		}
	case GiveUp:
		if p := n.p; len(p.works) > 0 {
			x := p.works[w.wait.Below(len(p.works))]
			p.deliver(func() { w.returned(x) })
		}
	case Choose:
		p := n.p
		p.deliver(func() { p.choose(f.Part == 0) })
	case Drain:
		w.drain(n.p, true)
		p := n.p
		w.in(f.For, func() { w.drain(p, false) })
	case Gone:
		n.gone = true
		w.kill(n, f)
	case Leave:
		w.leave(n, f.For)
	case Rolling:
		for i, o := range w.nodes[:len(w.s.Nodes)] {
			w.in(time.Duration(i)*f.For, func() { w.leave(o, 5*time.Millisecond) })
		}
	case Twin:
		if !n.twin && n.Member {
			twin := n.Node
			twin.Candidate, twin.Rate = false, f.Rate
			t := w.addNode(twin)
			t.twin = true
			w.start(t)
			w.saw(sawTwin)
			w.in(f.For, func() { w.kill(t, f); t.gone = true })
		}
	case Standing:
		n.Candidate = !n.Candidate
		if t := w.e.tenure; t != nil && t.p.node == n && !n.Candidate {
			w.e.end(t, "it is no candidate any more", w.e.gap())
		}
	case Rate:
		n.clock.Run(w.now, f.Rate)
		w.rearm(n)
	case Suspend:
		w.suspend(n, f.For)
	case Halt:
		w.halt(f)
	case Jump:
		n.clock.Step(w.now, f.For, false)
		w.saw(sawJump)
		w.rearm(n)
	case Overlap:
		w.e.overlap(f.For)
	case Desert:
		w.desert(n)
	case Rollout:
		w.rollout(f)
	case Misfit:
		w.misfit(n, f)
	}
}

// connected is the connection of the member at n: often that to the coordinator, or to the candidate at c.
func (w *World) connected(n, c *node) *conn {
	if t := w.e.tenure; t != nil && w.net.Chance(0.7) {
		c = t.p.node
	}
	return n.p.conns[c.index]
}

// crash kills a node's process, which is back after a while.
func (w *World) crash(n *node, f *Fault) {
	w.tell(n, "dies; a witness will speak: %v", f.Witness)
	w.kill(n, f)
	w.in(f.For+time.Millisecond, func() { w.start(n) })
}

// rearm arranges for timers anew after a change of the clock. Its claims are judged anew, too.
func (w *World) rearm(n *node) {
	p := n.p
	if p == nil {
		return
	}
	p.armed = [2]sim.Time{forever, forever}
	if !p.frozen {
		p.arm(memberRole)
		p.arm(coordinatorRole)
	}
	for _, x := range p.works {
		w.judgeKey(x.key)
	}
}

// suspend lets a machine sleep: its process stands still, and one of its clocks.
func (w *World) suspend(n *node, d time.Duration) {
	p := n.p
	started := n.clock.Read(w.now)
	w.saw(sawSuspend)
	defer w.freeze(p, d) // it thaws after the clock shows it
	w.in(d, func() {
		slept := n.clock.Read(w.now).Boot.Sub(started.Boot)
		n.clock.Sleep(w.now, slept)
		w.rearm(n)
	})
}

// haltSpread is how far apart the processes of a halt stop, and how far apart they go on.
const haltSpread = 50 * time.Millisecond

// halt stops all processes, or lets all machines sleep. They go on in any order.
func (w *World) halt(f *Fault) {
	w.saw(sawHalt)
	for _, n := range w.nodes {
		w.in(w.wait.Between(0, haltSpread), func() {
			switch d := f.For + w.wait.Between(0, haltSpread); {
			case n.p == nil || n.p.frozen && n.asleep:
			case f.Part%2 == 1:
				w.suspend(n, d)
			default:
				w.freeze(n.p, d)
			}
		})
	}
}

// drain asks for a member to be emptied, or to be filled again.
func (w *World) drain(p *process, on bool) {
	if p == nil {
		return
	}
	p.deliver(func() {
		if p.m != nil && !p.leaving {
			p.draining = on
			t := p.traits()
			p.step(machine.Input{Kind: machine.Choose, Traits: &t})
		}
	})
}

// desert cuts the coordinator's node off from most of the members, for ever, if all are there. A coordinator that has
// never heard of them cannot know that it lacks them.
func (w *World) desert(n *node) {
	members := 0
	for _, o := range w.nodes {
		if o.Member && !o.twin {
			members++
		}
	}
	others, away := 0, 0
	for _, o := range w.nodes {
		if o != n && o.Candidate && !o.gone {
			others++
		}
		if o != n && o.Member && !o.twin {
			away++
		}
	}
	left := members/2 + 1
	if others == 0 || away < left || !n.Candidate || n.p == nil || n.p.c == nil || !w.complete(n.p.c) {
		return
	}
	w.saw(sawCutForEver)
	for _, o := range w.nodes {
		if o != n && o.Member && !o.twin && left > 0 {
			w.cut(o, n, forever)
			left--
		}
	}
}

// complete reports whether every member runs and is attached to a coordinator.
func (w *World) complete(c *coordinator) bool {
	all := c.Sessions(nil)
	for _, n := range w.nodes {
		if !n.Member || n.gone && n.p == nil {
			continue
		}
		if n.p == nil || n.p.leaving || n.p.view == nil {
			return false
		}
		if s := standing(all, n.p.view.Session); s == nil || s.Conn == 0 {
			return false
		}
	}
	return true
}

// rollout gives the processes new settings, one after the other.
func (w *World) rollout(f *Fault) {
	for i, n := range w.nodes[:len(w.s.Nodes)] {
		w.in(time.Duration(i)*f.For, func() {
			n.settings = f.Part
			w.tell(n, "gets settings %d", f.Part)
			w.leave(n, 5*time.Millisecond)
		})
	}
}

// unfit is how a process does not fit into the group.
type unfit int

const (
	longer  unfit = iota // its promise is longer than the cover of the others
	shorter              // its cover is shorter than their promise
	foreign              // its keys, or something else that a coordinator sees first, are others
	unfitKinds
	fitting unfit = -1
)

// misfit restarts a node with settings that no coordinator may take, for a while. There is one at a time.
func (w *World) misfit(n *node, f *Fault) {
	if !n.Member || n.twin || slices.ContainsFunc(w.nodes, func(o *node) bool { return o.unfit != fitting || o.p != nil && o.p.unfit != fitting }) {
		return
	}
	w.kill(n, f)
	n.unfit = unfit(f.Part)
	w.in(time.Millisecond, func() { w.start(n) })
	w.in(f.For, func() {
		if p := n.p; p != nil && p.unfit != fitting {
			w.kill(n, f)
			w.in(time.Millisecond, func() { w.start(n) })
		}
	})
}

// unfits gives a process settings that do not fit. One with a short cover has seen who coordinates: no rule protects
// from it otherwise.
func (p *process) unfits(how unfit) {
	s := &p.settings
	switch {
	case how == longer:
		s.Promise += 2 * s.Cover
		s.Cover = s.Promise
	case how == shorter && p.w.e.tenure != nil:
		s.Promise, s.Poll, s.Drain = 200*time.Millisecond, 40*time.Millisecond, 5*time.Millisecond
		s.Cover = s.Promise
	case how != foreign:
		return
	}
	p.unfit = how
	p.w.saw(sawMisfit)
	p.w.tell(p.node, "does not fit: %d", how)
}

// meet is the beginning of a connection of a member with a process of other keys. It reports whether they fit.
func (w *World) meet(p, q *process) bool {
	if (p.unfit == foreign) == (q.unfit == foreign) {
		return true
	}
	again := func() {
		w.in(w.net.Between(50*time.Millisecond, 150*time.Millisecond), func() { w.dial(p.node, q.node) })
	}
	has := p.hasKeys()
	q.deliver(func() {
		c := q.c
		switch {
		case c == nil:
		case has && !c.Covered() && w.s.Mutant != "misfit-goes-on":
			w.tell(q.node, "gives way to %s", p.node.ID)
			q.resigns(c, machine.Misfit, 2*q.settings.Cover)
		default:
			q.judgeRefused(p)
			w.in(w.delay(p.node, q.node), func() {
				p.deliver(func() {
					p.step(machine.Input{Kind: machine.Receive, Message: machine.Message{Type: machine.Refuse, Tenure: c.tenure.count, Misfit: true}})
				})
			})
		}
		again()
	})
	return false
}

// hasKeys reports whether the member may have keys.
func (p *process) hasKeys() bool {
	return p.view != nil && p.view.Admitted && p.view.Proven(p.reading())
}
