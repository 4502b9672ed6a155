package group

import (
	"slices"
	"time"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// key is what is led, with the guarded resource that its holders write to.
type key struct {
	name     machine.Key
	running  []*work
	greatest machine.Token // of all works that began
	began    uint64        // how many
	given    machine.Token // the greatest that any coordinator gave
	mark     machine.Token // the resource's
	latest   uint64        // unknown to the resource: the latest work of which it accepted a write
	ended    sim.Time      // when the last work ended, if none runs
}

// work is what leads a key.
type work struct {
	*key
	token    machine.Token
	p        *process
	view     *view
	serial   uint64
	stopping bool
	over     bool
	until    sim.Time // when it ended
	state    []byte
}

// proven is what the work's Check says now.
func (k *work) proven() bool { return !k.stopping && k.live() }

// live reports whether the claim under which the work began still stands.
func (k *work) live() bool {
	return !k.over && k.view.Proven(k.p.node.clock.Read(k.p.w.now))
}

// startWork begins the work of a key, if the claim still stands: the process may have stood still since the step.
func (p *process) startWork(h *machine.Held) {
	w := p.w
	k := w.byName[h.Key]
	if !p.view.Proven(p.reading()) && w.s.Mutant != CarelessStart {
		w.saw(sawTooLate)
		p.returns(&work{key: k, token: h.Token, p: p})
		return
	}
	k.began++
	x := &work{key: k, token: h.Token, p: p, view: p.view, serial: k.began, state: h.State}
	w.tell(p.node, "begins %s under %v as %v until %v; it is %v", h.Key, h.Token, p.view.Session, p.view.Claim, p.reading().Boot)
	w.stats.Terms++
	if len(h.State) > 0 {
		w.saw(sawHandedState)
	}
	p.judgeStart(x)
	k.greatest = greater(k.greatest, h.Token)
	k.running = append(k.running, x)
	p.works = append(p.works, x)
	if len(k.running) > 1 {
		w.saw(sawOverrunBeside)
	} else if k.ended != 0 && w.watch == nil {
		w.stats.gap(time.Duration(w.now - k.ended))
	}
	w.judgeKey(k)
	if w.s.Writes > 0 {
		w.write(x)
	}
}

func greater(a, b machine.Token) machine.Token {
	if a.Compare(b) > 0 {
		return a
	}
	return b
}

// write lets a work claim its token at the resource, and then write now and then: each time it checks, and what it sends
// arrives in its own time, even if the work is gone by then.
func (w *World) write(x *work) {
	if x.over || !x.p.alive() || x.stopping {
		return
	}
	if x.p.frozen {
		x.p.deliver(func() { w.write(x) })
		return
	}
	if !x.proven() {
		w.saw(sawCheckRefuses)
	} else {
		late := w.wait.Tail(time.Millisecond, 0.05)
		w.in(late, func() { w.landed(x) })
	}
	w.in(w.wait.Between(w.s.Writes/2, 3*w.s.Writes/2), func() { w.write(x) })
}

// landed handles a write that arrives at the resource, which accepts what is not below its mark.
func (w *World) landed(x *work) {
	k := x.key
	w.stats.Writes++
	if x.token.Compare(k.mark) < 0 {
		w.saw(sawStaleRefused)
		w.stats.StaleRefused++
		return
	}
	if x.serial < k.latest {
		w.fail(sim.NoStale, x.p.node, "the resource of %s accepts a write under %v after one of work that began later", k.name, x.token)
	}
	k.mark, k.latest = x.token, x.serial
}

// stop tells a work to end. It returns in its own time.
func (p *process) stop(s *machine.Stop) {
	w := p.w
	i := slices.IndexFunc(p.works, func(k *work) bool { return k.name == s.Key && k.token == s.Token })
	if i < 0 && slices.ContainsFunc(p.returned, func(h machine.Held) bool { return h.Key == s.Key && h.Token == s.Token }) {
		return // it has returned by itself meanwhile
	}
	if i < 0 {
		w.fail(Orders, p.node, "a stop of %s under %v, which does not run here", s.Key, s.Token)
		return
	}
	x := p.works[i]
	if x.stopping {
		return
	}
	x.stopping = true
	w.tell(p.node, "stops %s under %v: %v", s.Key, s.Token, s.Reason)
	w.stats.Stops++
	d := min(w.wait.Exp(4*time.Millisecond), p.settings.Drain/2)
	if p.node.slow > w.now {
		d = w.wait.Between(0, p.node.linger)
	}
	if w.s.Mutant == CarelessJoin {
		p.returns(x)
	}
	w.in(d, func() { w.returned(x) })
}

// returned handles the end of a work's last function.
func (w *World) returned(x *work) {
	if x.over {
		return
	}
	p := x.p
	if p.frozen && p.alive() {
		p.deliver(func() { w.returned(x) })
		return
	}
	w.ended(x)
	p.returns(x)
}

// returns tells the member that a work has returned.
func (p *process) returns(x *work) {
	w := p.w
	h := machine.Held{Key: x.name, Token: x.token}
	if w.wait.Chance(0.5) {
		h.State = []byte{byte(x.serial)}
	}
	p.returned = append(p.returned, h)
	w.in(w.wait.Exp(100*time.Microsecond), func() {
		p.deliver(func() {
			p.step(machine.Input{Kind: machine.Returned, Held: []machine.Held{h}})
			p.returned = slices.DeleteFunc(p.returned, func(o machine.Held) bool { return o.Key == h.Key && o.Token == h.Token })
		})
	})
}

// ended takes a work from those that run.
func (w *World) ended(x *work) {
	if x.over {
		return
	}
	if !x.live() && x.view.Claim > 0 {
		w.stats.Overruns++
		w.saw(sawOverrun)
	}
	x.over, x.until = true, w.now
	w.tell(x.p.node, "the work of %s under %v has ended", x.name, x.token)
	gone := func(o *work) bool { return o == x }
	x.p.works = slices.DeleteFunc(x.p.works, gone)
	x.key.running = slices.DeleteFunc(x.key.running, gone)
	if len(x.key.running) == 0 {
		x.key.ended = w.now
	}
}

// led reports whether the key's work is proven.
func (k *key) led() bool { return slices.ContainsFunc(k.running, (*work).proven) }
