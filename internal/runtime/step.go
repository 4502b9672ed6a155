package runtime

import (
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
)

// step passes r.in to the machine and carries out the effects, and those of work that has returned.
func (r *Runner) step() {
	r.stepOnce()
	r.join()
}

// join tells the machine which work has returned. That may make it win again, and stop again.
func (r *Runner) join() {
	for len(r.joins) > 0 {
		token := r.joins[0]
		r.joins = r.joins[1:]
		if r.held != nil && r.held.count == token {
			r.held.joined.Store(true)
			r.held = nil
		}
		r.in = protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Joined, Token: token}}
		r.stepOnce()
	}
}

func (r *Runner) stepOnce() {
	r.decide(r.machine)
	r.carryOut()
}

// decide has the machine take the step r.in.
func (r *Runner) decide(m protocol.Machine) {
	before := r.latest
	r.in.Now, r.in.Rand = r.Read(), r.chance.Uint64()
	misread(&r.in, before)
	r.fx.Reset()
	m.Step(&r.in, &r.fx)
}

// carryOut carries out the machine's effects, in order.
func (r *Runner) carryOut() {
	if !misorder(r) {
		r.endTerms()
		r.publish()
		r.carryOrders()
		r.carrySaves()
		r.carrySends()
	}
	for i := range r.fx.Asks {
		r.cfg.Store.Ask(r.fx.Asks[i], r.tell)
	}
	r.confirms.answer(r.view.Confirmed)
	if r.recorder != nil {
		r.recorder.Step(&r.in, &r.fx, &r.view, r.state)
	}
}

// endTerms ends the context of work whose term has ended, before the view that says so is published, so that a
// Check always knows the reason.
func (r *Runner) endTerms() {
	for _, o := range r.fx.Orders {
		if o.Kind == protocol.Stop && r.held != nil && r.held.count == o.Token {
			r.held.lose(plain(r.reason(o.Reason)))
		}
	}
}

// reason is why a term has ended: for a machine each that is released was given up.
func (r *Runner) reason(why protocol.Reason) protocol.Reason {
	if why == protocol.Withdrawn && r.held != nil && r.held.ending != "" {
		return r.held.ending
	}
	if r.cfg.Hooks.Reason != nil {
		return r.cfg.Hooks.Reason(why)
	}
	return why
}

// publish publishes the view before any effect of the step leaves: a Check that sees the old one proves what was true
// when it began.
func (r *Runner) publish() {
	var before *protocol.View
	if v := r.machine.View(); r.seen.Load() == nil || v != r.view {
		r.before, r.view = r.view, v
		before = &r.before
		if v.Active && before.Active && v.Token == before.Token && v.LeaseEnd > before.LeaseEnd {
			r.counted.renewed()
		}
		shown := v // so that a step that changes nothing allocates nothing
		r.seen.Store(&shown)
	}
	if r.cfg.Hooks.Published != nil {
		r.cfg.Hooks.Published(&r.in, before)
	}
}

func (r *Runner) carryOrders() {
	for i := range r.fx.Orders {
		o := &r.fx.Orders[i]
		switch o.Kind {
		case protocol.Elected:
			r.elected(o.Token)
		case protocol.Lead:
			r.active(o.Token)
		case protocol.Stop:
			r.stopped(o.Token, r.reason(o.Reason))
		case protocol.CatchUp:
			if r.cfg.Hooks.CatchUp != nil {
				r.cfg.Hooks.CatchUp(o)
			}
		}
	}
}

func (r *Runner) carrySaves() {
	for i := range r.fx.Saves {
		r.saver.put(r.fx.Saves[i].Number, r.fx.Saves[i].Data)
	}
}

func (r *Runner) carrySends() {
	for i := range r.fx.Sends {
		s := &r.fx.Sends[i]
		leaves := s.After <= r.durable
		switch {
		case mutation.Is(mutation.SendAtOnce):
			leaves = true
		case mutation.Is(mutation.QueueBehindSaves):
			leaves = leaves && len(r.waiting) == 0
		case mutation.Is(mutation.DurableAwaited):
			leaves = s.After == 0
		}
		if leaves {
			r.cfg.Transport.Send(s)
		} else {
			r.wait(s)
		}
	}
}

// wait keeps a message until its save is durable. The message replaces an older one
// of its type to the same participant. So the number of waiting messages is bounded
// however long a sync takes, although each heartbeat of a new term asks for an answer.
//
// That is safe: to a machine the older message is lost, as any message may be. And no participant waits for ever,
// even if the newer message names a later save, and so leaves later than the older one would have. A machine names
// the save on which the message depends: of its term, of a promise greater than all before, or of its incarnation. So
// a later save means that the term of the older message is over, or that a greater promise was asked for. In the
// first case the older message has no use any more. The second case is as rare as a leader that asks for a greater
// promise. Between two such events all messages of a type name the same save, and the newest of them leaves with it.
// In a ring, where messages of one type are about several nodes, they wait for the incarnation only, and a node that
// does not get its own message back sends it again. Only another vote replaces a vote, and only another release a
// release.
func (r *Runner) wait(s *protocol.Send) {
	kept := r.waiting[:0]
	for i := range r.waiting {
		if w := &r.waiting[i]; w.To != s.To || w.Message.Type != s.Message.Type || mutation.Is(mutation.OlderKept) {
			kept = append(kept, *w)
		}
	}
	r.waiting = append(kept, *s) // last, so that messages leave in the order of time
}

// saved sends the messages that waited for a save, or drops them, and tells the machine.
func (r *Runner) saved(number uint64, err error) {
	kept := r.waiting[:0]
	for i := range r.waiting {
		switch s := &r.waiting[i]; {
		case s.After > number && !mutation.Is(mutation.AnySaveReleases), s.After < number && mutation.Is(mutation.EarlierForgotten):
			kept = append(kept, *s)
		case err == nil || mutation.Is(mutation.SendAfterFailure):
			r.cfg.Transport.Send(s)
		}
	}
	clear(r.waiting[len(kept):])
	r.waiting = kept
	if err != nil {
		r.trouble(err)
	} else {
		r.durable = number
		if r.counted.healed() {
			r.log.Warn("the ballot can be saved again") // at the level of the line about the trouble
		}
	}
	r.in = protocol.Input{Kind: protocol.Saved, Number: number, Failed: err != nil}
	r.step()
	if err == nil && r.bootSave != 0 && number >= r.bootSave {
		r.bootSave = 0
		r.booted()
	}
}

// trouble logs the first failure of the disk, and not the repeated ones.
func (r *Runner) trouble(err error) {
	if r.counted.broke() {
		r.log.Error("the ballot cannot be saved: this node neither votes nor leads until it can", "error", err)
	}
}

// booted runs when the save of the boot is durable.
func (r *Runner) booted() {
	if !r.running {
		return // Boot waits for it
	}
	if r.cfg.Hooks.Booted != nil {
		r.cfg.Hooks.Booted()
	}
	if r.waiter != nil {
		r.Command(r.waiter.Command)
	}
}
