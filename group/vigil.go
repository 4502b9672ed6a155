package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/electd/elect"
	machine "github.com/electd/elect/internal/protocol/group"
)

// hang is for how many promises the coordinator's loop, or its placement, may be busy with one thing. The heartbeats of
// the election are another goroutine's, so nothing else would end the term of a coordinator that does nothing.
const hang = 2

// looks is how often they are looked at in a promise. What was seen busy with one thing hang*looks times after the first
// is taken to hang; a process that did not run for a while sees it once more, however long that was.
const looks = 2

// pulse counts beginnings and ends: it is odd while something is under way.
type pulse struct{ n atomic.Uint64 }

func (p *pulse) begin() { p.n.Add(1) }
func (p *pulse) next()  { p.n.Add(2) } // the same goes on, with something else: many of them are no hang
func (p *pulse) end()   { p.n.Add(1) }

// look is what was seen of a pulse.
type look struct {
	n    uint64
	same int
}

// hangs looks again, and reports whether it was busy with one thing for too long.
func (l *look) hangs(p *pulse) bool {
	if n := p.n.Load(); n%2 == 0 || n != l.n {
		*l = look{n: n}
		return false
	}
	l.same++
	return l.same >= hang*looks
}

// vigil is over one term as coordinator.
type vigil struct{ loop, plan pulse }

// served is how a term as coordinator has ended.
type served struct {
	err   error
	aside time.Duration   // how long not to stand again
	hangs <-chan struct{} // closed when the loop has ended; nil if it has
}

// coordinate is what the leader of the election does. If its loop hangs it does not wait for that: the term is released,
// so that another member is elected. A loop that goes on later finds its term ended, and decides nothing.
func (g *Group) coordinate(ctx context.Context, term *elect.Term) served {
	v := &vigil{}
	v.loop.begin()
	result, ended := make(chan served, 1), make(chan struct{})
	g.own.Go(func() {
		defer close(ended)
		result <- g.preside(ctx, term, v)
	})
	timer := time.NewTimer(g.settings.Promise / looks)
	defer timer.Stop()
	var loop, plan look
	given := false
	for {
		select {
		case s := <-result:
			return s
		case <-timer.C:
		}
		if loop.hangs(&v.loop) {
			term.Resign()
			g.abandon()
			g.own.Go(func() { // a log that blocks may be what hangs
				g.log.Error("the loop of this coordinator hangs; it gives its term up, and stands again when the loop goes on", "token", term.Token(), "for", hang*g.settings.Promise)
			})
			return served{hangs: ended}
		}
		if !given && plan.hangs(&v.plan) {
			given = g.bypass(term)
		}
		timer.Reset(g.settings.Promise / looks)
	}
}

// abandon leaves the coordinator to a loop that hangs. It waits for nothing. The other ends of its connections leave them
// for the next coordinator, or when they have heard nothing for long.
func (g *Group) abandon() {
	g.mu.Lock()
	c := g.coordinator
	g.coordinator = nil
	g.mu.Unlock()
	if c != nil {
		g.acceptor.close(c)
		c.shut()
	}
}

// bypass gives the term up because its placement hangs: the next coordinator has a new Placer. If that of an earlier
// term of this process hangs, too, the Placer is at fault everywhere: then a coordinator that moves nothing is better
// than none, since the members keep what they hold. It reports whether the term is given up.
func (g *Group) bypass(term *elect.Term) bool {
	why := fmt.Sprintf("the placement of this coordinator has not returned for %v", hang*g.settings.Promise)
	if g.stuck.Load() > 0 {
		if g.acceptor.news(why) {
			g.own.Go(func() { // the log may be what hangs
				g.log.Error(why+", nor has that of an earlier term; it goes on, and no key is given to anybody", "token", term.Token())
			})
		}
		return false
	}
	g.mu.Lock()
	c := g.coordinator
	g.mu.Unlock()
	if c == nil || !c.put(arrival{do: func() {
		c.bypassed = why
		c.in = machine.Input{Kind: machine.Resign}
		c.step()
	}}) {
		return false
	}
	g.own.Go(func() { g.log.Error(why+"; it gives its term up", "token", term.Token()) })
	return true
}

// preside coordinates for one term.
func (g *Group) preside(ctx context.Context, term *elect.Term, v *vigil) served {
	if err := term.Check(); errors.Is(err, elect.ErrNotExclusive) {
		return served{err: fmt.Errorf("%w; want elect.Config.NonExclusive false in the coordinator's election", err)}
	} else if err != nil {
		return served{}
	}
	c, err := newCoordinator(g, term, v)
	if err != nil {
		return served{err: err}
	}
	g.witnessed.coordinates(term)
	g.event(Event{Kind: EventCoordinates, Token: term.Token()})
	g.log.Info("this member is the coordinator", "token", term.Token())
	g.mu.Lock()
	g.coordinator = c
	g.mu.Unlock()
	why, aside := c.run(ctx)
	g.mu.Lock()
	g.coordinator = nil
	g.mu.Unlock()
	g.event(Event{Kind: EventStoodDown, Token: term.Token(), Err: errors.New(why)})
	g.log.Info("this member is not the coordinator any more", "token", term.Token(), "reason", why)
	term.Resign()
	return served{aside: aside}
}
