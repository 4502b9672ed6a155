package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
)

// settle makes the server follow the leader, turn by turn, while this node does not.
func (n *Node) settle(ctx context.Context) {
	for ctx.Err() == nil {
		again, err := n.turn(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errPromised) {
			n.doing(err.Error())
		}
		select {
		case <-ctx.Done():
		case <-n.wake:
		case <-time.After(again):
		}
	}
}

// turn looks at the leader and does the next step. It returns when to look again.
func (n *Node) turn(ctx context.Context) (time.Duration, error) {
	n.mu.Lock()
	leads, leader, since := n.term != nil, n.leader, n.leaderAt
	n.mu.Unlock()
	if leads {
		return restTime, nil
	}
	ctx, release, err := n.acquire(ctx)
	if err != nil {
		return turnTime, err
	}
	defer release()
	p, empty, err := n.look(ctx)
	if err != nil {
		if ctx.Err() == nil { // else a promise has interrupted it, and the node is as well as before
			n.judge(false, err.Error())
		}
		return restTime, err
	}
	r := n.record()
	var status Status
	if other := n.others[leader]; other != nil {
		asked, done := context.WithTimeout(ctx, restTime)
		status, err = other.status(asked, !r.Whole)
		done()
	}
	n.consider(ctx, r, p, empty, status)
	if leader == "" || leader == n.s.ID {
		return n.alone(ctx, r, empty, since)
	}
	if n.others[leader] == nil {
		return restTime, fmt.Errorf("%q leads, and is none of nodes; want an election of this name for this cluster alone", leader)
	}
	if err != nil {
		return turnTime, err
	}
	if status.Role != rolePrimary {
		return turnTime, nil
	}
	t := target{ID: leader, Token: status.Token, Eras: status.Eras}
	what, why := n.rules.plan(r, p, empty, t, status.SystemID)
	if what == follow && n.stuck(p, t) {
		what, why = rebuild, "it does not get on with streaming"
	}
	switch what {
	case stay:
		return restTime, errors.New(why)
	case follow:
		return n.follow(ctx, p, t, status)
	}
	if !status.Confirmed {
		asked, done := context.WithTimeout(ctx, askTime)
		status, err = n.others[leader].status(asked, true)
		done()
		if err != nil || !status.Confirmed || status.Token != t.Token {
			return turnTime, err
		}
	}
	return n.copy(ctx, what, why, t, status)
}

// consider decides whether this node stands.
func (n *Node) consider(ctx context.Context, r record, p server.Position, empty bool, leader Status) {
	behind := int64(-1)
	if leader.Role == rolePrimary {
		behind = int64(leader.LSN) - int64(p.LSN)
	}
	n.mu.Lock()
	n.behind = behind
	failures := n.failures
	n.mu.Unlock()
	a := n.rules.answer(n.s.ID, 0, r, p, empty)
	switch {
	case a.Blank:
		for _, s := range n.states(ctx) {
			if !s.Blank {
				n.judge(false, "it has no data, and "+s.ID+" has")
				return
			}
		}
	case !a.Whole:
		n.judge(false, a.Why)
		return
	case behind > int64(n.s.MaxLag)<<20:
		n.judge(false, fmt.Sprintf("it is %d MiB behind", behind>>20))
		return
	case failures > 2:
		n.judge(false, "its server does not start")
		return
	case n.db.Running() && time.Since(n.probed) >= restTime: // turns can be many
		one, done := context.WithTimeout(ctx, n.s.Probe.Limit)
		err := n.db.Probe(one)
		done()
		if err != nil && ctx.Err() == nil {
			n.judge(false, "its server is not well: "+err.Error())
			return
		}
		if err == nil {
			n.probed = time.Now()
		}
	}
	n.judge(true, "")
}

// alone is a turn without another leader. A server that was stopped is started, so that it is ready when this node wins.
func (n *Node) alone(ctx context.Context, r record, empty bool, since time.Time) (time.Duration, error) {
	if empty || !r.Whole || n.db.Running() || time.Since(since) < lonelyTime {
		return turnTime, nil
	}
	n.doing("there is no leader: starting as a standby of nobody")
	return restTime, n.start(ctx, nil)
}

