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
	"github.com/electd/elect/internal/runtime"
)

// locator asks the application for its position (R13), and has it catch up. It uses goroutines of its own, so no turn
// waits for it.
type locator struct {
	*membership
	run *runtime.Runner

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
func (l *locator) start() {
	l.kick = make(chan chan struct{})
	l.ctx, l.end = context.WithCancel(context.Background())
	if l.cfg.Position == "" || l.cfg.policy() == quorum.IgnorePosition {
		return
	}
	if l.cfg.Locate == nil {
		if l.votes() {
			l.log.Warn("positions count in this election, and this voter has none: it is behind all that have one", "position", string(l.cfg.Position))
		}
		return
	}
	l.runs.Go(l.loop)
}

// close ends everything that runs, and waits for it.
func (l *locator) close() {
	l.end()
	l.runs.Wait()
}

func (l *locator) loop() {
	again := time.NewTicker(cmp.Or(l.cfg.LocateEvery, l.plan.Heartbeat))
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
	at, err := l.cfg.Locate(l.ctx)
	switch {
	case l.ctx.Err() != nil:
		return
	case err == nil && len(at) > quorum.MaxPosition:
		err = fmt.Errorf("a position of %d bytes; want at most %d", len(at), quorum.MaxPosition)
	case err == nil && !utf8.ValidString(at):
		err = fmt.Errorf("the position %.40q is not UTF-8", at)
	}
	if err != nil {
		if before := l.wrong.Swap(&err); before != nil {
			return
		}
		if l.last.Load() != nil {
			l.log.Warn("the position is not known; the last one counts", "position", l.position(), "error", err)
		} else {
			l.log.Warn("the position is not known yet: this node neither stands nor gives a vote to others "+l.until(), "error", err)
		}
		return
	}
	if l.wrong.Swap(nil) != nil {
		l.log.Warn("the position is known again", "position", at) // at the level of the line about the trouble
	}
	if p := l.last.Load(); p != nil && *p == at {
		return
	}
	l.run.Call(func() {
		l.last.Store(&at)
		l.run.Command(protocol.Command{Verb: protocol.Locate, Position: at})
	})
}

// until is how long a node waits for its first position, for people.
func (l *locator) until() string {
	if l.cfg.policy() == quorum.RequirePosition {
		return "until it is"
	}
	return fmt.Sprintf("until it is, or for %v", l.placing())
}

// placing is how long a voter of an election that prefers positions waits for its own position before it stands
// without: a promise and the grace, which is two by default.
func (l *locator) placing() time.Duration { return 3 * l.plan.Promise }

// placeless returns an error if this node does not stand because it does not know its position.
func (l *locator) placeless() error {
	if !l.asks() || l.last.Load() != nil || !l.votes() ||
		l.cfg.policy() == quorum.PreferPosition && l.run.Latest().Boot >= l.from.Add(l.placing()) {
		return nil
	}
	why := errNotLocated
	if p := l.wrong.Load(); p != nil {
		why = *p
	}
	return fmt.Errorf("%s does not know its position yet: %w", l.cfg.ID, why)
}

var errNotLocated = errors.New("it has asked, and has not been told")

// fresh asks now, and waits for the answer, for a promise at most.
func (l *locator) fresh(ctx context.Context) {
	if !l.asks() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, l.plan.Promise)
	defer stop()
	defer context.AfterFunc(l.ctx, stop)()
	known := make(chan struct{})
	select {
	case l.kick <- known:
	case <-ctx.Done():
		return
	}
	select {
	case <-known:
	case <-ctx.Done():
	}
}

// asks reports whether there is a function to ask, and a use for its answer.
func (l *locator) asks() bool {
	if l.kick == nil {
		return false // it boots
	}
	c := &l.cfg
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

// instruct tells a machine that has just booted the position.
func (l *locator) instruct() {
	l.from = l.run.Latest().Boot
	if at := l.last.Load(); at != nil {
		l.run.Command(protocol.Command{Verb: protocol.Locate, Position: *at})
	}
}

// catchUp carries out the order. A CatchUp that is under way goes on: of two equal positions the machine names now
// one node, now the other.
func (l *locator) catchUp(from protocol.NodeID, position string) {
	if l.cfg.CatchUp == nil || l.run.Ending() || l.moot != nil {
		return
	}
	ctx, end := context.WithCancelCause(l.ctx)
	l.moot = end
	l.log.Info("behind: catching up", "from", from, "position", position, "own", l.position())
	l.runs.Go(func() {
		defer end(nil)
		err := l.cfg.CatchUp(ctx, string(from), position)
		if ctx.Err() == nil && err != nil {
			l.log.Warn("catching up failed", "from", from, "position", position, "error", err)
		}
		l.run.Do(func() { l.moot = nil })
		l.fresh(l.ctx)
	})
}

// enough cancels a CatchUp that is of no use any more.
func (l *locator) enough(why error) {
	if l.moot != nil {
		l.moot(why)
	}
}

// published applies the consequences of a new view for positions.
func (l *locator) published(before *protocol.View) {
	v := l.run.View()
	if v.Leader.ID == "" && before.Leader.ID != "" {
		l.soon()
	}
	if l.moot != nil && v.Leader.ID != "" {
		l.enough(fmt.Errorf("%s leads", v.Leader.ID))
	}
}
