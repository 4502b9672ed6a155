//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
)

// Elector is one participant in one election. It implements driver.Elector and
// driver.Resigner, and its mandates driver.Inheritable.
type Elector struct {
	cfg  Config
	id   string
	path string // the election's directory

	settles time.Duration // how long it waits with a new lock: HoldOff, and less in tests of other things

	life context.Context // ends with Close
	end  context.CancelCauseFunc

	holding atomic.Value // a holdOff, while a candidate waits for HoldOff
}

// holdsOff returns what a candidate of this participant waits for; "" if it does not wait.
func (e *Elector) holdsOff() holdOff {
	h, _ := e.holding.Load().(holdOff)
	return h
}

// holdOff describes the wait of an election with this history.
func (h history) holdOff() holdOff {
	if h.used {
		return changedElection
	}
	return newElection
}

var _ interface {
	driver.Elector
	driver.Resigner
} = (*Elector)(nil)

// New returns the participant id in the election called name, one of those in dir; see driver.CheckName and
// driver.CheckID. It creates nothing; the first campaign makes dir and its files. New returns permanent errors, as
// far as they can be seen from outside.
func New(dir, name, id string, cfg Config) (*Elector, error) {
	cfg, path, err := cfg.check(dir, name, id)
	if err != nil {
		return nil, driver.Permanent(err)
	}
	if err := inspect(path, cfg.Logger); err != nil {
		return nil, err
	}
	e := &Elector{cfg: cfg, id: id, path: path, settles: HoldOff}
	e.life, e.end = context.WithCancelCause(context.Background())
	return e, nil
}

// Limits implements driver.Elector.
func (e *Elector) Limits() driver.Limits {
	return driver.Limits{
		Exclusive: true,
		Abilities: []driver.Ability{driver.AbilityResign, driver.AbilityInherit, driver.AbilityMetadata},
		Assumes:   "the kernel of this one machine holds the lock until the leader's last process ends; a leader that hangs keeps it, and nobody notices",
	}
}

// Close implements driver.Elector. The lock of a mandate that was not released stays held until its Release or the
// end of the process, because its work may still run.
func (e *Elector) Close() error {
	e.end(driver.ErrClosed)
	return nil
}

// join returns a context that ends with ctx and with the Elector.
func (e *Elector) join(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.life, func() { cancel(context.Cause(e.life)) })
	if e.life.Err() != nil {
		cancel(context.Cause(e.life)) // now, and not only when the function above has run
	}
	return ctx, func() { stop(); cancel(nil) }
}

// maxRequeues is how often in a row a candidate that gets the lock may find another file in its place, before it
// returns an error.
const maxRequeues = 20

// Campaign implements driver.Elector. A waiting candidate sleeps in the kernel. Candidates do not win in the order of
// their arrival. The lease of a candidacy is always exclusive.
func (e *Elector) Campaign(ctx context.Context, c driver.Candidacy) (driver.Mandate, error) {
	ctx, cancel := e.join(ctx)
	defer cancel()
	if err := driver.CheckMetadata(c.Metadata); err != nil {
		return nil, driver.Permanent(err)
	}
	for requeues := 0; ; requeues++ {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		start := time.Now()
		m, err := e.stand(ctx, c)
		switch {
		case err == nil:
			return m, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, errInterrupted) && !errors.Is(err, errMoved):
			return nil, err
		case time.Since(start) > requeueAfter/2:
			requeues = 0
		case requeues == maxRequeues:
			return nil, fmt.Errorf("%s is replaced again and again: %w", e.path, err)
		}
		select {
		case <-time.After(min(time.Millisecond<<requeues, Poll)):
		case <-ctx.Done():
		}
	}
}

// stand queues for the lock and leads with it. On an error it holds nothing.
func (e *Elector) stand(ctx context.Context, c driver.Candidacy) (_ *mandate, err error) {
	p, err := openPlace(e.path, e.cfg.SharedPlace, e.cfg.Logger)
	if err != nil {
		return nil, err
	}
	m := newMandate(p, 0)
	defer func() {
		if err != nil {
			if failed := m.Release(ctx); failed != nil {
				err = fmt.Errorf("%w; and it was not released: %w", err, failed)
			}
		}
	}()
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	if err := p.verify(); err != nil {
		return nil, err
	}
	if h, err := p.history(); err == nil && !h.intact {
		e.holding.Store(h.holdOff())
		defer e.holding.Store(holdOff(""))
	}
	h, err := p.settle(ctx, e.settles)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // before observers see a leader
		return nil, errInterrupted
	}
	if err := e.lead(m, h, c); err != nil {
		return nil, err
	}
	if err := p.verify(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	m.watch(e.life)
	return m, nil
}

// lead turns a candidate that holds both locks into a leader.
func (e *Elector) lead(m *mandate, h history, c driver.Candidacy) (err error) {
	p, since := m.place, time.Now()
	if m.token, err = p.mint(e.cfg.Era, h, p.lastToken()); err != nil {
		return err
	}
	host, _ := os.Hostname() // for people
	m.record = record{ID: e.id, Token: m.token, PID: os.Getpid(), Host: host, Since: since, Metadata: c.Metadata}
	if err := p.writeRecord(&m.record); err != nil {
		return err
	}
	if m.control, err = p.listen(m.token, func() { m.end(errRecalled) }); err != nil {
		e.cfg.Logger.Warn("this leader cannot be asked to resign: it has no control socket", "error", err)
	}
	// From here on observers believe the record.
	if err := announce(p.lockfd()); err != nil {
		return fmt.Errorf("%s: another program has a lock of its own on it: %w", p.lockPath, err)
	}
	return p.writeSeal(e.cfg.Era)
}

var errRecalled = fmt.Errorf("%w: asked to, over the control socket", driver.ErrResigned)