// start starts a standby.
func (n *Node) start(ctx context.Context, from *server.Upstream) error {
	err := n.db.StartStandby(ctx, from)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved = time.Now()
	n.elsewhere = errors.Is(err, server.ErrElsewhere)
	if err == nil {
		n.failures = 0
	} else if ctx.Err() == nil {
		n.failures++
	}
	return err
}

// stuck reports that a replica does not stream although its primary answers, or cannot be started.
func (n *Node) stuck(p server.Position, t target) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.elsewhere {
		return false
	}
	return n.failures > 2 || n.follows == t.Token && !p.Streaming && time.Since(n.moved) > stuckTime
}

// upstream is a primary as the server has to know it.
func (n *Node) upstream(t target, s Status) server.Upstream {
	return server.Upstream{ID: t.ID, Address: n.s.node(t.ID).Postgres, Token: t.Token, Timeline: s.Timeline, History: s.History}
}

// follow makes the server stream from the primary.
func (n *Node) follow(ctx context.Context, p server.Position, t target, s Status) (time.Duration, error) {
	n.mu.Lock()
	told := n.follows == t.Token
	n.mu.Unlock()
	running := n.db.Running()
	if told && running {
		if p.Streaming && p.Timeline == s.Timeline {
			n.doing("")
			return restTime, nil
		}
		return turnTime, nil
	}
	if _, ok, err := n.update(func(r record) (record, bool) {
		if r.Promised > t.Token {
			return r, false
		}
		return n.rules.aim(r, p, t), true
	}); err != nil || !ok {
		return turnTime, err
	}
	n.doing(fmt.Sprintf("following %s under the token %d", t.ID, t.Token))
	up := n.upstream(t, s)
	var err error
	if running {
		err = n.db.Follow(ctx, up)
	} else {
		err = n.start(ctx, &up)
	}
	if err != nil {
		return restTime, err
	}
	n.mu.Lock()
	n.follows, n.moved, n.missed, n.hold = t.Token, time.Now(), 0, time.Time{} // another one has been promoted
	n.mu.Unlock()
	return turnTime / 2, nil
}

// copy rewinds or rebuilds the server from the primary.
func (n *Node) copy(ctx context.Context, what step, why string, t target, s Status) (time.Duration, error) {
	word := map[step]string{rewind: "rewinding", rebuild: "copying"}[what]
	n.doing(fmt.Sprintf("%s from %s: %s", word, t.ID, why))
	stop, done := context.WithTimeout(ctx, n.s.Grace)
	err := n.db.Stop(stop, server.Fast)
	done()
	if err != nil {
		return restTime, err
	}
	n.mu.Lock()
	n.copying, n.failures, n.follows, n.copyAt = true, 0, 0, time.Now()
	n.mu.Unlock()
	missed := func(token uint64) { n.mu.Lock(); defer n.mu.Unlock(); n.missed = token }
	breaking := func() error {
		_, ok, err := n.update(func(r record) (record, bool) {
			if r.Promised > t.Token {
				return r, false
			}
			return n.rules.breaking(r), true
		})
		if err == nil && !ok {
			err = errPromised
		}
		return err
	}
	up := n.upstream(t, s)
	if what == rewind {
		err = n.db.Rewind(ctx, up, breaking)
	} else {
		err = n.db.Rebuild(ctx, up, breaking)
	}
	if err != nil {
		missed(t.Token)
		return restTime, fmt.Errorf("%s from %s: %w", word, t.ID, err)
	}
	missed(0)
	asked, done := context.WithTimeout(ctx, askTime)
	after, err := n.others[t.ID].status(asked, false)
	done()
	if err != nil || after.Role != rolePrimary || after.Token != t.Token {
		return turnTime, err // once more, from who leads then
	}
	_, _, err = n.update(func(r record) (record, bool) {
		return n.rules.copied(r, t, s.SystemID, after.LSN), !r.Whole && r.Promised <= t.Token
	})
	return 0, err
}

