package sim

import (
	"slices"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// work is the leader's program at every participant, together with what the portable layer of elect
// does for it: a term begins with a proof of more than the drain; the program is told when the
// drain begins or the machine stops the term; it is joined; and only then is leadership released.
type work struct {
	jobs   []job // by node.index
	writes slab[writeRequest]
	serial uint64 // of the last term whose work began
}

// job is the program at one participant.
type job struct {
	token   uint64 // of the term whose work runs; 0: none runs
	serial  uint64 // orders terms by when their work began, in true time
	told    bool
	stopped bool   // the machine has stopped the term: Joined is due
	next    uint64 // a term whose work begins when this one's has returned; 0: none
	gen     int32  // of the events that are meant for this term
	held    uint8  // what came due while the process was frozen
	pending bool   // a write has been checked and has not left

	// When it has to be told, on its boot clock, and whether the process could not know that: it
	// was frozen then, or a clock was changed.
	due     protocol.Instant
	alarm   Time // the pending event of the drain; 0: none
	excused bool

	checked Time // of the write that is pending
	ends    Time // after the machine has stopped the term: until when it was proven
}

// writeRequest is a write on its way to the resource.
type writeRequest struct {
	token   uint64
	serial  uint64
	checked Time // when the check succeeded; unused where work is not exclusive
	node    int32
}

// workStep is the kind of an evWork. It is in the lower bits of its ref; above them is the job's
// generation, or the index of a writeRequest.
type workStep int32

const (
	workCheck  workStep = iota // check whether leadership is proven, and write if so
	workLeave                  // the write leaves
	workDrain                  // the drain begins, unless the lease was renewed
	workReturn                 // the program returns
	workJoined                 // no program ran: Joined at once
	workResign                 // a win with too little time left is given back

	workBits = 3
	workMask = 1<<workBits - 1
)

func (k *work) clone() work {
	c := *k
	c.jobs = slices.Clone(k.jobs)
	c.writes = k.writes.clone()
	return c
}

func (k *work) job(n *node) *job {
	for n.index >= len(k.jobs) {
		k.jobs = append(k.jobs, job{})
	}
	return &k.jobs[n.index]
}

func (k *work) put(p writeRequest) int32 {
	i := k.writes.get()
	k.writes.all[i] = p
	return i
}

func (k *work) take(i int32) writeRequest {
	k.writes.put(i)
	return k.writes.all[i]
}

// after schedules step at n, for the term that now runs.
func (k *work) after(w *World, n *node, d time.Duration, step workStep) {
	w.in(d, event{kind: evWork, node: int32(n.index), life: n.life, ref: int32(step) | k.job(n).gen<<workBits})
}

// say schedules a step with a token.
func (k *work) say(w *World, n *node, token uint64, step workStep) {
	w.in(0, event{kind: evWork, node: int32(n.index), life: n.life, ref: int32(step) | k.put(writeRequest{token: token})<<workBits})
}

// elected and lead carry out the machine's orders, as stop does.
func (k *work) elected(w *World, n *node, token uint64) {
	if electedCounts(w) {
		k.begin(w, n, token)
	}
}

func (k *work) lead(w *World, n *node, token uint64) {
	if electedCounts(w) {
		return
	}
	now := w.reading(n)
	if !n.view.Proven(now) || n.view.LeaseEnd.Sub(now.Boot) <= w.schedule.Work.Drain {
		// It would be told to stop before it began. That does not count as a win.
		w.seen.add(SawWonTooLate)
		k.say(w, n, token, workResign)
		return
	}
	k.begin(w, n, token)
}

func (k *work) begin(w *World, n *node, token uint64) {
	j := k.job(n)
	if j.token != 0 {
		j.next = token
		return
	}
	k.serial++
	*j = job{token: token, serial: k.serial, gen: j.gen}
	k.renewed(w, n)
	if w.schedule.Work.Every > 0 {
		k.after(w, n, 0, workCheck)
	}
}

// stop ends the work of a term that was proven until then.
func (k *work) stop(w *World, n *node, token uint64, until Time) {
	j := k.job(n)
	if j.next == token {
		j.next = 0
	}
	if j.token != token {
		k.say(w, n, token, workJoined)
		return
	}
	j.stopped, j.ends = true, until
	k.tell(w, n, j)
}

// tell ends the work's context.
func (k *work) tell(w *World, n *node, j *job) {
	if j.told {
		return
	}
	j.told = true
	if !j.excused && !electedCounts(w) && w.now > n.clock.at && n.clock.Read(w.now-1).Boot >= j.due {
		w.fail(ToldInTime, n, "its work of token %d was told when its clock showed %s, and the drain of %s had to begin at %s",
			j.token, w.reading(n).Boot, w.schedule.Work.Drain, j.due)
	}
	k.after(w, n, w.schedule.Work.Stop, workReturn)
}

// arm ensures that the work is told when the drain begins. Renewals postpone that without an event
// each: the pending one checks again.
func (k *work) arm(w *World, n *node, j *job) {
	at := max(w.trueAt(n, j.due), w.now)
	if j.alarm == 0 || j.alarm > at {
		j.alarm = at
		k.after(w, n, time.Duration(at-w.now), workDrain)
	}
}

// renewed is called when the proof of n's lease has changed.
func (k *work) renewed(w *World, n *node) {
	j := k.job(n)
	if j.token == 0 || j.told || electedCounts(w) || !n.view.Active || n.view.Token != j.token {
		return
	}
	due := n.view.LeaseEnd.Add(-w.schedule.Work.Drain)
	sooner := due < j.due
	if j.due = due; sooner || j.alarm == 0 {
		k.arm(w, n, j)
	}
}

// clock is called when the rate or offset of n's clock has changed.
func (k *work) clock(w *World, n *node) {
	j := k.job(n)
	if j.token == 0 || j.told || electedCounts(w) {
		return
	}
	j.excused = j.excused || w.reading(n).Boot > j.due
	k.arm(w, n, j)
}

// event handles a step of the work. What comes due at a frozen process waits.
func (k *work) event(w *World, e event) {
	n := w.nodes[e.node]
	step, ref := workStep(e.ref&workMask), e.ref>>workBits
	if step == workJoined || step == workResign {
		p := k.take(ref)
		if !n.up || n.life != e.life {
			return
		}
		if step == workJoined {
			w.oracle.joined(w, n, p.token)
			w.command(n, protocol.Command{Verb: protocol.Joined, Token: p.token})
		} else if n.view.Elected && n.view.Token == p.token {
			w.command(n, protocol.Command{Verb: protocol.Resign})
		}
		return
	}
	j := k.job(n)
	if !n.up || n.life != e.life || ref != j.gen || j.token == 0 {
		return
	}
	if step == workDrain {
		if w.now != j.alarm {
			return // an earlier one took its place
		}
		j.alarm = 0
	}
	if n.frozen {
		if step == workLeave {
			w.seen.add(SawFrozenInWork)
		}
		j.held |= 1 << step
		return
	}
	k.do(w, n, j, step)
}

// thawed does what came due while n was frozen: a write that was checked before leaves now, even if
// its lease has ended.
func (k *work) thawed(w *World, n *node) {
	j := k.job(n)
	held := j.held
	j.held = 0
	if j.token != 0 && !j.told && !electedCounts(w) && w.reading(n).Boot > j.due {
		j.excused = true
	}
	for _, step := range [...]workStep{workLeave, workDrain, workReturn, workCheck} {
		if held&(1<<step) == 0 {
			continue
		}
		if step == workDrain {
			j.alarm = w.now
		}
		k.after(w, n, 0, step)
	}
}

func (k *work) do(w *World, n *node, j *job, step workStep) {
	spec := &w.schedule.Work
	switch step {
	case workDrain:
		if j.told {
			return
		}
		if w.reading(n).Boot < j.due {
			k.arm(w, n, j)
		} else {
			w.seen.add(SawDrained)
			k.tell(w, n, j)
		}
	case workReturn:
		k.finish(w, n, j)
	case workCheck:
		if j.told {
			return
		}
		if !electedCounts(w) {
			if !n.view.Proven(w.reading(n)) {
				k.after(w, n, spec.Every, workCheck)
				return
			}
			w.resource.checked(w, n, j)
		}
		j.checked, j.pending = w.now, true
		k.after(w, n, spec.Think, workLeave)
		w.pauseInWork(n)
	case workLeave:
		if !j.pending {
			return
		}
		j.pending = false
		w.stats.Writes++
		p := writeRequest{token: j.token, serial: j.serial, checked: j.checked, node: int32(n.index)}
		w.in(spec.Flight, event{kind: evWrite, node: int32(n.index), life: n.life, ref: k.put(p)})
		if !j.told {
			k.after(w, n, max(spec.Every-spec.Think, 1), workCheck)
		}
	}
}

// finish handles the program's return.
func (k *work) finish(w *World, n *node, j *job) {
	token, stopped, next, ends := j.token, j.stopped, j.next, j.ends
	if !stopped {
		ends = w.oracle.process(n).until
	}
	if !electedCounts(w) && w.now > ends {
		w.stats.Overruns++
		w.seen.add(SawOverrun)
	}
	*j = job{gen: (j.gen + 1) & (1<<(31-workBits) - 1)}
	if stopped {
		w.oracle.joined(w, n, token)
		w.command(n, protocol.Command{Verb: protocol.Joined, Token: token})
	} else {
		// The drain told the work, and the machine still leads: leadership is released.
		w.command(n, protocol.Command{Verb: protocol.Resign})
	}
	if next != 0 && n.view.Elected && n.view.Token == next {
		k.elected(w, n, next)
	}
	if next != 0 && n.view.Active && n.view.Token == next {
		k.lead(w, n, next)
	}
}

// died ends the program with its process. Writes that have left are still on their way.
func (k *work) died(_ *World, n *node) {
	j := k.job(n)
	*j = job{gen: (j.gen + 1) & (1<<(31-workBits) - 1)}
}
