package groupbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// again is how long a candidate waits after an error.
const again = 100 * time.Millisecond

// contender is a candidate in one election.
type contender interface {
	// campaign returns when the election is won.
	campaign(ctx context.Context) (victory, error)
	close() error
}

// victory is a term.
type victory interface {
	token() fence.Token
	over() <-chan struct{} // closed when it has ended
	expired() bool         // that it ended because it was not proven any more
	release(ctx context.Context) error
}

// elector is a contender by the contract of back ends.
type elector struct{ driver.Elector }

func (e elector) campaign(ctx context.Context) (victory, error) {
	m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
	return mandate{m}, err
}

func (e elector) close() error { return e.Close() }

type mandate struct{ driver.Mandate }

func (m mandate) token() fence.Token                { return m.Token() }
func (m mandate) over() <-chan struct{}             { return m.Context().Done() }
func (m mandate) expired() bool                     { return errors.Is(m.Check(), driver.ErrExpired) }
func (m mandate) release(ctx context.Context) error { return m.Release(ctx) }

// candidates are elections with two candidates each: that of the node whose own it is, and that of the next node.
type candidates struct {
	n    *node
	all  map[int]contender
	open func(ctx context.Context, key int) (contender, error)
	last func(ctx context.Context, back time.Duration) error // how all are given up at once; nil is one by one

	ctx  context.Context // of the candidacies
	stop context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	gifts map[int]chan struct{} // of those that lead: closed to give the key up
	err   error                 // the latest
}

func newCandidates(n *node, open func(context.Context, int) (contender, error), last func(context.Context, time.Duration) error) *candidates {
	c := &candidates{n: n, open: open, last: last, all: map[int]contender{}, gifts: map[int]chan struct{}{}}
	c.begin()
	return c
}

func (c *candidates) begin() { c.ctx, c.stop = context.WithCancel(context.Background()) }

func (c *candidates) stand(second bool) {
	first := c.n.cfg.Index
	if second {
		first = (first + c.n.cfg.Nodes - 1) % c.n.cfg.Nodes
	}
	for key := first; key < c.n.cfg.Keys; key += c.n.cfg.Nodes {
		e := c.all[key]
		if e == nil {
			var err error
			if e, err = c.open(c.ctx, key); err != nil {
				c.failed(err)
				return
			}
			c.all[key] = e
		}
		c.work.Go(func() { c.lead(c.ctx, key, e) })
	}
}

// lead leads one election again and again.
func (c *candidates) lead(ctx context.Context, key int, e contender) {
	for ctx.Err() == nil {
		v, err := e.campaign(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.failed(err)
			}
			if driver.IsPermanent(err) || errors.Is(err, driver.ErrClosed) {
				return
			}
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
			continue
		}
		gift := make(chan struct{})
		c.mu.Lock()
		c.gifts[key] = gift
		c.mu.Unlock()
		token := v.token()
		c.n.began(key, token)
		select {
		case <-v.over():
		case <-gift:
		case <-ctx.Done():
		}
		c.mu.Lock()
		delete(c.gifts, key)
		c.mu.Unlock()
		c.n.ended(key, token, v.expired())
		_ = v.release(context.Background()) // what is not released lapses
	}
}

func (c *candidates) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *candidates) trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *candidates) yield() {
	c.stop()
	c.work.Wait()
	c.begin()
	c.failed(nil)
}

func (c *candidates) give(key int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	gift := c.gifts[key]
	if gift == nil {
		return fmt.Errorf("key %d is not led here", key)
	}
	delete(c.gifts, key)
	close(gift)
	return nil
}

func (c *candidates) leave(ctx context.Context) error {
	if c.last != nil { // a member that only gave its keys up, one after the other, would not be known to leave
		err := c.last(ctx, 0)
		c.yield()
		return err
	}
	c.yield()
	var work sync.WaitGroup
	for _, e := range c.all {
		work.Go(func() { _ = e.close() })
	}
	work.Wait()
	return nil
}
