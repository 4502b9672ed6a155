package group

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// guarded passes the claim of each session to the guardian of the shards, while work of that session goes on.
type guarded struct {
	g *Group

	mu  sync.Mutex
	all map[*epoch]*guard
}

// guard is a session that the guardian has, or is asked to take.
type guard struct {
	users int           // guarded by the lock of guarded
	ready chan struct{} // closed when the guardian has answered
	done  func()
	err   error
}

// enter is called before the work of a key begins, by the goroutine of that work.
func (w *guarded) enter(e *epoch) error {
	if w.g.cfg.Guardian == nil {
		return nil
	}
	w.mu.Lock()
	have := w.all[e]
	first := have == nil
	if first {
		have = &guard{ready: make(chan struct{})}
		if w.all == nil {
			w.all = map[*epoch]*guard{}
		}
		w.all[e] = have
	}
	have.users++
	w.mu.Unlock()
	if first {
		have.done, have.err = w.g.cfg.Guardian.Lead(driver.Guarded{Mandate: &claim{w.g, e}, Exclusive: true})
		if have.err != nil { // who comes later asks again
			w.mu.Lock()
			delete(w.all, e)
			w.mu.Unlock()
		}
		close(have.ready)
	}
	<-have.ready
	return have.err
}

// leave is called when work that has entered was joined, before its key is given up.
func (w *guarded) leave(e *epoch) {
	if w.g.cfg.Guardian == nil {
		return
	}
	w.mu.Lock()
	have := w.all[e]
	have.users--
	last := have.users == 0
	if last {
		delete(w.all, e)
	}
	w.mu.Unlock()
	if last {
		have.done()
	}
}

// claim is what a guardian gets of the shards of one session.
type claim struct {
	g *Group
	e *epoch
}

var _ driver.Attestable = &claim{}

func (c *claim) Token() fence.Token            { return 0 }
func (c *claim) Context() context.Context      { return context.Background() }
func (c *claim) Release(context.Context) error { return nil }
func (c *claim) Testament() driver.Testament   { return c.g.witnessed.testament(nil) }

func (c *claim) Check() error {
	if c.e.remaining(c.g.env.now()) == 0 {
		return fmt.Errorf("%w: the claim of this member has ended", driver.ErrExpired)
	}
	return nil
}

func (c *claim) Remaining() (time.Duration, bool) { return c.e.remaining(c.g.env.now()), true }
