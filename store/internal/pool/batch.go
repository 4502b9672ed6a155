package pool

import (
	"context"
	"sync"
	"time"
)

// Batch makes one request for many callers: those that wait while other requests are under way go together. Its fields
// are set before the first call. It is safe for concurrent use.
type Batch[Q, A any] struct {
	// Ask makes a request for 1 to Most callers, and returns an answer for each, or an error for all. Its context
	// ends with Life, and when all callers have given up.
	Ask  func(ctx context.Context, all []Q) ([]A, error)
	Most int
	// The end of Life ends all requests; Do is not called after it. A nil Life never ends.
	Life context.Context
	// Halve reports whether one of several callers may be the reason for an error of Ask. Then Ask is called for each
	// half. Nil means never.
	Halve func(err error) bool

	work  sync.WaitGroup
	mu    sync.Mutex
	queue []*question[Q, A]
	due   int // of these, those that wait no longer for others
	busy  int // goroutines of run
	slow  int // of these, those whose request takes long
}

const (
	// underWay is how many requests are made at a time. One that takes longer than slowAfter does not count, because it
	// may wait for a lock, or for a connection that is cut. The bound with these is mostUnderWay.
	underWay     = 2
	mostUnderWay = 8
	slowAfter    = 100 * time.Millisecond
)

// question is a call of Do. Its caller may have given up; then the answer is dropped.
type question[Q, A any] struct {
	of         Q
	ctx        context.Context
	answer     chan answer[A] // has room for one
	due, taken bool           // guarded by the lock of the Batch
}

type answer[A any] struct {
	is  A
	err error
}

// Do returns the answer to q. Until soon is closed it waits for others to go with; nil does not wait.
func (b *Batch[Q, A]) Do(ctx context.Context, q Q, soon <-chan struct{}) (A, error) {
	w := &question[Q, A]{of: q, ctx: ctx, answer: make(chan answer[A], 1)}
	b.mu.Lock()
	b.queue = append(b.queue, w)
	b.mu.Unlock()
	if soon != nil {
		select {
		case <-soon:
		case a := <-w.answer:
			return a.is, a.err
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	if !w.taken {
		w.due = true
		b.due++
		b.start()
	}
	b.mu.Unlock()
	select {
	case a := <-w.answer:
		return a.is, a.err
	case <-ctx.Done():
		var none A
		return none, context.Cause(ctx)
	}
}

// Wait returns when no request is under way.
func (b *Batch[Q, A]) Wait() { b.work.Wait() }

// start starts a goroutine of run if there is room for one. The caller has locked mu.
func (b *Batch[Q, A]) start() {
	if b.due > 0 && b.busy-b.slow < underWay && b.busy < mostUnderWay {
		b.busy++
		b.work.Go(b.run)
	}
}

// run makes requests until none is due.
func (b *Batch[Q, A]) run() {
	for all := b.next(); all != nil; all = b.next() {
		ended, slow := false, 0
		timer := time.AfterFunc(slowAfter, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if !ended {
				slow = 1
				b.slow++
				b.start()
			}
		})
		b.ask(all)
		timer.Stop()
		b.mu.Lock()
		ended = true
		b.slow -= slow
		b.mu.Unlock()
	}
}

// next returns the questions of the next request: those that wait and were not given up. It returns nil, and counts its
// caller as ended, if none is due.
func (b *Batch[Q, A]) next() (all []*question[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 && b.due > 0 && len(all) < b.Most {
		w := b.queue[0]
		b.queue = b.queue[1:]
		w.taken = true
		if w.due {
			b.due--
		}
		if w.ctx.Err() == nil {
			all = append(all, w)
		}
		if b.due == 0 && len(all) > 0 { // the others need not wait for the next request
			for len(b.queue) > 0 && len(all) < b.Most {
				b.queue[0].taken = true
				all, b.queue = append(all, b.queue[0]), b.queue[1:]
			}
		}
	}
	if len(all) == 0 {
		b.busy--
	}
	return all
}

// ask makes one request, and answers its questions.
func (b *Batch[Q, A]) ask(all []*question[Q, A]) {
	life := b.Life
	if life == nil {
		life = context.Background()
	}
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	b.work.Go(func() {
		for _, w := range all {
			select {
			case <-w.ctx.Done():
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	var questions []Q
	for _, w := range all {
		questions = append(questions, w.of)
	}
	answers, err := b.Ask(ctx, questions)
	if n := len(all) / 2; n > 0 && err != nil && b.Halve != nil && b.Halve(err) {
		b.ask(all[:n])
		b.ask(all[n:])
		return
	}
	for i, w := range all {
		a := answer[A]{err: err}
		if err == nil {
			a.is = answers[i]
		}
		w.answer <- a
	}
}
