package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
)

var errClosed = fmt.Errorf("%w: the node was closed", driver.ErrClosed)

// mandate is one victory. What it proves is read from the latest view, by the
// clock, with neither lock nor I/O.
type mandate struct {
	n     *Node
	count uint64 // of the token
	token fence.Token
	ctx   context.Context
	end   context.CancelCauseFunc

	over   atomic.Pointer[error] // why it has ended; set once
	joined atomic.Bool           // its work has returned
}

var _ interface {
	driver.Mandate
	driver.Confirmer
	driver.Transferrer
	driver.Attestable
} = (*mandate)(nil)

// unproven is a victory without a lease: what it can do is no more than
// [driver.Mandate] asks for.
type unproven struct{ m *mandate }

func (u unproven) Token() fence.Token                { return u.m.token }
func (u unproven) Context() context.Context          { return u.m.ctx }
func (u unproven) Check() error                      { return u.m.Check() }
func (u unproven) Remaining() (time.Duration, bool)  { return 0, true }
func (u unproven) Release(ctx context.Context) error { return u.m.Release(ctx) }

func newMandate(n *Node, count uint64) *mandate {
	m := &mandate{n: n, count: count, token: n.token(count)}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	return m
}

// lose ends the mandate. The first reason stays. When it returns the context has
// ended, whoever was first.
func (m *mandate) lose(why error) {
	m.over.CompareAndSwap(nil, &why)
	m.end(*m.over.Load())
}

func (m *mandate) Token() fence.Token       { return m.token }
func (m *mandate) Context() context.Context { return m.ctx }

// Check implements [driver.Mandate].
func (m *mandate) Check() error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	v := m.n.seen.Load()
	now := m.n.now()
	switch {
	case v.Token == m.count && v.Proven(now):
		return nil
	case v.Token == m.count && v.Elected && !v.Active:
		return driver.ErrNotExclusive
	case now.Jumped(v.Read):
		m.lose(plain(protocol.ClockJump))
	case mutation.Is(mutation.LapseNotFinal):
		return plain(protocol.Lapsed)
	default:
		m.lose(plain(protocol.Lapsed))
	}
	// It must not be proven again by an answer that is late. The loop has yet to
	// notice, and what is left of the term is given up.
	m.n.inbox.put(item{do: func() {
		if t := m.n.tenure; t != nil && t.m == m && !t.stopped {
			m.n.command(protocol.Command{Verb: protocol.Resign})
		}
	}})
	return *m.over.Load()
}

// Remaining implements [driver.Mandate]. After a resignation it goes on to say
// for how long nobody else leads: the lease is renewed until Release.
func (m *mandate) Remaining() (time.Duration, bool) {
	if why := m.over.Load(); m.joined.Load() || why != nil && !errors.Is(*why, driver.ErrResigned) && !errors.Is(*why, driver.ErrUnhealthy) {
		return 0, true
	}
	v := m.n.seen.Load()
	now := m.n.now()
	mine := v.Token == m.count && v.Active || v.Role == protocol.Fencing && v.Leader.ID == m.n.cfg.ID
	if !mine || now.Boot >= v.LeaseEnd || now.Jumped(v.Read) {
		return 0, true
	}
	return v.LeaseEnd.Sub(now.Boot), true
}

// Release implements [driver.Mandate]. Nothing in it waits for a disk; with
// positions it waits until the successor has caught up, see [Node.align].
func (m *mandate) Release(ctx context.Context) error {
	m.n.align(ctx, m)
	m.n.call(func() { m.n.leave(m) }) // of a node that was closed it lapses
	m.lose(plain(protocol.Withdrawn))
	return nil
}

// Confirm implements [driver.Confirmer].
func (m *mandate) Confirm(ctx context.Context) error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	answer := make(chan error, 1)
	if !m.n.inbox.put(item{do: func() { m.n.confirm(m, answer) }}) {
		return errClosed
	}
	select {
	case err := <-answer:
		return err
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// confirms are the Confirm calls that wait for a round trip. The loop owns them.
type confirms struct {
	asked uint64 // commands given to the machine
	wait  []confirmation
}

type confirmation struct {
	number uint64
	m      *mandate
	answer chan<- error // has room for one
}

func (n *Node) confirm(m *mandate, answer chan<- error) {
	if n.tenure == nil || n.tenure.m != m || n.tenure.stopped {
		m.lose(plain(protocol.Lapsed)) // unless it was lost before, as it should
		answer <- *m.over.Load()
		return
	}
	n.confirms.asked++
	n.confirms.wait = append(n.confirms.wait, confirmation{n.confirms.asked, m, answer})
	n.command(protocol.Command{Verb: protocol.Confirm})
}

// answer tells those whose round trip has been made. A mandate that ended in
// between tells its callers itself.
func (c *confirms) answer(confirmed uint64) {
	kept := c.wait[:0]
	for _, w := range c.wait {
		why := w.m.over.Load()
		switch {
		case why != nil:
			w.answer <- *why
		case w.number <= confirmed:
			w.answer <- nil
		default:
			kept = append(kept, w)
		}
	}
	clear(c.wait[len(kept):])
	c.wait = kept
}

func (c *confirms) quit() {
	for _, w := range c.wait {
		w.answer <- errClosed
	}
	c.wait = nil
}

// plain is the plain reason of package driver for that of the protocol.
func plain(r protocol.Reason) error {
	loss, says := r.Loss()
	kind := driver.ErrSuperseded
	switch loss {
	case protocol.Expired:
		kind = driver.ErrExpired
	case protocol.Unreachable:
		kind = driver.ErrUnreachable
	case protocol.Resigned:
		kind = driver.ErrResigned
	case protocol.Unfit:
		kind = driver.ErrUnhealthy
	}
	if says == "" {
		return kind
	}
	return fmt.Errorf("%w: %s", kind, says)
}
