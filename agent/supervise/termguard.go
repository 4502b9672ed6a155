//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/clock"
)

// TermGuard guards the network of processes that a program starts for one election, without a keeper. It is an
// elect.Guardian: each term gets a cgroup of its own, with a guard that is open until the end of the lease, by the same
// rules as that of a [Family]. Sockets of the program itself stay outside, so it can go on to renew.
//
// What the processes of a term send over IP is dropped when its lease has ended, even if the program is frozen, or when
// the program is dead. A lease that is lost before its end closes the guard before the term's context ends. When the
// work has returned, and before leadership is released, all processes of the term are killed, their connections are
// reset and the guard is closed for good. The release waits without a bound until they are dead: one in state D delays
// it, and leadership that is not lost is renewed meanwhile. They are also killed when the lease has ended and the
// program runs. If the program was killed they live, unable to send, until the next [Contain] of that name, or the next
// term, on the same machine. To have them killed as well, use a [Command] or [Guard].
//
// The guard of work that is not exclusive (elect.Config.NonExclusive) is open until the work has returned, or the
// program is dead.
//
// A [Witness] does not wait for these processes: do not use a TermGuard beside a keeper for the same term.
//
// Its methods may be called by any number of goroutines.
type TermGuard struct {
	c *Containment

	mu   sync.Mutex
	busy bool // a term is set, or begins
	term *guardedTerm
}

// NewTermGuard returns a TermGuard that guards its terms as c does; c must have a network guard. It starts nothing. The
// error matches [ErrContain].
func NewTermGuard(c *Containment) (*TermGuard, error) {
	if !c.Network() {
		return nil, fmt.Errorf("%w: the containment has no network guard; want one for which GuardNetwork has returned nil", ErrContain)
	}
	return &TermGuard{c: c}, nil
}

// guardedTerm is a term with its cgroup.
type guardedTerm struct {
	m      driver.Guarded
	bounds keeper.Bounds

	proving sync.Mutex // held while the lease is asked, and told to bounds

	starting sync.RWMutex // held for reading while a process is started
	closed   bool
}

// Lead is for elect.Config.Guardian, which calls it for each term. It returns when the guard is open. An error says
// that there is no guard; it is permanent if another election uses this TermGuard.
func (g *TermGuard) Lead(m driver.Guarded) (done func(), err error) {
	g.mu.Lock()
	busy := g.busy
	g.busy = true
	g.mu.Unlock()
	if busy {
		return nil, driver.Permanent(errors.New("supervise: a TermGuard was given a second term at a time; want one for each election"))
	}
	bounds, path, err := g.c.bounds(m.Context())
	if err != nil {
		g.set(nil)
		return nil, err
	}
	t := &guardedTerm{m: m, bounds: bounds}
	t.prove()
	g.set(t)
	over := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { t.renew(over) })
	return sync.OnceFunc(func() {
		close(over)
		renewing.Wait()
		t.end()
		if err := g.c.killAll(context.Background(), t.bounds, path); err != nil {
			g.c.log.Error("processes of a term may be alive; what they send is dropped", "error", err)
		}
		t.bounds.Remove()
		g.set(nil)
	}), nil
}

func (g *TermGuard) set(t *guardedTerm) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.term, g.busy = t, t != nil
}

// InTime is for elect.Config.Guardian. It reports false: what the work does beside its guarded processes may be late.
func (g *TermGuard) InTime() bool { return false }

// Renew is for elect.Config.Guardian, which calls it before it tells that a term has ended. When it returns, packets
// leave only until the end of the lease that is proven now, which is at once if leadership is lost. It does not wait.
func (g *TermGuard) Renew() {
	if t := g.current(); t != nil {
		t.prove()
	}
}

// Start starts a command of the present term behind the guard, as [exec.Cmd.Start] does. The caller waits for it with
// cmd.Wait, before the work returns if it wants to know how it ended. The files of the command must be no IP sockets:
// such a socket belongs to the cgroup in which it was opened. This program itself writes to a cmd.Stdout or cmd.Stderr
// that is no *os.File, such as a net.Conn; that is not guarded. Start uses a copy of cmd.SysProcAttr. When the term is
// over it starts nothing; what it starts after the end of the lease cannot send.
func (g *TermGuard) Start(cmd *exec.Cmd) error {
	t := g.current()
	if t == nil {
		return errNoTerm
	}
	files := slices.Clone(cmd.ExtraFiles)
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if f, ok := stream.(*os.File); ok {
			files = append(files, f)
		}
	}
	for _, f := range files {
		if f == nil {
			continue // the null device
		}
		if err := leaves(int(f.Fd()), f.Name()); err != nil {
			return fmt.Errorf("%w: %w", ErrContain, err)
		}
	}
	t.starting.RLock() // the descriptor of the cgroup stays open
	defer t.starting.RUnlock()
	if t.closed {
		return errNoTerm
	}
	attr, given := syscall.SysProcAttr{}, cmd.SysProcAttr
	if given != nil {
		attr = *given
	}
	t.bounds.Enter(&attr)
	cmd.SysProcAttr = &attr
	defer func() { cmd.SysProcAttr = given }()
	return cmd.Start()
}

var errNoTerm = errors.New("supervise: no term goes on whose processes could be guarded; want a call by the work of a leader")

func (g *TermGuard) current() *guardedTerm {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.term
}

// prove lets packets leave until the end of the lease. The lease is asked and told in one step: a later answer must not
// be overtaken by an earlier one.
func (t *guardedTerm) prove() (left time.Duration, bounded bool) {
	t.proving.Lock()
	defer t.proving.Unlock()
	now := clock.Now() // before the question
	if t.m.Exclusive {
		left, bounded = t.m.Remaining()
	}
	switch cause := context.Cause(t.m.Context()); {
	case t.m.Exclusive && cause != nil && !errors.Is(cause, driver.ErrResigned) && !errors.Is(cause, driver.ErrUnhealthy):
		left, bounded = 0, true // lost; one that was asked back is held until it is released
		fallthrough
	case bounded && left <= 0:
		t.bounds.Prove(0)
	case bounded:
		t.bounds.Prove(keeper.Shared(now.Add(left)))
	default:
		t.bounds.Prove(math.MaxInt64)
	}
	return left, bounded
}

// renew pushes the end of the lease out, until over is closed. It ends the term's processes when leadership is lost.
func (t *guardedTerm) renew(over <-chan struct{}) {
	told := t.m.Context().Done()
	for {
		left, bounded := t.prove()
		if bounded && left <= 0 {
			if err := t.m.Check(); err != nil && !errors.Is(err, driver.ErrNotExclusive) {
				t.end()
				return
			}
		}
		var again <-chan time.Time
		if bounded {
			again = time.After(max(clock.Timer(left)/8, time.Millisecond))
		}
		select {
		case <-over:
			return
		case <-told:
			told = nil
		case <-again:
		}
	}
}

// end kills the processes, and closes the guard for good.
func (t *guardedTerm) end() {
	for !t.starting.TryLock() {
		t.bounds.Kill() // a process that is being started may wait for another one, or for a file system that is gone
		time.Sleep(time.Millisecond)
	}
	t.closed = true
	t.starting.Unlock()
	t.bounds.Kill()
	keeper.AwaitInside(t.bounds)
	t.bounds.Mute()
}
