package elect

import (
	"context"
	"iter"
	"sync"
)

// Watch yields the state of the election: first the current one, then each change. Each range is a subscription of its
// own. A slow reader may skip a state that a newer one has replaced, and never misses the last. A temporary error of
// the store yields a State marked Stale. An error is yielded once, last: the cause of ctx when that ends, ErrClosed
// after Close, or a permanent error.
func (e *Election) Watch(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		inner, cancel := context.WithCancel(ctx)
		latest := newMailbox()
		var pump sync.WaitGroup
		defer pump.Wait()
		defer cancel()
		pump.Go(func() {
			for s, err := range e.elector.Watch(inner) {
				if err != nil {
					if ctx.Err() != nil {
						err = context.Cause(ctx)
					}
					latest.close(err)
					return
				}
				latest.put(s)
			}
			if ctx.Err() != nil {
				latest.close(context.Cause(ctx))
				return
			}
			latest.close(ErrClosed)
		})
		for range latest.ready {
			s, some, err := latest.take()
			if some && !yield(s, nil) {
				return
			}
			if err != nil {
				yield(State{}, err)
				return
			}
		}
	}
}

// mailbox holds the latest state that its reader has not taken. A state that was put before the close can still be
// taken.
type mailbox struct {
	ready chan struct{} // has an element while there is a state to take

	mu    sync.Mutex
	state State
	some  bool
	err   error
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (m *mailbox) put(s State) {
	m.mu.Lock()
	m.state, m.some = s, true
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) close(err error) {
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default: // the reader has not looked yet, and will find the newer state
	}
}

func (m *mailbox) take() (s State, some bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, some, err = m.state, m.some, m.err
	m.some = false
	return s, some, err
}
