package runtime

import (
	"time"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
)

// loop owns the machine. All inputs pass through turns, and nothing in a turn waits for a disk or for a network.
func (r *Runner) loop() {
	t := &turns{r: r, busy: make(chan struct{}, 1)}
	r.inbox.help(t.help)
	t.take() // it is never released: messages after the loop are too late
	for {
		r.arm()
		t.leave()
		stopped := false
		select {
		case <-r.stop:
			stopped = true
		case <-r.inbox.wake:
		case <-r.timer.C:
		}
		t.take()
		if stopped {
			return
		}
		if !t.turn(rounds) {
			r.surveyed()
			r.inbox.ring()
		}
	}
}

// rounds is how often the loop empties the queue before it checks for a stop, and updates observers.
const rounds = 64

// turns makes one turn after the other. The goroutine of Run makes them, and one that brings a message when no other
// turn is under way: a wake-up for each heartbeat costs several times what the turn does.
type turns struct {
	r     *Runner
	busy chan struct{} // the goroutine that has sent a value has the turn
	batch []item
	lost  uint64
}

func (t *turns) take()  { t.busy <- struct{}{} }
func (t *turns) leave() { <-t.busy }

// help makes a turn, unless one is under way or more arrives than it should handle: then it wakes the loop, which
// makes another one. So the caller that brings a message neither waits nor is delayed for long.
func (t *turns) help() {
	select {
	case t.busy <- struct{}{}:
	default:
		t.r.inbox.ring()
		return
	}
	done := t.turn(2)
	if done {
		t.r.arm()
	}
	t.leave()
	if !done {
		t.r.inbox.ring()
	}
}

// turn returns false if it has emptied the queue as often as it may.
func (t *turns) turn(most int) bool {
	r := t.r
	r.awake()
	for range most {
		// What has arrived is passed in before a timer that has come due (R16). The turn does not wait for later arrivals,
		// which may never end.
		due := r.machine != nil && r.machine.NextFire() <= r.latest.Boot
		t.batch = r.inbox.take(t.batch)
		if len(t.batch) == 0 {
			return t.finish()
		}
		if due && mutation.Is(mutation.TimerBeforeMessage) {
			r.fire()
		}
		for i := range t.batch {
			r.handle(&t.batch[i])
		}
		if due {
			r.fire()
			r.due = r.machine.NextFire()
		}
	}
	return false
}

// surveyed asks the participant when it wants to look again.
func (r *Runner) surveyed() {
	if r.cfg.Hooks.Survey != nil {
		r.survey = r.cfg.Hooks.Survey()
	}
}

// finish ends a turn that has emptied the queue.
func (t *turns) finish() bool {
	r := t.r
	r.fire()
	r.surveyed()
	if now := r.inbox.lost(); now > t.lost {
		t.lost = now
		r.log.Warn("messages were dropped: they come faster than this process runs", "dropped", t.lost)
	}
	return true
}

// arm sets the timer for the earliest event.
func (r *Runner) arm() {
	at := r.survey
	r.due = protocol.Never
	if r.machine != nil {
		r.due = r.machine.NextFire()
		at = min(at, max(r.due, r.patient))
	}
	if at == protocol.Never {
		r.timer.Stop()
		return
	}
	r.timer.Reset(clock.Timer(max(at.Sub(r.latest.Boot), 0)))
}

// awake detects that the loop should have run earlier: the process was stopped, or did not get the processor, or the
// machine slept.
func (r *Runner) awake() {
	now := r.Read()
	if now.Jumped(r.anchor) {
		r.anchor = now
		r.counted.jumped()
		if r.cfg.Hooks.Jumped != nil {
			r.cfg.Hooks.Jumped()
		}
		r.log.Warn("the machine slept, or a clock was set; what was promised counts anew")
	}
	r.late(r.due, now.Boot)
}

// late records a pause if the machine wanted to be called much earlier than now.
func (r *Runner) late(due, now protocol.Instant) {
	if due == protocol.Never || due <= r.paused || now.Sub(due) <= r.cfg.Late {
		return
	}
	r.paused = now
	r.counted.paused(now.Sub(due))
	r.log.Warn("this process did not run for a while", "late", now.Sub(due).Truncate(time.Millisecond))
	if !r.view.Elected {
		// What has arrived meanwhile is still in the kernel. The goroutines that read it must run before the silence counts
		// as the leader's.
		r.patient = now.Add(min(r.cfg.Late/4, 10*time.Millisecond))
	}
}

// handle handles one item.
func (r *Runner) handle(it *item) {
	if it.from == "" {
		it.do()
		return
	}
	if r.machine == nil || r.cfg.Hooks.Heard != nil && !r.cfg.Hooks.Heard(it.from, &it.message) {
		return
	}
	r.in = protocol.Input{Kind: protocol.Receive, From: it.from, Message: it.message.Message}
	r.step()
}

func (r *Runner) fire() {
	if r.machine == nil {
		return
	}
	now, due := r.latest.Boot, r.machine.NextFire()
	r.late(max(min(r.due, due), r.ordered), now) // even for a turn that took too long
	if now >= due && now >= r.patient {
		r.in = protocol.Input{Kind: protocol.Fire}
		r.step()
	}
}
