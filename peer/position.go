package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
)

// locator asks the application for its position (R13), and has it catch up. It uses goroutines of its own, so no turn
// waits for it.
type locator struct {
	n    *Node
	ctx  context.Context // ends with the node
	end  context.CancelFunc
	runs sync.WaitGroup
	kick chan chan struct{} // asks for a fresh position now; the sent channel is closed when it is known

	last  atomic.Pointer[string]
	wrong atomic.Pointer[error] // why the last call failed; nil if it did not

	// Owned by turns.
	from protocol.Instant        // since when the node waits for its first position
	moot context.CancelCauseFunc // cancels the CatchUp under way; nil if there is none
}

// position is the last known one.
func (l *locator) position() string {
	if p := l.last.Load(); p != nil {
		return *p
	}
	return ""
}

// start begins to ask. It runs before the first turn.
func (l *locator) start(n *Node) {
	l.n, l.kick = n, make(chan chan struct{})
	l.ctx, l.end = context.WithCancel(context.Background())
	if n.cfg.Position == "" || n.cfg.policy() == quorum.IgnorePosition {
		return
	}
	if n.cfg.Locate == nil {
		if n.votes() {
			n.log.Warn("positions count in this election, and this voter has none: it is behind all that have one", "position", string(n.cfg.Position))
		}
		return
	}
	l.runs.Go(l.run)
}

// close ends everything that runs, and waits for it.
func (l *locator) close() {
	l.end()
	l.runs.Wait()
}

func (l *locator) run() {
	again := time.NewTicker(cmp.Or(l.n.cfg.LocateEvery, l.n.plan.Heartbeat))
	defer again.Stop()
	for {
		l.ask()
		select {
		case <-l.ctx.Done():
			return
		case <-again.C:
		case known := <-l.kick:
			l.ask()
			close(known)
		}
	}
}

// ask asks once, and tells the machine if the position has changed.
func (l *locator) ask() {
	at, err := l.n.cfg.Locate(l.ctx)
	switch {
	case l.ctx.Err() != nil:
		return
	case err == nil && len(at) > protocol.MaxPosition:
		err = fmt.Errorf("a position of %d bytes; want at most %d", len(at), protocol.MaxPosition)
	case err == nil && !utf8.ValidString(at):
		err = fmt.Errorf("the position %.40q is not UTF-8", at)
	}
	if err != nil {
		if before := l.wrong.Swap(&err); before != nil {
			return
		}
		if l.last.Load() != nil {
			l.n.log.Warn("the position is not known; the last one counts", "position", l.position(), "error", err)
		} else {
			l.n.log.Warn("the position is not known yet: this node neither stands nor gives a vote to others "+l.until(), "error", err)
		}
		return
	}
	if l.wrong.Swap(nil) != nil {
		l.n.log.Warn("the position is known again", "position", at) // at the level of the line about the trouble
	}
	if p := l.last.Load(); p != nil && *p == at {
		return
	}
	l.n.run.Call(func() {
		l.last.Store(&at)
		l.n.run.Command(protocol.Command{Verb: protocol.Locate, Position: at})
	})
}

// until is how long a node waits for its first position, for people.
func (l *locator) until() string {
	if l.n.cfg.policy() == quorum.RequirePosition {
		return "until it is"
	}
	return fmt.Sprintf("until it is, or for %v", l.n.placing())
}

// placing is how long a voter of an election that prefers positions waits for its own position before it stands
// without: a promise and the grace, which is two by default.
func (n *Node) placing() time.Duration { return 3 * n.plan.Promise }

// placeless returns an error if this node does not stand because it does not know its position.
func (n *Node) placeless() error {
	l := &n.locator
	if !l.asks() || l.last.Load() != nil || !n.votes() ||
		n.cfg.policy() == quorum.PreferPosition && n.run.Latest().Boot >= l.from.Add(n.placing()) {
		return nil
	}
	why := errNotLocated
	if p := l.wrong.Load(); p != nil {
		why = *p
	}
	return fmt.Errorf("%s does not know its position yet: %w", n.cfg.ID, why)
}

