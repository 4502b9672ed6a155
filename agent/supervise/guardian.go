//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
)

// guardianPatience is how long the keeper may take to answer.
const guardianPatience = 2 * time.Second

// Guardian is the guarded program's connection with its keeper. Its methods may be called by any number of
// goroutines. A Lead that the keeper is slow to answer delays other calls of Lead, but no deadline.
type Guardian struct {
	log  *slog.Logger
	conn *os.File

	// writing is held for one frame. The keeper reads at once; if it does not, no deadline could be pushed out anyway. A
	// write ends after guardianPatience.
	writing sync.Mutex

	// asking is held while one Lead waits for its answer, for guardianPatience at
	// most. Only other calls of Lead wait for it.
	asking sync.Mutex
	in     keeper.Decoder
	last   uint64 // the number of the last lead
}

// newGuardian makes the Guardian of this process.
func newGuardian(cfg GuardConfig, how *launch) (*Guardian, error) {
	if how.twice || !keeperReady.CompareAndSwap(how, &launch{twice: true, witness: how.witness}) {
		return nil, errGuardedTwice
	}
	c := Command{Logger: cfg.Logger}
	return &Guardian{log: c.logger(), conn: how.guard}, nil
}

// Lead tells the keeper that this program leads, until done is called. It is for elect.Config.Guardian, which calls
// it for each term, and calls done when the work has been joined. If the lease is not renewed the keeper begins to
// kill the program 20 ms before its end; work that is not exclusive has no lease. The keeper holds the files of the
// mandate. When the program and all that it started are dead, the keeper passes the testament to its witness: see
// Command.Under.
//
// A program may lead several elections at a time; the lease that ends first
// counts. An error says that the keeper does not guard this leadership. It is
// permanent if the keeper does not answer.
func (g *Guardian) Lead(m driver.Guarded) (done func(), err error) {
	under := newMandate(m)
	testament, keep := under.testament, append(slices.Clip(under.keep), under.hold...)
	if err := checkTestament(testament, keep); err != nil {
		return nil, driver.Permanent(err)
	}
	at := int64(0)
	if under.lease != nil {
		now := clock.Now() // before the question
		left, bounded := under.lease()
		if bounded && left <= keeper.KillTime {
			return nil, fmt.Errorf("supervise: leadership is proven for %v more: it takes more than %v to guard it; "+
				"for work that is fenced by its token and may begin earlier, set elect.Config.NonExclusive", left, keeper.KillTime)
		}
		if bounded {
			at = keeper.Shared(killAt(now, left))
		}
	}
	id, err := g.lead(at, testament, keep)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	var pushing sync.WaitGroup
	if at != 0 {
		pushing.Go(func() {
			prolong(under.lease, over, func(at clock.Boot) {
				g.tell(keeper.AppendLead(nil, keeper.KindExtend, keeper.Lead{Id: id, At: keeper.Shared(at)}))
			})
		})
	}
	return sync.OnceFunc(func() {
		close(over)
		pushing.Wait()
		g.tell(keeper.AppendLead(nil, keeper.KindDone, keeper.Lead{Id: id}))
	}), nil
}

// InTime is for elect.Config.Guardian. The keeper kills the program in time, so work that can still ask is late.
func (g *Guardian) InTime() bool { return false }

// lead passes a leadership to the keeper, and waits until the keeper has it.
func (g *Guardian) lead(at int64, testament []byte, keep []*os.File) (id uint64, err error) {
	var fds files
	defer func() { fds.close() }()
	for _, file := range keep {
		fd, err := duplicate(file)
		if err != nil {
			return 0, fmt.Errorf("supervise: cannot keep %w", err)
		}
		fds = append(fds, fd)
	}
	g.asking.Lock()
	defer g.asking.Unlock()
	g.last++
	frame := keeper.AppendLead(nil, keeper.KindLead, keeper.Lead{Id: g.last, At: at, Files: len(keep), Testament: testament})
	if err := g.write(frame, fds); err != nil {
		return 0, g.lost(err)
	}
	_ = g.conn.SetReadDeadline(time.Now().Add(guardianPatience))
	answer, err := g.answer()
	switch {
	case err != nil:
		return 0, g.lost(err)
	case answer != 0:
		return 0, fmt.Errorf("supervise: the keeper cannot take the leadership over: %w", syscall.Errno(answer))
	}
	return g.last, nil
}

// lost ends the connection. What the keeper was last told stays in force, and ends the program in time.
func (g *Guardian) lost(err error) error {
	g.conn.Close()
	return driver.Permanent(fmt.Errorf("supervise: the keeper does not answer: %w", err))
}

func (g *Guardian) answer() (int64, error) {
	for {
		k, payload, ok, err := g.in.Next()
		switch {
		case err != nil:
			return 0, err
		case ok && k == keeper.KindTaken:
			return keeper.Number(payload)
		case ok:
			return 0, fmt.Errorf("frame of kind %q", k)
		}
		n, err := g.conn.Read(g.in.Room())
		if err != nil {
			return 0, err
		}
		g.in.Took(n)
	}
}

// write writes one frame as a whole, not interleaved with others.
func (g *Guardian) write(frame []byte, fds []int) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	_ = g.conn.SetWriteDeadline(time.Now().Add(guardianPatience))
	return keeper.SendFiles(g.conn, frame, fds)
}

// tell writes a frame that needs no answer.
func (g *Guardian) tell(frame []byte) {
	err := g.write(frame, nil)
	if err == nil || errors.Is(err, os.ErrClosed) {
		return // the loss of a connection has already been reported
	}
	g.log.Error("the guardian cannot be told", "error", g.lost(err))
}
