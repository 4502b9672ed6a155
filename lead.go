package elect

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/driver"
)

// Lead campaigns, runs work while it leads, and campaigns again after a loss, until ctx ends or the work returns by
// itself.
//
// The work's context ends when leadership can no longer be proven, with a *[LostError] as its cause. The work must
// return then; Lead joins it before it releases. The context carries the values of ctx. The work runs in the goroutine
// that called Lead, never twice at a time. If it panics Lead releases leadership and the panic continues.
//
//   - The work returns while it leads: Lead releases and returns its error.
//   - The work returns after its context ended by a loss or a resignation: Lead logs its error and campaigns again.
//   - ctx ends: Lead stops the work, joins it, releases, and returns the cause of ctx.
//   - The back end has a temporary error: Lead logs it, backs off, and goes on.
//   - The error is permanent (configuration, credentials, a closed Election): Lead returns it.
func (e *Election) Lead(ctx context.Context, work func(ctx context.Context, term *Term) error) error {
	if err := e.claim(); err != nil {
		return err
	}
	defer e.unclaim()
	log := e.cfg.Logger
	pause := e.cfg.MinBackoff
	for {
		t, err := e.campaign(ctx, true)
		switch {
		case ctx.Err() != nil && err != nil:
			return context.Cause(ctx)
		case driver.IsPermanent(err), errors.Is(err, ErrClosed):
			return err
		case err != nil:
			wait := pause/2 + rand.N(pause/2+1)
			log.Warn("campaign failed; trying again", "error", err, "in", wait)
			if !sleep(ctx, wait) {
				return context.Cause(ctx)
			}
			pause = min(2*pause, e.cfg.MaxBackoff)
			continue
		}
		pause = e.cfg.MinBackoff
		loss, err := e.serve(ctx, t, work)
		switch {
		case ctx.Err() != nil:
			if err != nil {
				log.Warn("the work returned an error as it was stopped", "error", err, "token", t.Token())
			}
			return context.Cause(ctx)
		case loss == nil:
			return err
		}
		log.Info("leadership ended; standing again", "reason", loss.Reason, "token", t.Token(), "cause", loss.Err, "work", err)
		if loss.Reason == ReasonResigned {
			e.standAside(ctx, t.Token())
		}
	}
}

// serve runs the work for one term and releases it. The loss is nil if the work
// returned while it still led.
func (e *Election) serve(ctx context.Context, t *Term, work func(context.Context, *Term) error) (loss *LostError, err error) {
	shutdown := func() {
		t.end(&LostError{Reason: ReasonShutdown, Token: t.Token(), Err: context.Cause(ctx)})
	}
	defer context.AfterFunc(ctx, shutdown)()
	defer func() { // even if the work panics or exits its goroutine
		if ctx.Err() != nil {
			shutdown() // the work may have seen the end of ctx before AfterFunc did
		}
		if t.ctx.Err() != nil {
			loss, _ = errors.AsType[*LostError](context.Cause(t.ctx))
		}
		_ = t.finish(driver.ErrResigned)
		releaseCtx, done := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ReleaseTimeout)
		defer done()
		if _, rerr := t.settle(releaseCtx); rerr != nil {
			e.cfg.Logger.Warn("leadership was not released and will lapse by itself", "error", rerr, "token", t.Token())
		}
	}()
	if ctx.Err() != nil || t.ctx.Err() != nil {
		return nil, nil // won at the instant of the end: the work does not start
	}
	return nil, work(t.ctx, t)
}

// standAside waits until another candidate leads, or Config.StandAside has passed: a leader that resigned and stood
// again at once would often win again.
func (e *Election) standAside(ctx context.Context, own Token) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.StandAside)
	defer cancel()
	for s, err := range e.elector.Watch(ctx) {
		if err != nil {
			<-ctx.Done() // the election cannot be observed: wait the whole time
			return
		}
		if s.Leader != nil && !s.Stale && s.Leader.Token > own {
			return
		}
	} // it ends with ctx, or because the elector was closed
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
