package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// mandate is one tenure: it renews its lease until it is released or lost.
type mandate struct {
	e      *Elector
	nonce  string
	leader driver.Leader
	ctx    context.Context
	end    context.CancelCauseFunc

	stop   context.CancelFunc // of keep
	joined chan struct{}      // closed when keep has returned

	mu       sync.Mutex
	claimEnd time.Time // the end of the own lease, counted from before a request was sent
	trouble  error     // of the last request; nil if it was answered
	over     error     // why it ended for good; nil while it goes on
}

func newMandate(e *Elector, nonce string, leader driver.Leader, claimEnd time.Time) *mandate {
	m := &mandate{e: e, nonce: nonce, leader: leader, claimEnd: claimEnd, joined: make(chan struct{})}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.keep(ctx)
	return m
}

func (m *mandate) Token() fence.Token       { return m.leader.Token }
func (m *mandate) Context() context.Context { return m.ctx }

func (m *mandate) Remaining() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over != nil {
		return 0, true
	}
	return max(0, time.Until(m.claimEnd)), true
}

func (m *mandate) Check() error {
	m.mu.Lock()
	over := m.lapse()
	m.mu.Unlock()
	if over != nil {
		m.end(over)
	}
	return over
}

// lapse ends the mandate if its lease has run out, and returns why it is over.
// The caller holds m.mu.
func (m *mandate) lapse() error {
	if m.over == nil && !time.Now().Before(m.claimEnd) {
		m.over = fmt.Errorf("%w: not renewed in time", driver.ErrExpired)
		if m.trouble != nil {
			m.over = fmt.Errorf("%w: %w: not renewed in time: %w", driver.ErrUnreachable, driver.ErrExpired, m.trouble)
		}
	}
	return m.over
}

// lose ends the mandate for good; the first reason stays.
func (m *mandate) lose(cause error) {
	m.mu.Lock()
	if m.lapse() == nil {
		m.over = cause
	}
	over := m.over
	m.mu.Unlock()
	m.end(over)
}

// keep renews the lease, also after a recall: until the work is joined and Release is called, no
// other participant may lead.
func (m *mandate) keep(stop context.Context) {
	defer close(m.joined)
	ctx, done := m.e.bound(stop)
	defer done()
	period := m.e.lease / renewalsPerLease
	next := time.Now().Add(period)
	for m.e.link.thawed(ctx) == nil && ctx.Err() == nil && m.Check() == nil {
		storeChanged, _ := m.e.link.changes()
		due := !time.Now().Before(next)
		if due {
			next = time.Now().Add(period)
		}
		m.ask(ctx, due)
		left, _ := m.Remaining()
		select {
		case <-ctx.Done():
		case <-storeChanged: // another participant's act may concern this one: a recall, a new store
		case <-time.After(min(left, time.Until(next))):
		}
	}
	if m.e.closed.Err() != nil {
		m.lose(driver.ErrClosed)
	}
}

// ask reads the record, or renews the lease if that is due, and acts on the answer. It waits no
// longer than the lease lasts.
func (m *mandate) ask(ctx context.Context, renew bool) {
	left, _ := m.Remaining()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	seen, err := answer{}, error(nil)
	if renew {
		seen, err = m.prolong(ctx)
	} else {
		seen, err = m.e.link.call(ctx, func() answer { return m.e.link.store.read(m.e.name) })
		m.note(err)
	}
	switch {
	case err != nil:
	case seen.holder != m.nonce:
		m.lose(fmt.Errorf("%w: the lease is not ours any more", driver.ErrSuperseded))
	case seen.recalled:
		m.end(fmt.Errorf("%w: recalled", driver.ErrResigned))
	}
}

// note keeps the error of the last request, which is the reason if the lease runs out now.
func (m *mandate) note(trouble error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = trouble
}

// prolong sends one renewal. Without an answer the claim of the last answered one runs on, and an
// answer after the lease has lapsed revives nothing.
func (m *mandate) prolong(ctx context.Context) (answer, error) {
	sent := time.Now()
	a, err := m.e.link.call(ctx, func() answer { return m.e.link.store.renew(m.e.name, m.nonce, m.e.lease) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = err
	if end := sent.Add(m.e.lease); err == nil && a.granted && m.lapse() == nil && end.After(m.claimEnd) {
		m.claimEnd = end
	}
	return a, err
}

// Confirm implements [driver.Confirmer].
func (m *mandate) Confirm(ctx context.Context) error {
	if err := m.Check(); err != nil {
		return err
	}
	ctx, done := m.e.bound(ctx)
	defer done()
	a, err := m.prolong(ctx)
	if err == nil && !a.granted {
		m.lose(fmt.Errorf("%w: the lease is not ours any more", driver.ErrSuperseded))
		return m.Check()
	}
	return err
}

// SetMetadata implements [driver.MetadataSetter].
func (m *mandate) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	ctx, done := m.e.bound(ctx)
	defer done()
	a, err := m.e.link.call(ctx, func() answer { return m.e.link.store.publish(m.e.name, m.nonce, metadata) })
	if err == nil && !a.granted {
		m.lose(fmt.Errorf("%w: the lease is not ours any more", driver.ErrSuperseded))
		return m.Check()
	}
	return err
}

// Release implements [driver.Mandate].
func (m *mandate) Release(ctx context.Context) error { return m.leave(ctx, "") }

// Eligible implements [driver.MandateTransferrer].
func (m *mandate) Eligible(to string) error {
	if m.e.link.reachable() != nil {
		return nil // nothing is known
	}
	return m.e.link.store.eligible(m.e.name, to)
}

// Transfer implements [driver.MandateTransferrer]. The store keeps the place for the
// successor for one lease.
func (m *mandate) Transfer(ctx context.Context, to string) error { return m.leave(ctx, to) }

func (m *mandate) leave(ctx context.Context, to string) error {
	m.stop()
	<-m.joined
	m.lose(driver.ErrResigned)
	if m.e.closed.Err() != nil && m.e.link.reachable() != nil {
		return nil // crashed, or closed out of reach: it lapses
	}
	for {
		_, err := m.e.link.call(ctx, func() answer { return m.e.link.store.release(m.e.name, m.nonce, to) })
		if !errors.Is(err, driver.ErrUnknownOutcome) || ctx.Err() != nil {
			return err
		}
	}
}
