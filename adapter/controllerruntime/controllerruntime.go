// Package controllerruntime runs managers of sigs.k8s.io/controller-runtime under an election of elect. Build a manager
// with LeaderElection: false, and add controllers to the one that [Wrap] returns.
//
// Caches, webhooks, probes, warm-ups and runnables whose NeedLeaderElection is false run from the start. The others, to
// which controllers belong, run while this process leads: their context ends before the lease does, by the clock, all
// of them are joined, and then leadership is released. A manager leads once: after that Start returns an error, as
// controller-runtime's does, because controllers cannot be started twice; then the program exits.
package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/electd/elect"
)

// ErrLost matches the error of Start if leadership was lost, as when the lease ran out.
var ErrLost = errors.New("leader election lost")

// Wrap returns a manager like mgr, whose runnables that need leader election run while election leads. Add all
// runnables to it, not to mgr. The caller closes the election, after Start has returned.
//
// At its end Start ends the runnables, waits for them, and releases leadership. It does not wait for runnables that
// take longer than mgr's GracefulShutdownTimeout, and then does not release leadership, which lapses when the election
// is closed or the process exits. If leadership is lost, and runnables have not returned when the lease ends, Start
// returns without them: exit then, to end them.
func Wrap(mgr manager.Manager, election *elect.Election) manager.Manager {
	return &wrapped{Manager: mgr, election: election, elected: make(chan struct{}), overrun: make(chan error, 1)}
}

type wrapped struct {
	manager.Manager
	election *elect.Election
	elected  chan struct{}
	overrun  chan error // has an element when the lease has ended and runnables have not returned

	mu    sync.Mutex
	held  []manager.Runnable     // until it leads
	start func(manager.Runnable) // while it leads
	begun bool                   // Start was called
	over  bool
}

// termKey is the key of the term in the contexts of runnables.
type termKey struct{}

// TermOf returns the term of the context that a runnable or a reconciler was given, or of one made from it, and nil for
// other contexts. Send its token with each write to a guarded resource; call its Check before what cannot be guarded.
func TermOf(ctx context.Context) *elect.Term {
	term, _ := ctx.Value(termKey{}).(*elect.Term)
	return term
}

// Elected implements [manager.Manager].
func (w *wrapped) Elected() <-chan struct{} { return w.elected }

// warm is a runnable that warms up without an election.
type warm interface{ Warmup(context.Context) error }

// warmup is the warm-up of a runnable that is held back.
type warmup struct{ warm }

// Start implements [manager.Runnable].
func (warmup) Start(context.Context) error { return nil }

// NeedLeaderElection implements [manager.LeaderElectionRunnable].
func (warmup) NeedLeaderElection() bool { return false }

// Add implements [manager.Manager], with the manager's own rules for what needs an election.
func (w *wrapped) Add(r manager.Runnable) error {
	switch of := r.(type) {
	case interface{ GetCache() cache.Cache }, webhook.Server:
		return w.Manager.Add(r)
	case manager.LeaderElectionRunnable:
		if !of.NeedLeaderElection() {
			return w.Manager.Add(r)
		}
	}
	if r, ok := r.(warm); ok {
		if err := w.Manager.Add(warmup{r}); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
		return errors.New("the manager leads no more; want runnables to be added before that")
	case w.start != nil:
		w.start(r)
	default:
		w.held = append(w.held, r)
	}
	return nil
}

// Start implements [manager.Manager].
func (w *wrapped) Start(ctx context.Context) error {
	w.mu.Lock()
	begun := w.begun
	w.begun = true
	w.mu.Unlock()
	if begun {
		return errors.New("the manager was started before; want a new one")
	}
	// It says nothing of elections, so it starts last: after caches and warm-ups.
	if err := w.Manager.Add(manager.RunnableFunc(w.lead)); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Manager.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case err := <-w.overrun:
		return err
	}
}

// errEnded is the cause of a Lead whose term has ended.
var errEnded = errors.New("the term has ended")

// lead leads for one term, and returns why it has ended, or nil if ctx has.
func (w *wrapped) lead(ctx context.Context) error {
	leading, end := context.WithCancelCause(ctx)
	defer end(nil)
	var result error
	err := w.election.Lead(leading, func(term context.Context, t *elect.Term) error {
		defer end(errEnded)
		result = w.run(term, t)
		if lost := context.Cause(term); result == nil && term.Err() != nil && ctx.Err() == nil {
			result = fmt.Errorf("%w: %w", ErrLost, lost)
		}
		return result
	})
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	switch {
	case errors.Is(err, errEnded):
		return result
	case ctx.Err() != nil:
		return nil
	}
	return err
}

// run runs what was held back until ctx ends or one of it fails, and returns when all of it has returned.
func (w *wrapped) run(ctx context.Context, t *elect.Term) error {
	own, cancel := context.WithCancelCause(context.WithValue(ctx, termKey{}, t))
	defer cancel(nil)
	var work sync.WaitGroup
	w.mu.Lock()
	w.start = func(r manager.Runnable) {
		work.Go(func() {
			err := r.Start(own)
			switch {
			case err == nil:
			case own.Err() == nil:
				cancel(failure{err})
			case !errors.Is(err, context.Canceled):
				w.GetLogger().Error(err, "a runnable returned an error as it was stopped")
			}
		})
	}
	for _, r := range w.held {
		w.start(r)
	}
	w.held = nil
	w.mu.Unlock()
	close(w.elected)

	until := w.follow(own, t)
	w.mu.Lock()
	w.start, w.over = nil, true
	w.mu.Unlock()
	joined := make(chan struct{})
	defer close(joined)
	if !until.IsZero() {
		go func() {
			select {
			case <-joined:
			case <-time.After(time.Until(until)):
				w.overrun <- fmt.Errorf("%w: %w; and not all runnables have returned: exit", ErrLost, context.Cause(ctx))
			}
		}()
	}
	work.Wait()
	f, _ := errors.AsType[failure](context.Cause(own))
	return f.error
}

// failure is the error of a runnable.
type failure struct{ error }

// follow waits until ctx ends. If that is because leadership was lost, it returns when the lease ends, or a little
// earlier; else, or if there is no lease, the zero time. A term does not tell after its end, so follow asks it before
// that, again and again.
func (w *wrapped) follow(ctx context.Context, t *elect.Term) time.Time {
	var until time.Time
	tick := max(w.election.Limits().Lease/20, 10*time.Millisecond)
	for ctx.Err() == nil {
		if left, bounded := t.Remaining(); bounded && left > 0 {
			until = time.Now().Add(left)
		}
		select {
		case <-ctx.Done():
		case <-time.After(tick):
		}
	}
	loss, ok := errors.AsType[*elect.LostError](context.Cause(ctx))
	if !ok || slices.Contains([]elect.Reason{elect.ReasonShutdown, elect.ReasonResigned, elect.ReasonUnhealthy}, loss.Reason) {
		return time.Time{} // it is renewed until the work has returned
	}
	return until
}
