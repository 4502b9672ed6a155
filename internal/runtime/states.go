package runtime

import (
	"context"
	"iter"
	"sync"

	"github.com/electd/elect/driver"
)

// NoLeaderKnown is the message of a participant's warning that it has known no leader for long, which carries the
// reason. A program that shows its users the states of Watch may drop it.
const NoLeaderKnown = "no leader is known"

// States passes states to observers: each sees the latest one that it has not seen.
type States struct {
	mu      sync.Mutex
	cur     driver.State
	version uint64 // 0: there is none yet
	changed chan struct{}
	closed  bool
}

// NewStates returns states without a first one.
func NewStates() *States { return &States{changed: make(chan struct{})} }

// Set makes cur the state, and wakes waiting observers.
func (s *States) Set(cur driver.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur = cur
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Get returns the state, its version, a channel that is closed when there is another one, and whether there will be
// another one.
func (s *States) Get() (cur driver.State, version uint64, changed <-chan struct{}, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur, s.version, s.changed, !s.closed
}

// Wait waits for the first state.
func (s *States) Wait(ctx context.Context) (driver.State, bool) {
	for {
		cur, version, changed, open := s.Get()
		if !open {
			return cur, false
		}
		if version > 0 {
			return cur, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return cur, false
		}
	}
}

func (s *States) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// All yields the latest state, and then each later one, until ctx ends or there will be no other. It may skip states.
func (s *States) All(ctx context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		var last uint64
		for {
			cur, version, changed, open := s.Get()
			if !open || ctx.Err() != nil {
				return
			}
			if version != last {
				last = version
				if !yield(cur, nil) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}
