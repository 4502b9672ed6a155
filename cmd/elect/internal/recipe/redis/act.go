package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/mutation"
)

// Times of an acting elector.
const (
	switchLimit   = 15 * time.Second // of a planned failover
	pauseLimit    = 5 * time.Second  // of it, for which the master takes no writes at most
	alone         = 10 * time.Second // without a majority or the master, after which it lets another elector act
	skipTime      = time.Second      // after an order that has failed
	retryInterval = 100 * time.Millisecond
)

// actor is an elector that acts, for one term. Its fields belong to the goroutine of the work, but for those that say
// otherwise.
type actor struct {
	e     *Elector
	ctx   context.Context
	token elect.Token
	check func() error
	log   func(msg string, args ...any)

	decision Decision
	told     Decision
	number   uint64 // of decision; 0 before it was learned
	tried    uint64 // the greatest number that was proposed, with or without success
	set      map[string]bool
	allSet   bool                 // all servers have the settings of this configuration
	skip     map[string]time.Time // when an order has failed
	said     string               // the last reason to wait
	together time.Time            // when a majority of electors last answered
	blind    time.Time            // since when others see the master, and this one does not; zero: that is not so
	held     bool                 // servers were taken away from their master, and not given back
	alarms   int                  // how often a late master has answered again

	shooting sync.WaitGroup

	mu      sync.Mutex           // guards what follows
	orders  map[string]*conn     // by server; used by one goroutine a server at a time
	touched map[string]time.Time // after the last order: what was seen before it is old
	away    map[string]taken     // by server: when it was taken away from its master
	shots   map[string]shot      // by server: the last run of the fence command
}

// taken says since when a life of a server follows nobody.
type taken struct {
	life string
	at   time.Time
	part bool // its data are a part of its master's
}

// act is the work of a term.
func (e *Elector) act(ctx context.Context, term *elect.Term) error {
	a := &actor{
		e: e, ctx: ctx, token: term.Token(), check: term.Check, orders: map[string]*conn{}, set: map[string]bool{},
		skip: map[string]time.Time{}, touched: map[string]time.Time{}, away: map[string]taken{}, shots: map[string]shot{}, together: time.Now(),
	}
	log := e.log.With("token", a.token)
	a.log = func(msg string, args ...any) { log.Info(msg, args...) }
	a.log("this elector acts")
	e.mu.Lock()
	e.actor = a
	e.mu.Unlock()
	// Others see who acts, and this one sees what they find, without waiting for an order.
	var wg sync.WaitGroup
	for _, p := range e.others {
		p.forget()
		wg.Go(func() { a.keepAsking(p) })
	}
	defer func() {
		e.mu.Lock()
		e.actor, e.waits = nil, ""
		e.mu.Unlock()
		wg.Wait()
		a.shooting.Wait()
		for _, c := range a.orders {
			_ = c.Close()
		}
	}()
	for ctx.Err() == nil {
		if err := a.turn(); err != nil && ctx.Err() == nil {
			a.wait(err.Error())
		}
		if why := a.useless(); why != nil {
			term.GiveWay(why)
			break
		}
		select {
		case <-ctx.Done():
		case <-e.wake:
		case j := <-e.jobs:
			j.done <- a.planned(j.to)
		case <-time.After(e.cfg().poll() / 4):
		}
	}
	<-ctx.Done() // work that has returned before the end of its term ends the election
	return nil
}

// useless is why another elector had better act, or nil.
func (a *actor) useless() error {
	switch {
	case time.Since(a.together) > alone:
		return fmt.Errorf("no majority of the electors has answered for %v; want another elector to act", alone)
	case !a.blind.IsZero() && time.Since(a.blind) > alone:
		return fmt.Errorf("this elector has not reached the master %s for %v, and others do; want another elector to act", a.decision.Master, alone)
	}
	return nil
}

// wait says why nothing can be done, once.
func (a *actor) wait(why string) {
	a.e.mu.Lock()
	a.e.waits = why
	a.e.mu.Unlock()
	if why != a.said && why != "" {
		a.log("waiting: " + why)
	}
	a.said = why
}

