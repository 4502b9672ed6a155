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

	mu  sync.Mutex // held while the guardian is asked: no other work begins before it has answered
	all map[*epoch]*guard
}

// guard is a session that the guardian has.
type guard struct {
	users int
	done  func()
}

// enter is called before the work of a key begins, by the goroutine of that work.
func (w *guarded) enter(e *epoch) error {
	if w.g.cfg.Guardian == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.all[e]
	if have == nil {
		done, err := w.g.cfg.Guardian.Lead(driver.Guarded{Mandate: &claim{w.g, e}, Exclusive: true})
		if err != nil {
			return err
		}
		have = &guard{done: done}
		if w.all == nil {
			w.all = map[*epoch]*guard{}
		}
		w.all[e] = have
	}
	have.users++
	return nil
}

// leave is called when work that has entered was joined, before its key is given up.
func (w *guarded) leave(e *epoch) {
	if w.g.cfg.Guardian == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.all[e]
	if have.users--; have.users == 0 {
		delete(w.all, e)
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