// state implements controlled.
func (n *Node) state(ctx context.Context, confirm bool) Status {
	n.mu.Lock()
	r, p, term, ph := n.saved.record, n.seen, n.term, n.phase
	s := Status{
		Name: n.s.Name, ID: n.s.ID, SystemID: r.SystemID, Promised: r.Promised, Followed: r.Followed, Timeline: p.Timeline, LSN: p.LSN,
		Streaming: p.Streaming, Whole: n.rules.answer(n.s.ID, 0, r, p, n.empty).Whole, Blank: n.empty && !r.Whole && r.SystemID == 0,
		Paused: n.saved.Paused, Does: n.does, Role: roleStopped,
	}
	copying := n.copying
	switch {
	case copying && time.Since(n.copyAt) >= waitTime: // it gets on
	case n.missed != 0:
		s.Waiting = n.missed
	case !copying && !p.Streaming && p.Replayed > 0 && time.Since(n.moved) >= waitTime:
		s.Waiting = n.follows
	}
	n.mu.Unlock()
	switch {
	case term != nil && ph < promoted:
		s.Role, s.Token = roleLeader, uint64(term.Token())
	case term != nil:
		s.Role, s.Token, s.Eras, s.History = rolePrimary, uint64(term.Token()), r.Eras, p.History
		s.Serving = ph == serving && term.Check() == nil
		fresh, done := context.WithTimeout(ctx, restTime)
		defer done()
		now, err := n.db.Position(fresh) // a copy is measured by it
		if err != nil {
			s.Role, s.Does = roleLeader, err.Error()
			break
		}
		s.Timeline, s.LSN, s.History = now.Timeline, now.LSN, now.History
		if confirm {
			err := term.Confirm(fresh)
			if errors.Is(err, elect.ErrUnsupported) {
				err = term.Check()
			}
			s.Confirmed = err == nil
		}
	case copying:
		s.Role = roleStarting
	case n.db.Running():
		s.Role = roleReplica
	}
	return s
}

// handOver implements controlled.
func (n *Node) handOver(ctx context.Context, to string) error {
	n.mu.Lock()
	ph, term := n.phase, n.term
	n.mu.Unlock()
	if ph != serving {
		return errors.New("this node is not the primary; want the request there")
	}
	if to != "" && !slices.Contains(n.election.Limits().Abilities, elect.AbilityTransfer) {
		return errors.New("the election of this cluster cannot hand over to a node by name; want a switchover to any")
	}
	to, err := n.ready(ctx, uint64(term.Token()), to)
	if err != nil {
		return err
	}
	select {
	case n.handing <- to:
		return nil
	case <-time.After(askTime):
		return errors.New("the primary is busy; want the request once more")
	}
}

// pause implements controlled.
func (n *Node) pause(on bool) error {
	n.saving.Lock()
	defer n.saving.Unlock()
	n.mu.Lock()
	next := n.saved
	n.mu.Unlock()
	next.Paused = on
	if err := n.keep.save(next); err != nil {
		return err
	}
	n.mu.Lock()
	n.saved.Paused = on
	n.mu.Unlock()
	n.poke()
	return nil
}

func (n *Node) isPaused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.saved.Paused
}

// isPrimary is nil if clients may write here.
func (n *Node) isPrimary() error {
	n.mu.Lock()
	term, ph := n.term, n.phase
	n.mu.Unlock()
	if ph != serving {
		return errors.New("this node is not the primary")
	}
	if err := term.Check(); err != nil {
		return err
	}
	if !n.db.Running() {
		return errors.New("the server has ended")
	}
	return nil
}

// isReplica is nil if clients may read here.
func (n *Node) isReplica() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.term != nil:
		return errors.New("this node leads")
	case !n.saved.Whole || !n.seen.Streaming:
		return errors.New("this node does not stream")
	case n.behind < 0 || n.behind > int64(n.s.MaxLag)<<20:
		return fmt.Errorf("this node is %d bytes behind", n.behind)
	}
	return nil
}

// isHealthy is nil if the server runs.
func (n *Node) isHealthy() error {
	if !n.db.Running() {
		return errors.New("the server does not run")
	}
	return nil
}
