//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/test/chaos/register"
)

// pause is how long a workload waits when there is no register.
const pause = time.Second

// workload does operations on the register, at a rate. It belongs to one goroutine.
type workload struct {
	client *register.Client
	name   string
	rate   int // a second
	log    *slog.Logger

	done   int  // operations
	absent bool // there was no register, and that was said
}

// newWorkload returns a workload; the name of its log begins with name.
func newWorkload(s surroundings, what string, log *slog.Logger) (*workload, error) {
	name := register.Name(what)
	client, err := register.Open(s.dir, name)
	if err != nil {
		return nil, err
	}
	return &workload{client: client, name: name, rate: s.rate, log: log}, nil
}

// work does one operation at each tick, and a few at once on each hurry, until ctx ends or token
// reports that there is none to show any more. It streams what next returns.
func (c *workload) work(ctx context.Context, hurry <-chan struct{}, token func() (fence.Token, bool), next func() fence.Sequence) {
	ticks := time.NewTicker(time.Second / time.Duration(c.rate))
	defer ticks.Stop()
	for {
		todo := 1
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			todo = 4
		case <-ticks.C:
		}
		for range todo {
			t, ok := token()
			if !ok {
				return
			}
			if !c.one(ctx, t, next) && !wait(ctx, pause) {
				return
			}
		}
	}
}

// reads reads at a twentieth of the rate, until ctx ends.
func (c *workload) reads(ctx context.Context) {
	ticks := time.NewTicker(20 * time.Second / time.Duration(c.rate))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if _, err := c.client.Read(ctx); !c.heard(ctx, err) && !wait(ctx, pause) {
			return
		}
	}
}

// one does the next operation, and reports whether there is a register.
func (c *workload) one(ctx context.Context, token fence.Token, next func() fence.Sequence) bool {
	c.done++
	var err error
	switch c.done % 8 {
	case 1, 3, 6:
		_, err = c.client.Write(ctx, token, fmt.Sprintf("%s/%d", c.name, c.done))
	case 2, 4, 7:
		_, err = c.client.Stream(ctx, next())
	case 5:
		_, err = c.client.Read(ctx)
	case 0:
		_, err = c.client.Peek(ctx)
	}
	return c.heard(ctx, err)
}

// heard reports, by the error of an operation, whether there is a register, and logs a problem.
func (c *workload) heard(ctx context.Context, err error) bool {
	missing := errors.Is(err, register.ErrNotCalled)
	switch {
	case ctx.Err() != nil: // it was cut short
	case missing && !c.absent:
		c.log.Warn("the register cannot be asked", "error", err)
	case err != nil && !missing:
		c.log.Warn("an operation has no outcome", "error", err)
	}
	c.absent = missing
	return !missing
}

// wait reports false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
