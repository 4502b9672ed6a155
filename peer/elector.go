package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/disk"
)

// candidacy is a Campaign that waits. What is below result is the loop's.
type candidacy struct {
	exclusive bool
	metadata  map[string]string
	command   protocol.Command
	result    chan outcome // has room for one

	won *mandate // what result was given
}

type outcome struct {
	m   *mandate
	err error
}

// tenure is a term that was won, until its work has returned. The loop owns it.
type tenure struct {
	m       *mandate
	given   bool // to a Campaign: whoever has it says when the work has returned
	stopped bool
	leaving bool // Joined is on its way to the machine
}

// call has the loop do something, and waits until its effects were carried out.
// It reports false when the loop has ended.
func (n *Node) call(do func()) bool {
	done := make(chan struct{})
	if !n.inbox.put(item{do: func() { defer close(done); do() }}) {
		return false
	}
	<-done // also when the node is closed: what waits is taken then
	return true
}

// Campaign implements [driver.Elector]. An observer's is refused for good, and
// so is that of a node whom so many voters refuse for good that the rest is no
// majority, such as one with a wiped data directory.
func (n *Node) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if n.cfg.observer() && !n.cfg.Join && !n.votes() {
		return nil, driver.Permanent(fmt.Errorf("%s is an observer and cannot lead; the voters are %s", n.cfg.ID, list(ids(n.voters()))))
	}
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return nil, driver.Permanent(err)
	}
	if err := n.dialect.lacks(leases); err != nil && c.Exclusive {
		return nil, err
	}
	if err := n.dialect.lacks(priorities); err != nil && c.Priority != 0 {
		return nil, err
	}
	if err := driver.CheckPriority(c.Priority); err != nil {
		return nil, driver.Permanent(err)
	}
	n.locator.fresh(ctx)
	metadata, err := json.Marshal(c.Metadata)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("metadata: %w", err)) // of strings it never fails
	}
	for {
		w := &candidacy{
			exclusive: c.Exclusive, metadata: c.Metadata, result: make(chan outcome, 1),
			command: protocol.Command{Verb: protocol.Campaign, Metadata: string(metadata), Priority: c.Priority},
		}
		if !n.inbox.put(item{do: func() { n.stand(w) }}) {
			return nil, errClosed
		}
		select {
		case o := <-w.result:
			if o.err != nil {
				return nil, o.err
			}
			if o.m.over.Load() == nil && (!c.Exclusive || o.m.Check() == nil) {
				if n.dialect.lacks(leases) != nil {
					return unproven{o.m}, nil
				}
				return o.m, nil
			}
			n.call(func() { n.leave(o.m) }) // it was lost before anybody had it: no victory
		case <-ctx.Done():
			n.call(func() { n.forgo(w) })
			return nil, context.Cause(ctx)
		}
	}
}

// stand takes a candidacy on.
func (n *Node) stand(w *candidacy) {
	switch {
	case n.waiter != nil:
		w.result <- outcome{err: errors.New("another campaign of this participant waits; want one at a time")}
		return
	case n.tenure != nil && n.tenure.given:
		w.result <- outcome{err: errors.New("the mandate of the last victory was not released; want that first")}
		return
	}
	if err := n.hopeless(); err != nil {
		w.result <- outcome{err: err}
		return
	}
	n.waiter = w
	if p := w.command.Priority; p != 0 {
		n.priority.Store(int64(p))
	}
	n.command(w.command)
}

// forgo ends a candidacy, whatever it has come to.
func (n *Node) forgo(w *candidacy) {
	switch {
	case n.waiter == w:
		n.waiter = nil
		n.locator.enough(errNoCandidate)
		if n.tenure != nil {
			n.leave(n.tenure.m)
			return
		}
		n.command(protocol.Command{Verb: protocol.Withdraw})
	case w.won != nil: // and nobody has looked
		n.leave(w.won)
	}
}

var errNoCandidate = errors.New("this node does not campaign any more")

// deliver gives a victory to the Campaign that waits for one. Of a node that is
// being closed there is none: nothing would end it.
func (n *Node) deliver(t *tenure) {
	if n.ending {
		return
	}
	w := n.waiter
	n.waiter, w.won, t.given = nil, t.m, true
	w.result <- outcome{m: t.m}
}

// elected, active and stopped carry out the machine's orders.
func (n *Node) elected(count uint64) {
	t := &tenure{m: newMandate(n, count)}
	n.tenure, n.leaseEnd, n.heir = t, 0, ""
	n.counted.elected()
	n.lastCount = count
	n.own = leadership{incarnation: n.incarnation.Load(), term: count, token: count, since: time.Now().UnixNano()}
	if n.waiter != nil {
		n.own.metadata = n.waiter.metadata
		if len(n.own.metadata) > 0 {
			n.own.raw = n.waiter.command.Metadata
		}
	}
	n.note("elected", t.m.token, "", time.Now())
	n.log.Info("elected", "token", t.m.token)
	if n.waiter != nil && !n.waiter.exclusive {
		n.deliver(t)
	}
}

