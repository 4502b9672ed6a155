package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/driver"
)

// link is one participant's connection to the store, with the faults of the connection and of the
// participant's process.
type link struct {
	store *Store

	mu      sync.Mutex
	cut     bool
	frozen  bool
	lose    int           // answers to lose
	delay   time.Duration // of the next answer
	changed chan struct{} // closed and replaced at each change of the above
}

func newLink(s *Store) *link { return &link{store: s, changed: make(chan struct{})} }

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// thawed blocks while the participant is frozen.
func (l *link) thawed(ctx context.Context) error {
	for {
		l.mu.Lock()
		frozen, changed := l.frozen, l.changed
		l.mu.Unlock()
		if !frozen {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// call sends one request and waits for its answer. An error that matches
// driver.ErrUnknownOutcome says that the request may have been carried out;
// with any other, it was not.
func (l *link) call(ctx context.Context, request func() answer) (answer, error) {
	if err := l.thawed(ctx); err != nil {
		return answer{}, err
	}
	if err := l.reachable(); err != nil {
		return answer{}, err
	}
	a := request()
	l.mu.Lock()
	delay, lost := l.delay, l.lose > 0
	l.delay = 0
	if lost {
		l.lose--
	}
	l.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return answer{}, fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
	if err := l.thawed(ctx); err != nil {
		return answer{}, fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, err)
	}
	if lost {
		return answer{}, fmt.Errorf("%w: the answer was lost", driver.ErrUnknownOutcome)
	}
	if err := l.reachable(); err != nil {
		return answer{}, fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, err)
	}
	return a, nil
}

func (l *link) reachable() error {
	l.store.mu.Lock()
	down := l.store.down
	l.store.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case down:
		return fmt.Errorf("%w: outage", driver.ErrUnreachable)
	case l.cut:
		return fmt.Errorf("%w: cut off", driver.ErrUnreachable)
	}
	return nil
}

// await blocks until the store or the link has changed since the answer was
// made, or the record is worth asking for again.
func (l *link) await(ctx context.Context, a answer, linkChanged <-chan struct{}) error {
	var wake <-chan time.Time
	if !a.wake.IsZero() {
		wake = time.After(time.Until(a.wake))
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.changed:
	case <-linkChanged:
	case <-wake:
	}
	return nil
}

// changes returns the channels that signal the next change of the store and of the link; taken
// before a request, they miss nothing that happens after it.
func (l *link) changes() (store, own <-chan struct{}) {
	l.store.mu.Lock()
	store = l.store.changed
	l.store.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return store, l.changed
}
