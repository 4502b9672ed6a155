package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// Campaign waits until the participant has won and, for an exclusive candidacy, until its lease is proven.
func (r *Runner) Campaign(ctx context.Context, c driver.Candidacy) (*Mandate, error) {
	metadata, err := json.Marshal(c.Metadata)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("metadata: %w", err)) // it never fails for strings
	}
	for {
		w := &Candidacy{
			Candidacy: c, result: make(chan outcome, 1),
			Command: protocol.Command{Verb: protocol.Campaign, Metadata: string(metadata), Priority: c.Priority},
		}
		if !r.Do(func() { r.stand(w) }) {
			return nil, ErrClosed
		}
		select {
		case o := <-w.result:
			if o.err != nil {
				return nil, o.err
			}
			if o.m.Over() == nil && (!c.Exclusive || o.m.Check() == nil) {
				return o.m, nil
			}
			r.Call(func() { r.leave(o.m) }) // it was lost before the caller had it: no victory
		case <-ctx.Done():
			r.Call(func() { r.cancel(w) })
			return nil, context.Cause(ctx)
		}
	}
}

// stand begins a candidacy.
func (r *Runner) stand(c *Candidacy) {
	var err error
	switch {
	case r.waiter != nil:
		err = errors.New("another campaign of this participant waits; want one at a time")
	case r.held != nil && r.held.delivered:
		err = errors.New("the mandate of the last victory was not released; want that first")
	case r.cfg.Hooks.Stand != nil:
		err = r.cfg.Hooks.Stand(c)
	}
	if err != nil {
		c.result <- outcome{err: err}
		return
	}
	r.waiter = c
	r.Command(c.Command)
}

// cancel ends a candidacy, in any state.
func (r *Runner) cancel(c *Candidacy) {
	switch {
	case r.waiter == c:
		r.waiter = nil
		if r.held != nil {
			r.leave(r.held)
			return
		}
		r.withdraw()
	case c.won != nil: // and its caller has not read it
		r.leave(c.won)
	}
}

// Reject ends the waiting candidacy with an error. It is for turns.
func (r *Runner) Reject(err error) {
	if c := r.waiter; c != nil {
		r.cancel(c)
		c.result <- outcome{err: err}
	}
}

func (r *Runner) withdraw() {
	if r.cfg.Hooks.Withdrawn != nil {
		r.cfg.Hooks.Withdrawn()
	}
	r.Command(protocol.Command{Verb: protocol.Withdraw})
}

// deliver passes a victory to the waiting Campaign. A Runner that is being stopped delivers none, because no turn
// would end it.
func (r *Runner) deliver(m *Mandate) {
	if r.ending {
		return
	}
	c := r.waiter
	r.waiter, c.won, m.delivered = nil, m, true
	c.result <- outcome{m: m}
}

// elected, active and stopped carry out the machine's orders.
func (r *Runner) elected(count uint64) {
	m := newMandate(r, count)
	r.held = m
	r.counted.elected()
	if r.cfg.Hooks.Elected != nil {
		r.cfg.Hooks.Elected(m, r.waiter)
	}
	if r.waiter != nil && !r.waiter.Exclusive {
		r.deliver(m)
	}
}

func (r *Runner) active(count uint64) {
	m := r.held
	if m == nil || m.count != count {
		return
	}
	if r.cfg.Hooks.Active != nil {
		r.cfg.Hooks.Active(m)
	}
	if r.waiter != nil {
		r.deliver(m)
	}
}

func (r *Runner) stopped(count uint64, reason protocol.Reason) {
	m := r.held
	if m == nil || m.count != count || m.stopped {
		return
	}
	m.stopped = true
	m.lose(plain(reason))
	if r.cfg.Hooks.Stopped != nil {
		r.cfg.Hooks.Stopped(m, reason)
	}
	if !m.delivered {
		r.joinLater(m)
	}
}

func (r *Runner) joinLater(m *Mandate) {
	if !m.joining {
		m.joining = true
		r.joins = append(r.joins, m.count)
	}
}

// leave ends a mandate whose work has returned, and withdraws the candidacy.
func (r *Runner) leave(m *Mandate) {
	if r.held != m {
		return
	}
	m.delivered = false
	r.withdraw()
	if r.held == m { // it was not stopped before
		r.joinLater(m)
		r.join()
	}
}

// Lose ends the held mandate, if any: its work is told to stop, and its machine is not told. It is for turns.
func (r *Runner) Lose(why error) {
	if r.held != nil {
		r.held.lose(why)
	}
}

// GiveUp has a turn call do if this participant holds the term with that token; 0 means any term.
func (r *Runner) GiveUp(ctx context.Context, token fence.Token, do func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := driver.ErrNoLeader
	if !r.Call(func() {
		switch m := r.held; {
		case m == nil || m.Joined():
		case token != 0 && token != m.token:
			err = fmt.Errorf("%w: the leader has token %v", driver.ErrSuperseded, m.token)
		default:
			err = do()
		}
	}) {
		return ErrClosed
	}
	return err
}

// Resign gives up the term with that token; 0 means any term. The work's context ends, and the lease goes on until
// the work has returned.
func (r *Runner) Resign(ctx context.Context, token fence.Token) error {
	return r.GiveUp(ctx, token, func() error {
		if !r.held.stopped { // otherwise it is ending already
			r.Command(protocol.Command{Verb: protocol.Resign})
		}
		return nil
	})
}
