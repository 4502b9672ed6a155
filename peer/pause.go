package peer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/internal/disk"
)

// pausing is whether an operator has paused this node. It is durable before it is reported.
type pausing struct {
	turn   chan struct{} // held while it is written
	unsure bool          // the last write failed, so the disk's content is unknown; owned by the holder of turn
	last   atomic.Pointer[disk.Pause]
}

// open reads the setting of an earlier life.
func (p *pausing) open(n *Node) {
	p.turn = make(chan struct{}, 1)
	was, err := n.dir.Pause()
	p.last.Store(&was)
	if err != nil {
		p.unsure = true
		n.log.Warn("whether this node is paused cannot be told", "error", err)
	} else if was.Paused {
		n.log.Warn("this node is paused: it votes and does not stand", "by", was.By, "since", was.At)
	}
}

func (n *Node) isPaused() bool {
	p := n.pausing.last.Load()
	return p != nil && p.Paused
}

// Pause pauses this node: it does not stand, and gives up a term that it has when its
// work has stopped. It goes on voting. It stays paused across restarts, until Resume:
// it is on the disk when Pause returns nil. After an error the node does what it did
// before; what it will do after its next start is not known until Pause or Resume
// succeeds. To pause a paused node changes nothing.
func (n *Node) Pause(ctx context.Context) error { return n.setPaused(ctx, true, "this program") }

// Resume ends what Pause began, in the same way.
func (n *Node) Resume(ctx context.Context) error { return n.setPaused(ctx, false, "this program") }

func (n *Node) setPaused(ctx context.Context, on bool, by string) error {
	if !n.votes() {
		return fmt.Errorf("%w: %s is an observer and never stands", driver.ErrUnsupported, n.cfg.ID)
	}
	select {
	case n.pausing.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-n.pausing.turn }()
	p := disk.Pause{Paused: on, By: by, At: time.Now()}
	if n.isPaused() == on && !n.pausing.unsure {
		return nil
	}
	if err := n.dir.SetPause(p); err != nil {
		n.pausing.unsure = true
		return fmt.Errorf("%s cannot write it down, goes on as before, and may have forgotten either at its next start: want it said again: %w", n.cfg.ID, err)
	}
	n.pausing.unsure = false
	if !n.run.Call(func() {
		n.pausing.last.Store(&p)
		n.note(pauseEvent(on), n.known(), by, p.At)
		if on {
			n.locator.enough(errPaused{n.cfg.ID})
		}
		n.run.Command(protocol.Command{Verb: n.dialect.pausing(on)})
	}) {
		return errClosed
	}
	n.log.Warn("this node is "+pauseEvent(on), "by", by)
	return nil
}

// reason is why a term ended. A machine that knows no pauses takes a pause for bad health.
func (n *Node) reason(r protocol.Reason) protocol.Reason {
	if n.isPaused() && r == protocol.Unhealthy {
		return protocol.Paused
	}
	return r
}

func pauseEvent(on bool) string {
	if on {
		return eventPaused
	}
	return eventResumed
}

// known is the token of the present or last leader that this node has seen; 0 if it has seen none.
func (n *Node) known() fence.Token { return n.run.Token(n.lastCount) }

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

// standsNot is why this node does not stand, for people, when there is no leader.
func (n *Node) standsNot() error {
	if n.isPaused() {
		return errPaused{n.cfg.ID}
	}
	return n.placeless()
}

type errPaused struct{ id protocol.NodeID }

func (e errPaused) Error() string { return fmt.Sprintf("%s is paused", e.id) }
