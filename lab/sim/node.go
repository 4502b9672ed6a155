package sim

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// node is a participant: a computer with clocks and a disk, and the process that may run on it.
type node struct {
	index int
	base  int // the index of the participant that it is a twin of; its own otherwise
	id    protocol.NodeID
	self  protocol.Voter
	life  uint32 // of the process, from 1; 0 before the first
	up    bool
	// frozen: the process is stopped, or its computer asleep. What arrives waits in the inbox.
	frozen bool

	machine protocol.Machine
	view    protocol.View    // after the last step
	read    protocol.Reading // of its clocks, by the last step
	clock   clock
	disk    disk
	rand    stream

	inbox  []event
	frozeT Time // frozen at least until then
	sleepT Time // its computer sleeps until then
	held   []held
	// The timer: when the machine wants a Fire, in true time; the time of the event that delivers
	// it, never if there is none; and the event's generation.
	due, timer Time
	generation int32
	spins      int // fires in a row at one instant

	// For those who look: since when the machine has wanted this Fire, and how long its proof was when it was last made
	// longer.
	wants protocol.Instant
	armed Time
	lease time.Duration

	stash     *protocol.Effects // the effects that a pause has held back,
	stashOf   uint64            // and the record of their step
	pauseSend time.Duration     // it is to be paused before its next effects
	pauseWork time.Duration     // it is to be paused between check and write

	incarnation uint64 // of this incarnation; 0: not durable yet
	wipes       int    // how often its disk was lost
	withdrawn   int    // operations that make it no candidate
	sick        int
	paused      int // operations that keep it paused by its operator
	observer    bool

	// The membership that its first boot was given; see spare.
	membership *protocol.Membership
	spare      bool // no membership lists it at the beginning
	waits      bool // its process runs, and waits for a membership that lists it

	position uint64               // in the leader's log; 0: nowhere
	still    int                  // operations that keep its position still
	asked    *protocol.Membership // the membership that it was last asked to make in this incarnation
}

// held is a message that waits for a save.
type held struct {
	after uint64
	ref   int32 // in World.waiting
}

// delayed is an answer or a command that has to wait.
type delayed struct {
	answer  protocol.Answer
	command protocol.Command
}

// participant is the Participant for n's machine.
func (w *World) participant(n *node) Participant {
	return Participant{
		Self: n.self, Index: n.base, Observer: n.observer, Membership: n.membership,
		Config: w.schedule.Config, Work: w.schedule.Work,
	}
}

// boot starts n's process.
func (w *World) boot(n *node) {
	data, ok := n.disk.content()
	if !ok {
		return // no slot can be read: the process fails to start
	}
	if n.spare && data == nil {
		n.waits = true // a process without a machine
		return
	}
	w.start(n, data)
}

// start makes n's machine from the content of its disk.
func (w *World) start(n *node, data []byte) {
	n.waits = false
	m, err := w.protocol.New(w.participant(n))
	if err != nil {
		w.fail(NoPanic, n, "no machine can be made: %v", err)
		return
	}
	n.life++
	n.up, n.frozen, n.machine, n.view, n.asked = true, false, m, m.View(), nil
	n.due, n.timer, n.spins = never, never, 0
	n.wants, n.armed, n.lease = protocol.Never, w.now, 0
	n.generation++
	n.incarnation = 0
	w.mix(uint64(n.index)<<32 | uint64(n.life))
	w.tell(n, RecordMake, "")
	w.oracle.booted(w, n)
	if data != nil {
		w.oracle.durable(w, n, data)
	}
	w.input.Kind, w.input.Durable = protocol.Boot, data
	w.step(n, &w.input)
	w.input.Durable = nil
	if n.withdrawn == 0 && w.campaigns(n) {
		w.command(n, protocol.Command{Verb: protocol.Campaign})
	}
	if n.sick > 0 {
		w.command(n, protocol.Command{Verb: protocol.Sicken})
	}
	if n.paused > 0 {
		w.command(n, protocol.Command{Verb: protocol.Pause})
	}
	if w.protocol.Compare != nil {
		w.tellPosition(n)
	}
}

// campaigns reports whether n is a candidate by default. An observer is one if it may be promoted.
func (w *World) campaigns(n *node) bool { return !n.observer || w.protocol.Members != nil }

// step hands one input to n's machine, now, and carries out its effects. n is up and not frozen.
func (w *World) step(n *node, in *protocol.Input) {
	in.Now, in.Rand = w.reading(n), n.rand.Uint64()
	n.read = in.Now
	w.busy = true
	w.fx.Reset()
	next, ok := w.feed(n, in)
	if w.tracer != nil {
		w.traceStep(n, in)
	}
	if !ok {
		w.busy = false
		w.die(n, byKill)
		return
	}
	w.mixStep(n, next)
	w.oracle.stepped(w, n, in, &w.fx)
	if w.over {
		w.busy = false
		return
	}
	if n.pauseSend > 0 && len(w.fx.Orders)+len(w.fx.Saves)+len(w.fx.Sends)+len(w.fx.Asks) > 0 {
		d := n.pauseSend
		n.pauseSend = 0
		n.stash, n.stashOf = cloneEffects(&w.fx), w.cause
		w.freeze(n, d)
	} else {
		w.carry(n, &w.fx)
	}
	w.busy = false
	w.armAt(n, next)
}

