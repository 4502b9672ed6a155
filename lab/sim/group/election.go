package group

import (
	"time"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// election is E, by its contract alone: tokens rise, and Check is true in at most one tenure at a true instant, except
// while the world has it overlap. Where the schedule has an election of its own E is the machines of that, in peers.
type election struct {
	w      *World
	peers  *peers // nil: E is abstract
	r      *sim.Stream
	sight  *sim.Stream // of how late processes see who leads
	count  uint64
	tenure *tenure // nil: nobody leads
	next   bool    // an election is planned
	last   *process
}

// tenure is one of E's.
type tenure struct {
	count uint64
	p     *process
	over  bool          // its Check is false, for ever
	wait  time.Duration // that its candidacy shows
	peers *peers        // nil: of an abstract E
}

// proven is its Check.
func (t *tenure) proven() bool { return !t.over && (t.peers == nil || t.peers.proven(t)) }

// soon plans the next election.
func (e *election) soon(d time.Duration) {
	if !e.next && e.peers == nil {
		e.next = true
		e.w.in(d, e.elect)
	}
}

// elect elects one of the candidates, if nobody leads.
func (e *election) elect() {
	e.next = false
	if e.tenure != nil {
		return
	}
	p := e.choose(nil)
	if p == nil {
		e.soon(20 * time.Millisecond)
		return
	}
	e.win(p)
}

// choose picks a candidate, nil if there is none.
func (e *election) choose(not *process) *process {
	var all []*process
	for _, n := range e.w.nodes {
		if n.p != nil && n.Candidate && n.aside <= e.w.now && n.p.stands() && n.p != not && !n.p.leaving && (!n.p.frozen || e.r.Chance(0.2)) {
			all = append(all, n.p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[e.r.Below(len(all))]
}

func (e *election) win(p *process) {
	e.count += 1 + uint64(e.r.Below(3))
	e.begin(&tenure{count: e.count, p: p})
}

// begin begins a tenure. Its process learns of it a little later.
func (e *election) begin(t *tenure) {
	w, p := e.w, t.p
	e.tenure = t
	if p.m != nil {
		t.wait = p.m.Cover()
	}
	w.stats.Tenures++
	if e.last == p {
		w.saw(sawReelected)
	}
	e.last = p
	w.tell(p.node, "is elected with T %d", t.count)
	p.judgeElected()
	e.shown()
	w.in(e.r.Exp(time.Millisecond), func() { p.deliver(func() { p.begin(t) }) })
}

// end ends a tenure: its Check is false from now on. The next election takes a while.
func (e *election) end(t *tenure, why string, next time.Duration) {
	if t.over {
		return
	}
	t.over = true
	e.w.tell(t.p.node, "E's tenure %d ends: %s", t.count, why)
	if e.tenure == t {
		e.tenure = nil
		e.shown()
		e.soon(next)
	}
	// Its process learns of it later, by a Check or by a word of E.
	p := t.p
	late := e.r.Between(0, 30*time.Millisecond)
	if e.r.Chance(0.5) {
		late = e.r.Between(0, 300*time.Millisecond)
	}
	e.w.in(late, func() {
		p.deliver(func() {
			if c := p.c; c != nil && c.tenure == t {
				p.coordinate(c, machine.Input{Kind: machine.Fire})
			}
		})
	})
}

// stands reports whether E may elect it (G15). Among peers all stand.
func (p *process) stands() bool { return p.m == nil || p.w.e.peers != nil || p.m.Stands() }

// shown has all processes see soon who leads then: they never see an older state after a newer one.
func (e *election) shown() {
	for _, n := range e.w.nodes {
		if p := n.p; p != nil && p.m != nil && e.peers == nil {
			e.w.in(e.sight.Exp(time.Millisecond), func() { p.deliver(func() { p.step(e.led()) }) })
		}
	}
}

// show shows a process that has just started who leads.
func (e *election) show(p *process) {
	if e.peers == nil {
		p.step(e.led())
	}
}

func (e *election) led() machine.Input {
	in := machine.Input{Kind: machine.Led}
	if t := e.tenure; t != nil {
		in.Tenure, in.Cover, in.Wait = t.count, t.p.settings.Cover, t.wait
		in.Session = machine.Session{Member: t.p.node.ID, Process: t.p.nonce}
	}
	return in
}

// gap is how long E takes to elect another one.
func (e *election) gap() time.Duration {
	switch e.r.Below(4) {
	case 0:
		return 0
	case 1, 2:
		return e.r.Exp(5 * time.Millisecond)
	}
	return e.r.Between(0, 400*time.Millisecond)
}

// overlap elects another one while the tenure goes on: no election does that while its assumptions hold.
func (e *election) overlap(d time.Duration) {
	old := e.tenure
	if old == nil {
		return
	}
	p := e.choose(old.p)
	if p == nil {
		return
	}
	e.w.tell(nil, "E breaks its contract: tenure %d goes on for %v", old.count, d)
	e.win(p)
	e.w.in(d, func() { e.end(old, "it should have ended before", 0) })
}