var errNotLocated = errors.New("it has asked, and has not been told")

// fresh asks now, and waits for the answer, for a promise at most.
func (l *locator) fresh(ctx context.Context) {
	if !l.asks() {
		return
	}
	late := time.NewTimer(l.n.plan.Promise)
	defer late.Stop()
	known := make(chan struct{})
	select {
	case l.kick <- known:
	case <-late.C:
		return
	case <-ctx.Done():
		return
	case <-l.ctx.Done():
		return
	}
	select {
	case <-known:
	case <-late.C:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

// asks reports whether there is a function to ask, and a use for its answer.
func (l *locator) asks() bool {
	if l.n == nil {
		return false // it boots
	}
	c := &l.n.cfg
	return c.Locate != nil && c.policy() != quorum.IgnorePosition
}

// soon asks as soon as possible, unless a call is under way.
func (l *locator) soon() {
	if l.asks() {
		select {
		case l.kick <- make(chan struct{}):
		default:
		}
	}
}

// instruct tells a machine that has just booted what it does not keep.
func (n *Node) instruct() {
	n.locator.from = n.run.Latest().Boot
	if n.isPaused() {
		n.run.Command(protocol.Command{Verb: n.dialect.pausing(true)})
	}
	if at := n.locator.last.Load(); at != nil {
		n.run.Command(protocol.Command{Verb: protocol.Locate, Position: *at})
	}
}

// catchUp carries out the order. A CatchUp that is under way goes on: of two equal positions the machine names now
// one node, now the other.
func (l *locator) catchUp(n *Node, from protocol.NodeID, position string) {
	if n.cfg.CatchUp == nil || n.run.Ending() || l.moot != nil {
		return
	}
	ctx, end := context.WithCancelCause(l.ctx)
	l.moot = end
	n.log.Info("behind: catching up", "from", from, "position", position, "own", l.position())
	l.runs.Go(func() {
		defer end(nil)
		err := n.cfg.CatchUp(ctx, string(from), position)
		if ctx.Err() == nil && err != nil {
			n.log.Warn("catching up failed", "from", from, "position", position, "error", err)
		}
		n.run.Do(func() { l.moot = nil })
		l.fresh(l.ctx)
	})
}

// enough cancels a CatchUp that is of no use any more.
func (l *locator) enough(why error) {
	if l.moot != nil {
		l.moot(why)
	}
}

// whereabouts applies the consequences of a new view for positions.
func (n *Node) whereabouts(before *protocol.View) {
	v := n.run.View()
	if v.Leader.ID == "" && before.Leader.ID != "" {
		n.locator.soon()
	}
	if n.locator.moot != nil && v.Leader.ID != "" {
		n.locator.enough(fmt.Errorf("%s leads", v.Leader.ID))
	}
}

// align waits until the successor's position is that of this node, whose work has returned, so that no voter refuses
// it for its position. It waits two promises at most, or twice LocateEvery. Meanwhile the lease is renewed and no
// other node leads.
func (n *Node) align(ctx context.Context, m *mandate) {
	if !n.locator.asks() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, 2*max(n.plan.Promise, n.cfg.LocateEvery))
	defer stop()
	n.locator.fresh(ctx)
	again := time.NewTicker(max(n.plan.Heartbeat/4, time.Millisecond))
	defer again.Stop()
	for {
		wait := false
		if !n.run.Call(func() { wait = n.run.Held() == m.Mandate && n.ahead() }) || !wait {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			n.log.Warn("every possible successor is behind: its election may take a while")
			return
		}
	}
}

// ahead reports whether every possible successor is behind this node, and there is at least one.
func (n *Node) ahead() bool {
	successors := 0
	for _, v := range n.members() {
		if n.unfit(&v) != "" || n.successor != "" && v.ID != n.successor {
			continue
		}
		successors++
		if !v.Behind {
			return false
		}
	}
	return successors > 0
}