func (n *Node) active(count uint64) {
	t := n.tenure
	if t == nil || t.m.count != count {
		return
	}
	n.note("active", t.m.token, "", time.Now())
	if n.waiter != nil {
		n.deliver(t)
	}
}

func (n *Node) stopped(count uint64, reason protocol.Reason) {
	t := n.tenure
	if t == nil || t.m.count != count || t.stopped {
		return
	}
	t.stopped = true
	t.m.lose(plain(reason))
	n.note("lost", t.m.token, string(reason), n.ended())
	n.log.Info("leadership ended", "token", t.m.token, "reason", string(reason))
	if !t.given {
		n.joinLater(t)
	}
}

func (n *Node) joinLater(t *tenure) {
	if !t.leaving {
		t.leaving = true
		n.joins = append(n.joins, t.m.count)
	}
}

// leave gives a mandate up whose work has returned, and stops being a candidate.
func (n *Node) leave(m *mandate) {
	t := n.tenure
	if t == nil || t.m != m {
		return
	}
	t.given = false
	n.locator.enough(errNoCandidate)
	n.command(protocol.Command{Verb: protocol.Withdraw})
	if n.tenure == t { // it had stopped before
		n.joinLater(t)
		n.join()
	}
}

// quit ends what waits for the node, when it is closed.
func (n *Node) quit() {
	if w := n.waiter; w != nil {
		n.waiter = nil
		w.result <- outcome{err: errClosed}
	}
	n.confirms.quit()
	n.states.close()
}

// resign gives leadership up if this node has it: the work's context ends, and
// the lease goes on until the work has returned.
func (n *Node) resign(ctx context.Context, token fence.Token) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := driver.ErrNoLeader
	if !n.call(func() {
		t := n.tenure
		switch {
		case t == nil || t.m.joined.Load():
		case token != 0 && token != t.m.token:
			err = fmt.Errorf("%w: the leader has token %v", driver.ErrSuperseded, t.m.token)
		case !t.stopped:
			err = nil
			n.command(protocol.Command{Verb: protocol.Resign})
		default:
			err = nil // it is on its way out
		}
	}) {
		return errClosed
	}
	return err
}

// Recall implements [driver.Recaller]: on the leader it resigns, on any other
// node it is passed on to the leader.
func (n *Node) Recall(ctx context.Context, token fence.Token) error {
	return n.atLeader(ctx, n.resign(ctx, token), verbResign, token, resignation{Forwarded: true, By: askedBy(ctx)})
}

// atLeader asks the leader, if err says that this node does not lead.
func (n *Node) atLeader(ctx context.Context, err error, verb string, token fence.Token, body any) error {
	if !errors.Is(err, driver.ErrNoLeader) {
		return err
	}
	s, ok := n.led(ctx)
	switch {
	case !ok && ctx.Err() != nil:
		return context.Cause(ctx)
	case !ok:
		return errClosed
	case s.Stale:
		return fmt.Errorf("%w: who leads cannot be told: %w", driver.ErrUnreachable, s.Cause)
	case s.Leader == nil || s.Leader.ID == string(n.cfg.ID):
		return driver.ErrNoLeader
	}
	return n.forward(ctx, protocol.NodeID(s.Leader.ID), verb, token, body)
}

// led waits until somebody is known to lead: for a heartbeat, because one that was
// elected a moment ago is known to itself only. ok is as of states.wait.
func (n *Node) led(ctx context.Context) (s driver.State, ok bool) {
	if s, ok = n.states.wait(ctx); !ok {
		return s, false
	}
	late := time.NewTimer(min(n.plan.Heartbeat, 500*time.Millisecond)) // the first one is sent at once
	defer late.Stop()
	for {
		s, _, changed, open := n.states.get()
		if !open || s.Leader != nil || s.Cause != nil {
			return s, open
		}
		select {
		case <-changed:
		case <-late.C:
			return s, true
		case <-ctx.Done():
			return s, false
		}
	}
}

// Observe implements [driver.Elector]. A node that has just started waits until
// it has heard a leader, or can tell that there is none, for at most a promise:
// before, it knows nothing.
func (n *Node) Observe(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		var last uint64
		for {
			s, version, changed, open := n.states.get()
			if !open || ctx.Err() != nil {
				return
			}
			if version != last {
				last = version
				if !yield(s, nil) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// history is what the node remembers of changes of leadership.
func (n *Node) history() ([]Event, error) { return n.dir.History() }

// ended is when the leadership ended that ends now. One whose process was stopped
// may notice long after its lease has run out, when another leads; by the wall
// clock that was as long ago as it is by the Boot clock.
func (n *Node) ended() time.Time {
	late := time.Duration(0)
	if n.leaseEnd != 0 {
		late = max(n.latest.Boot.Sub(n.leaseEnd), 0)
	}
	return time.Now().Add(-late)
}

// note remembers an event of the own leadership.
func (n *Node) note(event string, token fence.Token, reason string, at time.Time) {
	n.scribe.put(disk.History{At: at, Event: event, Leader: n.cfg.ID, Token: token, Reason: reason})
}