// feed steps the machine. A panic is a violation, and ends the process.
func (w *World) feed(n *node, in *protocol.Input) (next protocol.Instant, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			text, _ := json.Marshal(in)
			w.fail(NoPanic, n, "%v (%s), of input %s", r, culprit(), text)
		}
	}()
	n.machine.Step(in, &w.fx)
	end := n.view.LeaseEnd
	if n.view = n.machine.View(); n.view.LeaseEnd != end {
		n.lease = n.view.LeaseEnd.Sub(in.Now.Boot)
	}
	return n.machine.NextFire(), true
}

// culprit is the function in which the recovered panic began.
func culprit() string {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			file := filepath.ToSlash(f.File)
			return fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(file)), path.Base(file), f.Line)
		}
		if !more {
			return "somewhere"
		}
	}
}

// carry carries out effects in their order.
func (w *World) carry(n *node, fx *protocol.Effects) {
	for i := range fx.Orders {
		w.oracle.ordered(w, n, &fx.Orders[i])
	}
	for i := range fx.Saves {
		w.save(n, &fx.Saves[i])
	}
	for i := range fx.Sends {
		if s := &fx.Sends[i]; s.After > n.disk.saved {
			ref := w.waiting.get()
			w.waiting.all[ref] = waiting{send: *s, cause: w.cause}
			n.held = append(n.held, held{after: s.After, ref: ref})
		} else {
			w.send(n, s, w.cause)
		}
	}
	for i := range fx.Asks {
		if w.store == nil {
			panic(fmt.Sprintf("sim: %s asks a store, and protocol %s names none", n.id, w.protocol.Name))
		}
		w.oracle.asked(w, n, &fx.Asks[i])
		w.store.ask(w, n, &fx.Asks[i])
	}
}

// arm schedules the Fire of n's machine.
func (w *World) arm(n *node) {
	if n.up && !n.frozen {
		w.armAt(n, n.machine.NextFire())
	}
}

// armAt is arm for a known NextFire. An event that comes too early checks again, so a deadline that
// moves away costs nothing.
func (w *World) armAt(n *node, next protocol.Instant) {
	if n.frozen || !n.up {
		return
	}
	n.due = w.trueAt(n, next)
	if next != n.wants {
		n.wants, n.armed = next, w.now
	}
	if n.due < n.timer {
		n.generation++
		n.timer = n.due
		w.in(time.Duration(n.due-w.now), event{kind: evFire, node: int32(n.index), life: n.life, ref: n.generation})
	}
}

// maxSpins is how many Fires in a row at one instant show that a machine will never stop.
const maxSpins = 1000

// fire handles a timer's event.
func (w *World) fire(n *node, e event) bool {
	if !n.up || n.life != e.life || n.generation != e.ref {
		return false
	}
	n.timer = never
	switch {
	case n.frozen:
		return false
	case w.now < n.due:
		n.timer = n.due
		w.in(time.Duration(n.due-w.now), e)
		return false
	case len(w.agenda) > 0 && w.agenda[0].at == w.now && w.agenda[0].kind != evFire:
		// What has arrived is handed in first.
		n.timer = n.due
		w.again(e)
		return false
	}
	if n.spins++; n.spins > maxSpins {
		w.fail(NoPanic, n, "it wants %d Fires in a row at one instant", maxSpins)
		return true
	}
	w.input.Kind = protocol.Fire
	w.step(n, &w.input)
	if n.due > w.now {
		n.spins = 0
	}
	return true
}

// reply hands an answer of the store to a process, unless that incarnation is over.
func (w *World) reply(index int, life uint32, a *protocol.Answer) {
	n := w.nodes[index]
	if !n.up || n.life != life {
		return
	}
	if w.busy || n.frozen {
		ref := w.delayed.get()
		l := &w.delayed.all[ref]
		entries := append(l.answer.Entries[:0], a.Entries...)
		l.answer = *a
		l.answer.Entries = entries
		w.wait(n, event{kind: evReply, node: int32(index), life: life, ref: ref})
		return
	}
	w.input.Kind, w.input.Answer = protocol.Replied, *a
	w.step(n, &w.input)
	w.input.Answer = protocol.Answer{}
}

// command hands a command to n's process.
func (w *World) command(n *node, c protocol.Command) {
	if !n.up {
		return
	}
	if w.busy || n.frozen {
		ref := w.delayed.get()
		w.delayed.all[ref].command = c
		w.wait(n, event{kind: evCommand, node: int32(n.index), life: n.life, ref: ref})
		return
	}
	w.input.Kind, w.input.Command = protocol.Do, c
	w.step(n, &w.input)
	w.input.Command = protocol.Command{}
}

// wait keeps an event until n runs again, or until the present step is done.
func (w *World) wait(n *node, e event) {
	if n.frozen {
		w.shelve(n, e)
		return
	}
	w.in(0, e)
}

// shelve puts an event into the inbox of n, which is frozen.
func (w *World) shelve(n *node, e event) {
	w.seq++
	e.seq = w.seq
	if w.tracer != nil {
		w.causes[e.seq] = w.cause
	}
	n.inbox = append(n.inbox, e)
}

// handleDelayed handles evReply and evCommand.
func (w *World) handleDelayed(n *node, e event) {
	l := &w.delayed.all[e.ref]
	switch {
	case !n.up || n.life != e.life:
	case n.frozen:
		w.shelve(n, e)
		return
	case e.kind == evReply:
		w.input.Kind, w.input.Answer = protocol.Replied, l.answer
		w.step(n, &w.input)
		w.input.Answer = protocol.Answer{}
	default:
		w.input.Kind, w.input.Command = protocol.Do, l.command
		w.step(n, &w.input)
		w.input.Command = protocol.Command{}
	}
	w.delayed.put(e.ref)
}
