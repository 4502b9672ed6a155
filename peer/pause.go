package peer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/runtime"
	"github.com/electd/elect/peer/internal/disk"
)

// pausing is whether an operator has paused this node. It is durable before it is reported. Any goroutine may use it.
type pausing struct {
	*membership
	leaders *leaders
	locator *locator
	run     *runtime.Runner
	dir     *disk.Dir

	turn   chan struct{} // held while it is written
	unsure bool          // the last write failed, so the disk's content is unknown; owned by the holder of turn
	last   atomic.Pointer[disk.Pause]
}

// open reads the setting of an earlier life.
func (p *pausing) open() {
	p.turn = make(chan struct{}, 1)
	was, err := p.dir.Pause()
	p.last.Store(&was)
	if err != nil {
		p.unsure = true
		p.log.Warn("whether this node is paused cannot be told", "error", err)
	} else if was.Paused {
		p.log.Warn("this node is paused: it votes and does not stand", "by", was.By, "since", was.At)
	}
}

func (p *pausing) isPaused() bool {
	now := p.last.Load()
	return now != nil && now.Paused
}

func (p *pausing) setPaused(ctx context.Context, on bool, by string) error {
	if !p.votes() {
		return fmt.Errorf("%w: %s is an observer and never stands", driver.ErrUnsupported, p.cfg.ID)
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	next := disk.Pause{Paused: on, By: by, At: time.Now()}
	if p.isPaused() == on && !p.unsure {
		return nil
	}
	if err := p.dir.SetPause(next); err != nil {
		p.unsure = true
		return fmt.Errorf("%s cannot write it down, goes on as before, and may have forgotten either at its next start: want it said again: %w", p.cfg.ID, err)
	}
	p.unsure = false
	if !p.run.Call(func() {
		p.last.Store(&next)
		p.leaders.note(pauseEvent(on), p.leaders.token(), by, next.At)
		if on {
			p.locator.enough(p.errPaused())
		}
		p.run.Command(protocol.Command{Verb: p.dialect.pausing(on)})
	}) {
		return errClosed
	}
	p.log.Warn("this node is "+pauseEvent(on), "by", by)
	return nil
}

// instruct tells a machine that has just booted whether it is paused.
func (p *pausing) instruct() {
	if p.isPaused() {
		p.run.Command(protocol.Command{Verb: p.dialect.pausing(true)})
	}
}

// reason is why a term ended. A machine that knows no pauses takes a pause for bad health, and to others bad health is
// that of the disk.
func (p *pausing) reason(r protocol.Reason) protocol.Reason {
	switch {
	case r != protocol.Unhealthy:
		return r
	case p.isPaused():
		return protocol.Paused
	}
	return "disk-ill"
}

func pauseEvent(on bool) string {
	if on {
		return eventPaused
	}
	return eventResumed
}

// pause answers a client that pauses or resumes this very node.
func (a *answerer) pause(ctx context.Context, on bool) error {
	if err := a.read(&struct{}{}); err != nil {
		return err
	}
	if err := a.host.setPaused(ctx, on, a.who("")); err != nil {
		return err
	}
	return a.say(struct{}{}, false)
}

// errPaused is why a paused node does not stand.
func (f *facts) errPaused() error { return fmt.Errorf("%s is paused", f.cfg.ID) }
