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

	stop   context.CancelFunc // of renew
	joined chan struct{}      // closed when renew has returned

	mu       sync.Mutex
	claimEnd time.Time // until when the lease is ours, counted from before a request was sent
	over     error     // why it ended for good; nil while it goes on
}

func newMandate(e *Elector, nonce string, leader driver.Leader, claimEnd time.Time) *mandate {
	m := &mandate{e: e, nonce: nonce, leader: leader, claimEnd: claimEnd, joined: make(chan struct{})}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.renew(ctx)
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
	if m.over == nil && !time.Now().Before(m.claimEnd) {
		m.over = fmt.Errorf("%w: not renewed in time", driver.ErrExpired)
	}
	over := m.over
	m.mu.Unlock()
	if over != nil {
		m.end(over)
	}
	return over
}

// lose ends the mandate for good.
func (m *mandate) lose(cause error) {
	m.mu.Lock()
	if m.over == nil {
		m.over = cause
	}
	m.mu.Unlock()
	m.end(cause)
}

// extend counts an answered renewal, unless the lease lapsed before the answer
// came: a late answer revives nothing.
func (m *mandate) extend(sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if end := sent.Add(m.e.cfg.Lease); m.over == nil && time.Now().Before(m.claimEnd) && end.After(m.claimEnd) {
		m.claimEnd = end
	}
}

// renew keeps the lease, also after the mandate was asked back: until the work
// is joined and Release is called, nobody else may lead.
func (m *mandate) renew(ctx context.Context) {
	defer close(m.joined)
	period := m.e.cfg.Lease / renewalsPerLease
	next := time.Now().Add(period)
	var last error
	for {
		storeChanged, _ := m.e.link.changes()
		// What another did may concern us: a recall, a store made anew.
		if seen, err := m.e.link.call(ctx, func() answer { return m.e.link.store.read(m.e.cfg.Name) }); err == nil && seen.holder == m.nonce && seen.recalled {
			m.end(fmt.Errorf("%w: recalled", driver.ErrResigned))
		}
		left, _ := m.Remaining()
		expiry := time.After(left)
		select {
		case <-ctx.Done():
			return
		case <-m.e.closed.Done():
			m.lose(driver.ErrClosed)
			return
		case <-expiry:
			if m.Check() != nil {
				if last != nil {
					m.lose(fmt.Errorf("%w: %w", driver.ErrUnreachable, last))
				}
				return
			}
			continue
		case <-storeChanged:
			if time.Now().Before(next) {
				continue
			}
		case <-time.After(time.Until(next)):
		}
		next = time.Now().Add(period)
		if err := m.prolong(ctx); errors.Is(err, driver.ErrSuperseded) {
			m.lose(err)
			return
		} else if err != nil {
			last = err
		}
	}
}

// prolong asks for one renewal. An answer that does not come counts for
// nothing; the claim runs on from the last that did.
func (m *mandate) prolong(ctx context.Context) error {
	sent := time.Now()
	a, err := m.e.link.call(ctx, func() answer { return m.e.link.store.renew(m.e.cfg.Name, m.nonce, m.e.cfg.Lease) })
	switch {
	case err != nil:
		return err
	case !a.granted:
		return fmt.Errorf("%w: the lease is not ours any more", driver.ErrSuperseded)
	}
	m.extend(sent)
	return nil
}

// Confirm implements [driver.Confirmer].
func (m *mandate) Confirm(ctx context.Context) error {
	if err := m.Check(); err != nil {
		return err
	}
	err := m.prolong(ctx)
	if errors.Is(err, driver.ErrSuperseded) {
		m.lose(err)
	}
	return err
}

// Release implements [driver.Mandate].
func (m *mandate) Release(ctx context.Context) error { return m.leave(ctx, "") }

// Transfer implements [driver.Transferrer]. The store keeps the place for the
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
		_, err := m.e.link.call(ctx, func() answer { return m.e.link.store.release(m.e.cfg.Name, m.nonce, to) })
		if !errors.Is(err, driver.ErrUnknownOutcome) || ctx.Err() != nil {
			return err
		}
	}
}