// keepAsking asks one other elector what it sees.
func (a *actor) keepAsking(p *colleague) {
	var down map[string]Down
	var late map[string]bool
	for a.ctx.Err() == nil {
		answer, err := p.ask(a.ctx, question{Op: opSee, Token: a.token})
		if err == nil && !(maps.Equal(down, answer.Down) && maps.Equal(late, answer.Late)) {
			down, late = answer.Down, answer.Late
			a.e.changed()
		}
		// One that was not there when clients were told is told now.
		if own := a.e.ledger.read().Announced; err == nil && own.Token == a.token && answer.Kept.Announced.before(own) {
			_, _ = p.ask(a.ctx, question{Op: opAnnounce, Token: a.token, Decision: &own})
		}
		// When this one finds the master late their finding is wanted now.
		for next := time.Now().Add(a.e.cfg().poll()); time.Now().Before(next) && a.ctx.Err() == nil; {
			wait(a.ctx, min(20*time.Millisecond, a.e.cfg().poll()))
			if s := a.e.watchers[a.master()].sight(); s.Fails > 0 || s.late(time.Now(), a.e.cfg().overdue(0)) {
				break
			}
		}
	}
}

// master is the last announced master, for any goroutine.
func (a *actor) master() string { return a.e.ledger.read().Announced.Master }

// turn looks at the world and takes one step.
func (a *actor) turn() error {
	if a.number == 0 {
		if err := a.learn(); err != nil {
			return err
		}
	}
	w := a.world()
	s := w.Next()
	if s.Kind != Wait && w.Skip[s.Server] {
		return nil // it has failed just now, and the reason was said
	}
	err := a.take(s)
	if err != nil && s.Server != "" {
		a.skip[s.Server] = time.Now()
	}
	if errors.Is(err, errWaits) {
		a.wait(strings.TrimPrefix(err.Error(), errWaits.Error()+": "))
		return nil
	}
	return err
}

// outsiders is how many replicas that are not in servers the master had when electors last saw it.
func (a *actor) outsiders() int {
	n := int(a.e.outsiders.Load())
	for _, p := range a.e.others {
		if answer, ok := p.latest(); ok {
			n = max(n, answer.Outsiders)
		}
	}
	return n
}

// world is what this actor knows.
func (a *actor) world() *World {
	cfg := a.e.cfg()
	w := &World{Config: cfg, Now: time.Now(), Decision: a.decision, Told: a.told, Sights: map[string]Sight{}, Set: a.set, Skip: map[string]bool{}, Held: a.held, Alarms: a.alarms}
	a.mu.Lock()
	touched := maps.Clone(a.touched)
	a.mu.Unlock()
	a.e.ledger.hear(a.token, cfg.ID)
	for id, watcher := range a.e.watchers {
		s := watcher.sight()
		if !s.InfoAt.After(touched[id]) {
			s.InfoAt = time.Time{}
		}
		w.Sights[id] = s
		w.Skip[id] = time.Since(a.skip[id]) < skipTime
	}
	m := w.Sights[a.decision.Master]
	if m.down(w.Now, cfg.DownAfter) != Up {
		w.Votes++
	}
	if m.late(w.Now, cfg.overdue(a.alarms)) {
		w.Late++
	}
	answering := 1
	for _, p := range a.e.others {
		answer, ok := p.latest()
		if !ok {
			continue
		}
		answering++
		if answer.Down[a.decision.Master] != Up {
			w.Votes++
		}
		if answer.Late[a.decision.Master] {
			w.Late++
		}
	}
	if mutation.Is(mutation.OneEye) && w.Votes > 0 {
		w.Votes = cfg.Quorum
	}
	a.allSet = w.allSet()
	if answering >= majority(len(cfg.Electors)) {
		a.together = time.Now()
	}
	switch blind := m.down(w.Now, cfg.DownAfter) != Up && w.Votes < cfg.Quorum; {
	case !blind:
		a.blind = time.Time{}
	case a.blind.IsZero():
		a.blind = w.Now
	}
	return w
}

func (a *actor) take(s Step) error {
	switch s.Kind {
	case Wait:
		a.wait(s.Why)
		return nil
	case Adopt:
		a.log("adopting the master "+s.Server, "why", s.Why)
		return a.confirm(s.Server)
	case Confirm:
		return a.confirm(s.Server)
	case Announce:
		return a.announce()
	case Suspend:
		a.log("taking the replicas away from "+s.Server+", which may be down", "why", s.Why)
		a.hold("", s.Server)
		return nil
	case Resume:
		a.log("giving the replicas back to "+s.Server, "why", s.Why)
		a.alarms++
		a.followAll(s.Server)
		return nil
	case SwitchOver:
		a.log("failover: the master "+s.Server+" is ill", "why", s.Why)
		err := a.switchOver("")
		if err == nil || a.ctx.Err() != nil {
			return err
		}
		a.log("the master cannot hand over", "error", err)
		return a.force(s.Why, "")
	case Fail:
		a.log("failover: the master "+s.Server+" is down", "why", s.Why)
		a.e.mu.Lock()
		told := a.e.odown == s.Server
		a.e.odown = s.Server
		a.e.mu.Unlock()
		if !told {
			a.e.clients.publish("+odown", a.e.instance(a.e.cfg().server(s.Server), s.Server)+fmt.Sprintf(" #quorum %d/%d", a.e.cfg().Quorum, len(a.e.cfg().Electors)))
		}
		return a.force(s.Why, "")
	case Finish:
		a.log("promoting "+s.Server, "why", s.Why)
		return a.force(s.Why, s.Server)
	case Demote:
		a.log("demoting "+s.Server, "why", s.Why)
		return a.follow(s.Server, true)
	case Repoint:
		a.log("repointing "+s.Server, "why", s.Why)
		return a.follow(s.Server, false)
	case Configure:
		return a.configure(s.Server)
	}
	return fmt.Errorf("the step %q is unknown", s.Kind)
}

