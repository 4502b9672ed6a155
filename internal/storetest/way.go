package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Way is the way of one participant to a fake store, in fake time, with the faults of driver/electtest. The zero value
// has none. It is safe for concurrent use.
type Way struct {
	mu     sync.Mutex
	healed chan struct{} // nil: the way is not cut
	lose   int
	delay  time.Duration // of the next answer that may be late
	behind time.Time     // answers come in order: none before that
}

// Takes is the time that a request, or an answer, is on its way.
const Takes = time.Millisecond

// ErrLost is the error of a request whose answer was lost.
var ErrLost = errors.New("the answer was lost")

// Pass lets a request, or a notification, pass. It waits while the way is cut.
func (w *Way) Pass(ctx context.Context) error { return w.pass(ctx, Takes) }

func (w *Way) pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		w.mu.Lock()
		healed := w.healed
		w.mu.Unlock()
		if healed == nil {
			return nil
		}
		select {
		case <-healed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Back lets the answer to a request pass, or loses it. renews: it is one that [Way.Delay] is for.
func (w *Way) Back(ctx context.Context, renews bool) error {
	w.mu.Lock()
	late, lost := max(time.Until(w.behind), 0), w.lose > 0
	if w.delay > 0 && renews {
		late, w.behind, w.delay = w.delay, time.Now().Add(w.delay+Takes), 0
	}
	if lost {
		w.lose--
	}
	w.mu.Unlock()
	if lost {
		return ErrLost
	}
	return w.pass(ctx, Takes+late)
}

// Cut cuts the way, or heals it.
func (w *Way) Cut(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case on && w.healed == nil:
		w.healed = make(chan struct{})
	case !on && w.healed != nil:
		close(w.healed)
		w.healed = nil
	}
}

// Lose loses the next n answers.
func (w *Way) Lose(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = n
}

// Losing returns how many answers are still to be lost.
func (w *Way) Losing() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lose
}

// Delay makes the next answer to a renewal late, and those after it.
func (w *Way) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Now reads both clocks of a participant in fake time.
func Now() protocol.Reading {
	i := protocol.Instant(time.Now().UnixNano())
	return protocol.Reading{Boot: i, Mono: i}
}
