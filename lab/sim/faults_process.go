package sim

import (
	"math"
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

func (w *World) beginProcess(n *node, op *Op, st *opState) {
	if !n.up {
		return
	}
	switch op.Kind {
	case OpKill:
		w.killFor(n, byKill, op.For)
	case OpPowerLoss:
		w.powerOff(n, byPowerLoss, op.For)
	case OpWitness:
		incarnation, self := n.incarnation, n.self
		w.killFor(n, byKill, op.For)
		w.witness(n, self, incarnation)
	case OpPause:
		w.freeze(n, op.For)
	case OpPauseSend:
		n.pauseSend = op.For
	case OpPauseWork:
		n.pauseWork = op.For
	case OpSuspend:
		if machines := w.machines(n); !slices.ContainsFunc(machines, w.unseen) {
			for _, m := range machines {
				w.suspend(m, op.For)
			}
		}
	case OpWipe:
		w.killFor(n, byKill, max(op.For, 1))
		w.wipe(n)
	case OpTwin:
		w.startTwin(n, w.nodes[st.twin])
	}
}

// killFor ends n's process and starts it again after d; 0 is never.
func (w *World) killFor(n *node, how death, d time.Duration) {
	w.die(n, how)
	if d > 0 {
		w.in(d, event{kind: evBoot, node: int32(n.index), life: n.life})
	}
}

// powerOff is killFor for the whole computer. A twin does not start again.
func (w *World) powerOff(n *node, how death, d time.Duration) {
	for _, m := range w.machines(n)[1:] {
		if m.up {
			w.die(m, how)
		}
	}
	w.killFor(n, how, d)
}

var deaths = [...]string{byKill: "killed", byPowerLoss: "power loss", byLostWrites: "power loss, writes lost"}

// die ends n's process, now.
func (w *World) die(n *node, how death) {
	w.tell(n, RecordDeath, deaths[how])
	n.up, n.frozen = false, false
	if n.clock.asleep {
		n.clock.settle(w.now)
		n.clock.asleep = false
	}
	if how == byKill && w.schedule.Work.Outlives {
		w.oracle.outlives(w, n)
	}
	w.oracle.died(w, n)
	if w.store != nil {
		w.store.died(w, n)
	}
	if how == byKill {
		w.hangUp(n)
	}
	for _, h := range n.held {
		w.waiting.put(h.ref)
	}
	for _, e := range n.inbox {
		w.discard(e)
	}
	n.held, n.inbox = n.held[:0], n.inbox[:0]
	n.disk.cut(how)
	n.machine, n.view, n.stash = nil, protocol.View{}, nil
	n.due, n.timer, n.pauseSend, n.pauseWork, n.incarnation = never, never, 0, 0, 0
}

// discard frees the data of an event that will not happen.
func (w *World) discard(e event) {
	switch e.kind {
	case evDeliver, evClosed:
		w.flights.put(e.ref)
	case evReply, evCommand:
		w.delayed.put(e.ref)
	}
}

// witness makes n's keeper, which has outlived it, tell all others.
func (w *World) witness(n *node, self protocol.Voter, incarnation uint64) {
	w.oracle.workDied(n)
	if w.protocol.Death == nil || incarnation == 0 {
		return
	}
	m := w.protocol.Death(self, incarnation)
	for _, to := range w.nodes[:w.width] {
		if to.base != n.base {
			w.depart(n, to, &m, w.cause)
		}
	}
}

// freeze stops n's process for at least d from now.
func (w *World) freeze(n *node, d time.Duration) {
	if !n.up || d <= 0 {
		return
	}
	if !n.frozen {
		n.frozen = true
		w.tell(n, RecordFreeze, "")
		w.oracle.froze(w, n)
	}
	n.frozeT = max(n.frozeT, w.now+Time(d))
	w.in(time.Duration(n.frozeT-w.now), event{kind: evThaw, node: int32(n.index), life: n.life})
}

// pauseInWork is called after the check of n's work and before its write.
func (w *World) pauseInWork(n *node) {
	d := n.pauseWork
	n.pauseWork = 0
	w.freeze(n, d)
}

// thaw resumes n's process. It first finishes what it was about to do, then receives what has
// arrived, and then looks at its timer.
func (w *World) thaw(n *node) {
	n.frozen, n.frozeT = false, 0
	w.tell(n, RecordThaw, "")
	w.oracle.thawed(w, n)
	if fx := n.stash; fx != nil {
		n.stash = nil
		thaw := w.cause
		w.busy, w.cause = true, n.stashOf
		w.carry(n, fx)
		w.busy, w.cause = false, thaw
	}
	for _, e := range n.inbox {
		w.again(e)
	}
	n.inbox = n.inbox[:0]
	w.arm(n)
}

// suspend puts n's computer to sleep for d.
func (w *World) suspend(n *node, d time.Duration) {
	if d <= 0 {
		return
	}
	n.sleepT = max(n.sleepT, w.now+Time(d))
	w.in(time.Duration(n.sleepT-w.now), event{kind: evWake, node: int32(n.index)})
	w.freeze(n, d)
	if !n.clock.asleep {
		w.setClock(n, func(c *clock) { c.asleep = true })
	}
}

// wake ends the sleep of n's computer. Another event thaws its process.
func (w *World) wake(n *node) {
	if n.clock.asleep {
		w.setClock(n, func(c *clock) { c.asleep = false })
	}
}

// wipe empties n's disk. The disk belongs to another voter from now on.
func (w *World) wipe(n *node) {
	n.wipes++
	n.position = 0
	n.self.Dir = w.dir(n.base, n.wipes)
	n.disk.slots, n.disk.number = [2]slot{}, 0
}

// startTwin starts a second process with n's identity and a copy of its disk, on
// the same machine.
func (w *World) startTwin(n, twin *node) {
	if twin.up {
		return
	}
	twin.self, twin.wipes, twin.clock = n.self, n.wipes, n.clock
	twin.spare, twin.membership, twin.position = n.spare, n.membership, n.position
	twin.disk.slots, twin.disk.number = n.disk.slots, n.disk.number
	w.boot(twin)
}

// beginClock begins an operation that changes a clock.
func (w *World) beginClock(n *node, op *Op) {
	switch op.Kind {
	case OpRate:
		rate := int64(math.Round(op.Value))
		for _, m := range w.machines(n) {
			w.setClock(m, func(c *clock) { c.rate = rate })
		}
	case OpStep:
		w.jump(n, op.By)
	case OpReboot:
		if !n.up {
			return
		}
		w.powerOff(n, byPowerLoss, max(op.For, 1))
		n.clock = clock{at: w.now, rate: n.clock.rate}
	}
}

// machines are n and its twin: they have one clock.
func (w *World) machines(n *node) []*node {
	all := []*node{n}
	for _, t := range w.nodes[w.width:] {
		if t.base == n.index {
			all = append(all, t)
		}
	}
	return all
}

// strobe makes n's boot clock jump by By, or back.
func (w *World) strobe(n *node, op *Op, to bool) {
	by := op.By
	if !to {
		by = -by
	}
	w.jump(n, by)
}

// jump sets n's boot clock forwards or back, unless that might undo a jump, or a sleep, that a
// process of n has not been able to notice: two clocks cannot show what cancels out, so that is
// beyond the model.
func (w *World) jump(n *node, by time.Duration) {
	machines := w.machines(n)
	for _, m := range machines {
		if m.clock.asleep || w.unseen(m) {
			return
		}
	}
	for _, m := range machines {
		w.setClock(m, func(c *clock) { c.boot = c.boot.Add(by) })
	}
}

// unseen reports whether a clock of n's has jumped since n's machine last read it.
func (w *World) unseen(n *node) bool { return n.up && w.reading(n).Jumped(n.read) }

// tame makes the clocks of the core keep the assumption.
func (w *World) tame() {
	if w.protocol.Drift == nil {
		return
	}
	drift, err := w.protocol.Drift(w.schedule.Config)
	if err != nil {
		return
	}
	for _, n := range w.nodes {
		if rate := min(max(n.clock.rate, -drift.PPM), drift.PPM); w.mended(n) && rate != n.clock.rate {
			w.setClock(n, func(c *clock) { c.rate = rate })
		}
	}
}

// beginDisk begins an operation on disks.
func (w *World) beginDisk(n *node, op *Op, st *opState) {
	d := &n.disk
	switch op.Kind {
	case OpLoseWrites:
		if n.up {
			w.powerOff(n, byLostWrites, max(op.For, 1))
		}
	case OpRestore:
		if n.up && st.snapshot != nil {
			w.killFor(n, byPowerLoss, max(op.For, 1))
			d.slots = *st.snapshot
			d.number = max(d.slots[0].number, d.slots[1].number)
		}
	case OpFlip:
		if s := &d.slots[op.Count&1]; s.number > 0 {
			s.bad = true
		}
	case OpEIO:
		d.failing++
	case OpFull:
		d.full++
	case OpSlowSync:
		d.slow += op.By
	}
}

// beginOperator begins an operation of an operator, or of the program.
func (w *World) beginOperator(n *node, op *Op, st *opState) {
	switch op.Kind {
	case OpResign:
		w.command(n, protocol.Command{Verb: protocol.Resign})
	case OpConfirm:
		w.command(n, protocol.Command{Verb: protocol.Confirm})
	case OpWithdraw:
		if op.For <= 0 || !n.up {
			st.on = false
			return
		}
		if n.withdrawn++; n.withdrawn == 1 {
			w.command(n, protocol.Command{Verb: protocol.Withdraw})
		}
	case OpSicken:
		if op.For <= 0 || !n.up {
			st.on = false
			return
		}
		if n.sick++; n.sick == 1 {
			w.command(n, protocol.Command{Verb: protocol.Sicken})
		}
	case OpTransfer:
		w.command(n, protocol.Command{Verb: protocol.Transfer, Target: op.Peer})
	case OpStandBack:
		if op.For <= 0 {
			st.on = false
			return
		}
		if n.paused++; n.paused == 1 {
			w.command(n, protocol.Command{Verb: protocol.Pause})
		}
	case OpLocate:
		w.beginLocate(n, op, st)
	}
}

// cloneEffects copies effects that have to outlive their step.
func cloneEffects(fx *protocol.Effects) *protocol.Effects {
	c := &protocol.Effects{Orders: slices.Clone(fx.Orders), Saves: slices.Clone(fx.Saves), Sends: slices.Clone(fx.Sends), Asks: slices.Clone(fx.Asks)}
	for i := range c.Saves {
		c.Saves[i].Data = slices.Clone(c.Saves[i].Data)
	}
	return c
}