// errWaits is for steps that can only wait.
var errWaits = errors.New("waiting")

// confirm decides that a server is master as it is.
func (a *actor) confirm(id string) error {
	i, err := a.info(id)
	if err != nil {
		return err
	}
	if !i.Master {
		return fmt.Errorf("%s has become a replica; want it seen again", id)
	}
	d := a.decision
	if d.Master != id {
		d.Epoch++
	}
	d.Master, d.RunID, d.ReplID, d.Previous, d.Until = id, i.RunID, i.ReplID, i.Previous, i.Until
	if err := a.decide(d); err != nil {
		return err
	}
	return a.announce()
}

// learn has a majority promise this token, and decides what the newest decision among them says, so that a majority
// has it. If nothing was ever decided, nothing is.
func (a *actor) learn() error {
	newest := Decision{}
	note := func(k entries) {
		if newest.before(k.Accepted) {
			newest = k.Accepted
		}
	}
	if mutation.Is(mutation.OwnLedger) {
		note(a.e.ledger.read())
	} else if err := a.majority(question{Op: opPromise, Token: a.token}, func() (entries, error) {
		return a.e.ledger.promise(a.token)
	}, note); err != nil {
		return err
	}
	if newest.none() {
		a.log("nothing was decided yet")
		a.number = 1
		return nil
	}
	a.log("the decision is: the master is "+newest.Master, "of", newest.Token)
	return a.decide(newest)
}

// decide makes a decision durable at a majority.
func (a *actor) decide(d Decision) error {
	a.tried = max(a.tried, a.number) + 1 // another value never has the number of one that failed
	d.Token, d.Number = a.token, a.tried
	if cfg := a.e.cfg(); a.allSet {
		d.Lag, d.ToWrite = cfg.MaxLag, cfg.ToWrite
	} else if d.Lag > 0 { // some may have these, and some those before
		d.Lag, d.ToWrite = max(d.Lag, cfg.MaxLag), min(d.ToWrite, cfg.ToWrite)
	}
	if err := a.check(); err != nil {
		return err
	}
	if err := a.majority(question{Op: opAccept, Token: a.token, Decision: &d}, func() (entries, error) {
		return entries{}, a.e.ledger.accept(d)
	}, func(entries) {}); err != nil {
		return err
	}
	a.decision, a.number = d, d.Number
	return nil
}

// announce tells all electors the decision. One that is not reached is told when it answers again.
func (a *actor) announce() error {
	d := a.decision
	if err := a.check(); err != nil {
		return err
	}
	err := a.majority(question{Op: opAnnounce, Token: a.token, Decision: &d}, func() (entries, error) {
		return entries{}, a.e.announce(d)
	}, func(entries) {})
	if err != nil {
		return err
	}
	a.told = d
	return nil
}

// majority asks all electors, this one by own, until a majority has agreed.
func (a *actor) majority(q question, own func() (entries, error), note func(entries)) error {
	type reply struct {
		kept entries
		err  error
	}
	need := majority(len(a.e.cfg().Electors))
	replies := make(chan reply, len(a.e.others)+1)
	go func() {
		k, err := own()
		replies <- reply{k, err}
	}()
	for _, p := range a.e.others {
		go func() {
			answer, err := p.ask(a.ctx, q)
			replies <- reply{answer.Kept, err}
		}()
	}
	agreed := 0
	var errs []error
	for range len(a.e.others) + 1 {
		r := <-replies
		if r.err != nil {
			errs = append(errs, r.err)
			continue
		}
		note(r.kept)
		if agreed++; agreed == need {
			return nil
		}
	}
	return fmt.Errorf("%d of %d electors agree to %s, and %d are wanted: %w", agreed, len(a.e.cfg().Electors), q.Op, need, errors.Join(errs...))
}
