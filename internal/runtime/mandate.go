package runtime

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/internal/protocol"
)

// Mandate is one victory. Its proof is read from the view that was published last, by the clock, with neither lock
// nor I/O.
type Mandate struct {
	r     *Runner
	count uint64 // of the token
	token fence.Token
	ctx   context.Context
	end   context.CancelCauseFunc

	over   atomic.Pointer[error] // why it has ended; set once
	joined atomic.Bool           // its work has returned

	// Owned by turns.
	delivered bool // to a Campaign: its caller reports when the work has returned
	stopped   bool
	ending    protocol.Reason // of the work, which was released; empty if that says it all
	joining   bool            // Joined is on its way to the machine
}

var _ interface {
	driver.Mandate
	driver.Confirmer
} = (*Mandate)(nil)

func newMandate(r *Runner, count uint64) *Mandate {
	m := &Mandate{r: r, count: count, token: r.Token(count)}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	return m
}

// lose ends the mandate. The first reason stays. When it returns the context has
// ended, whichever call was first.
func (m *Mandate) lose(why error) {
	m.over.CompareAndSwap(nil, &why)
	m.end(*m.over.Load())
}

func (m *Mandate) Token() fence.Token       { return m.token }
func (m *Mandate) Context() context.Context { return m.ctx }

// Check implements [driver.Mandate].
func (m *Mandate) Check() error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	v := m.r.seen.Load()
	now := m.r.cfg.Now()
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
		m.lose(plain(m.r.reason(protocol.Lapsed)))
	}
	// A late answer must not prove it again. The loop has not noticed yet, and the rest of the term is given up.
	m.r.Do(func() {
		if m.r.held == m && !m.stopped {
			m.r.Command(protocol.Command{Verb: protocol.Resign})
		}
	})
	return *m.over.Load()
}

// Remaining implements [driver.Mandate]. After a resignation it still tells for how long no other participant leads:
// the lease is renewed until Release.
func (m *Mandate) Remaining() (time.Duration, bool) {
	if why := m.over.Load(); m.joined.Load() || why != nil && !errors.Is(*why, driver.ErrResigned) && !errors.Is(*why, driver.ErrUnhealthy) {
		return 0, true
	}
	v := m.r.seen.Load()
	now := m.r.cfg.Now()
	mine := v.Token == m.count && v.Active || v.Role == protocol.Fencing && v.Leader.ID == m.r.cfg.ID
	if !mine || now.Boot >= v.LeaseEnd || now.Jumped(v.Read) {
		return 0, true
	}
	return v.LeaseEnd.Sub(now.Boot), true
}

// Over is why it has ended, nil if it has not.
func (m *Mandate) Over() error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	return nil
}

// Joined reports whether its work has returned.
func (m *Mandate) Joined() bool { return m.joined.Load() }

// Release implements [driver.Mandate]. It waits for no disk.
func (m *Mandate) Release(ctx context.Context) error {
	m.r.Call(func() { // that of a stopped Runner lapses
		m.ending = ending(driver.Ending(ctx))
		m.r.leave(m)
	})
	m.lose(plain(protocol.Withdrawn))
	return nil
}

// Confirm implements [driver.Confirmer].
func (m *Mandate) Confirm(ctx context.Context) error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	answer := make(chan error, 1)
	if !m.r.Do(func() { m.r.confirm(m, answer) }) {
		return ErrClosed
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
	asked uint64 // the number of commands to the machine
	wait  []confirmation
}

type confirmation struct {
	number uint64
	m      *Mandate
	answer chan<- error // has room for one
}

func (r *Runner) confirm(m *Mandate, answer chan<- error) {
	if r.held != m || m.stopped {
		m.lose(plain(r.reason(protocol.Lapsed))) // unless it was lost before, as it should
		answer <- *m.over.Load()
		return
	}
	r.confirms.asked++
	r.confirms.wait = append(r.confirms.wait, confirmation{r.confirms.asked, m, answer})
	r.Command(protocol.Command{Verb: protocol.Confirm})
}

// answer notifies the calls whose round trip is complete. A mandate that ended in between notifies its callers
// itself.
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
		w.answer <- ErrClosed
	}
	c.wait = nil
}

// plain is the end of a term in the terms of package driver.
func plain(r protocol.Reason) error { return &Ended{r} }

// Ended is the end of a term for a protocol's reason. It wraps the plain reason of package driver.
type Ended struct{ Reason protocol.Reason }

// Error implements error.
func (e *Ended) Error() string {
	_, says := e.Reason.Loss()
	if says == "" {
		return e.Unwrap().Error()
	}
	return e.Unwrap().Error() + ": " + says
}

// Unwrap returns the plain reason.
func (e *Ended) Unwrap() error {
	switch loss, _ := e.Reason.Loss(); loss {
	case protocol.Expired:
		return driver.ErrExpired
	case protocol.Unreachable:
		return driver.ErrUnreachable
	case protocol.Resigned:
		return driver.ErrResigned
	case protocol.Unfit:
		return driver.ErrUnhealthy
	case protocol.Closed:
		return driver.ErrClosed
	}
	return driver.ErrSuperseded
}

// ending is the reason for work that has ended for a word of elect.LostError; empty for work that was given up.
func ending(word string) protocol.Reason {
	for _, r := range []protocol.Reason{protocol.Lapsed, protocol.Unhealthy, protocol.Shutdown, "superseded", "quorum-lost"} {
		if loss, _ := r.Loss(); loss.String() == word {
			return r
		}
	}
	return ""
}
