//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/leasepage"
	"github.com/electd/elect/internal/mutation"
)

// Family is a running command with all its descendants, and their keeper. All
// methods may be called concurrently, and any number of times.
type Family struct {
	log       *slog.Logger
	keeperLog *slog.Logger // what the keeper process was started with; owned by awaitKeeper
	pid       int          // the command's, and that of its group
	keeper    int          // the keeper's pid
	init      bool         // the keeper is the init of the family's pid namespace
	grace     time.Duration
	terminal  *os.File // or nil
	tracker   tracker  // finds the family if the keeper dies
	bounds    keeper.Bounds
	addresses []string                                  // for when the keeper is dead
	noted     string                                    // the keeper's last note before the start; owned by Start
	proving   sync.Mutex                                // held while the lease is asked, and told to bounds
	page      *leasepage.Writer                         // for when the keeper is dead; or nil; guarded by proving
	told      bool                                      // the keeper has its specification; guarded by proving
	unproven  bool                                      // and the keeper knows it; guarded by proving
	proof     func() (left time.Duration, bounded bool) // the mandate's lease, or nil
	paused    chan syscall.Signal                       // to jobControl

	commands *os.File // closing it signals the parent's death to the keeper
	reports  *os.File
	in       keeper.Decoder // of reports; owned by the reader: Start, then watch

	swept   atomic.Bool   // the keeper has reported its sweep
	overran chan struct{} // the keeper has reported that the lease ended while some processes were alive
	exited  chan struct{} // the command has ended
	closed  chan struct{} // the keeper has been reaped
	done    chan struct{}
	others  sync.WaitGroup // goroutines that end with closed, before done is closed

	exit      Exit // owned by watch until done is closed
	announced bool // owned by watch
	// when the keeper, or this process, saw that all are dead; 0: not seen. Owned by watch until done is closed
	ended clock.Boot
	died  clock.Boot   // ended, or when this process found no member any more; owned likewise
	lease atomic.Int64 // the end of the lease that the keeper was last told; 0: none

	mu     sync.Mutex // guards what follows; held during system calls that do not wait
	reaped bool       // the keeper's pid may belong to another process
	gone   *os.File   // only the keeper has its write end; nil when over
	goneFD int32
}

// PID returns the command's process id, which is also that of its process group. After Exited is closed it may belong
// to another process.
func (f *Family) PID() int { return f.pid }

// Signal has the keeper send sig to the command's process group. It returns os.ErrProcessDone when the family is
// dead, and does not wait for delivery.
func (f *Family) Signal(sig syscall.Signal) error {
	return f.send(keeper.AppendNumber(nil, keeper.KindSignal, int64(sig)))
}

// killAt is when the keeper begins, for a lease that lasts left from now.
func killAt(now clock.Boot, left time.Duration) clock.Boot {
	if mutation.Is(mutation.LateKill) {
		left += time.Second
	}
	return now.Add(left - keeper.KillTime)
}

// deadline sets when the keeper kills the family. A later call replaces it. It does not wait. 0 removes the deadline.
func (f *Family) deadline(at clock.Boot) {
	f.proving.Lock()
	defer f.proving.Unlock()
	if f.unproven {
		return // the lease was lost since it was asked: the earlier deadline holds
	}
	n := int64(0)
	if at != 0 {
		n = keeper.Shared(at)
		f.lease.Store(keeper.Shared(at.Add(keeper.KillTime)))
	}
	if err := f.send(keeper.AppendNumber(nil, keeper.KindDeadline, n)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		f.log.Warn("deadline not pushed out", "error", err)
	}
}

// Renew asks the mandate of Command.Under for its lease at once. When it returns, a network guard passes packets only
// until the end of the lease that is proven now, and a lease page proves no more. A caller that learns of a loss calls
// it before anything else.
func (f *Family) Renew() { f.proven() }

// proven asks for the lease, and lets packets leave until its end. The lease is asked and told in one step: a later
// answer must not be overtaken by an earlier one.
func (f *Family) proven() (left time.Duration, bounded bool) {
	f.proving.Lock()
	defer f.proving.Unlock()
	until, now := int64(math.MaxInt64), clock.Now() // before the question
	if f.proof != nil {
		if left, bounded = f.proof(); bounded {
			until = 0
		}
	}
	if left > 0 {
		until = keeper.Shared(now.Add(left))
	}
	f.bounds.Prove(until)
	if lost := bounded && left <= 0; f.page != nil && f.told && lost != f.unproven {
		if f.unproven = lost; lost {
			f.page.Prove(0)
			_ = f.send(keeper.AppendNumber(nil, keeper.KindUnproven, 0)) // after the deadlines that are under way
		}
	}
	return left, bounded
}

// prolong pushes the deadline of a lease out, until over is closed or the lease is unbounded. It checks eight times
// per remaining lease.
func prolong(lease func() (time.Duration, bool), over <-chan struct{}, push func(at clock.Boot)) {
	for {
		now := clock.Now() // before the lease is read: never too late
		left, bounded := lease()
		if !bounded {
			return
		}
		if left > 0 {
			push(killAt(now, left))
		} // the last deadline holds
		select {
		case <-over:
			return
		case <-time.After(max(left/8, time.Millisecond)):
		}
	}
}

// Withdraw has the keeper remove the addresses of Command.Addresses for good. It does not wait. Stop and Kill do so, too.
func (f *Family) Withdraw() {
	if len(f.addresses) > 0 {
		_ = f.send(keeper.AppendNumber(nil, keeper.KindWithdraw, 0)) // Stop follows, which does not rely on it
	}
}

// Stop ends the family. It sends SIGTERM to the command's group. It sends SIGKILL to all of the family when the
// command and its group have ended, the grace is over or ctx has ended, whichever is first. It returns when
// everything is dead.
func (f *Family) Stop(ctx context.Context) Exit {
	f.Renew()
	f.signalKeeper(syscall.SIGCONT) // in case it was stopped
	if err := f.send(keeper.AppendNumber(nil, keeper.KindStop, 0)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		f.Kill()
	}
	late := time.NewTimer(f.grace + keeperPatience)
	defer late.Stop()
	select {
	case <-f.done:
		return f.exit
	case <-ctx.Done():
	case <-late.C: // the keeper should have done it by now
	}
	f.Kill()
	return f.Wait()
}

// keeperPatience is how long a keeper may take to obey. After that it is killed as unresponsive, and the family with
// it.
const keeperPatience = time.Second

// Kill kills the family. It does not wait.
func (f *Family) Kill() {
	f.signalKeeper(syscall.SIGCONT)
	switch err := f.send(keeper.AppendNumber(nil, keeper.KindKill, 0)); {
	case errors.Is(err, os.ErrProcessDone):
	case err != nil:
		f.killKeeper(err)
	default:
		time.AfterFunc(keeperPatience, func() {
			if !f.swept.Load() && !f.Gone() {
				f.killKeeper(errors.New("no answer"))
			}
		})
	}
}

// killKeeper kills a keeper that does not do its work; watch does the rest.
func (f *Family) killKeeper(why error) {
	f.log.Error("killing the keeper, which does not react", "keeper", f.keeper, "reason", why)
	f.signalKeeper(syscall.SIGKILL)
}

func (f *Family) signalKeeper(sig syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.reaped {
		_ = syscall.Kill(f.keeper, sig)
	}
}

// Gone reports whether the keeper releases the locks, or is dead. The keeper announces that before it unlocks, and
// Gone asks the kernel. So it is true in time, even in a process that was frozen until now. It takes about 1 µs.
func (f *Family) Gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone == nil {
		return true
	}
	fds := [...]unix.PollFd{{Fd: f.goneFD, Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR {
			return n != 0 // an error: then nothing is known, and the locks may be free
		}
	}
}

// Exited is closed when the command has ended. Others of its family may still live for a moment: Done is closed when
// all are dead.
func (f *Family) Exited() <-chan struct{} { return f.exited }

// Done is closed when all of the family and the keeper are dead.
func (f *Family) Done() <-chan struct{} { return f.done }

// Wait waits for Done, and returns how the family ended.
func (f *Family) Wait() Exit {
	<-f.done
	return f.exit
}

// InTime reports whether all of the family was dead before the end of the latest lease that the keeper was told. It
// waits for Done, or until the keeper reports that the lease has ended and some of the family is alive. It is false
// if there was no lease, or if the keeper died, because then the time of the family's death is not proven.
func (f *Family) InTime() bool {
	select {
	case <-f.done:
	case <-f.overran:
		select {
		case <-f.done: // the family has died since: then the keeper's report counts
		default:
			return false
		}
	}
	return f.ended != 0 && int64(f.ended) <= f.lease.Load()
}

// Overrun waits for Done, and returns how long some of the family was alive after the end of its lease. It is 0 if
// all were dead by then, or if there was no lease.
func (f *Family) Overrun() time.Duration {
	<-f.done
	end := f.lease.Load()
	if end == 0 || f.InTime() {
		return 0
	}
	return max(f.died.Sub(clock.Boot(end)), 0)
}

// send writes a frame to the keeper, at once or not at all.
func (f *Family) send(frame []byte) error {
	conn, err := f.commands.SyscallConn()
	if err != nil {
		return os.ErrProcessDone
	}
	var werr error
	err = conn.Write(func(fd uintptr) bool {
		for {
			if _, werr = unix.Write(int(fd), frame); werr != unix.EINTR {
				return true
			}
		}
	})
	switch {
	case err != nil || keeper.HasGone(werr):
		return os.ErrProcessDone
	case werr != nil:
		return fmt.Errorf("supervise: the keeper does not read: %w", werr)
	}
	return nil
}

// read returns the keeper's next frame.
func (f *Family) read() (keeper.Kind, []byte, error) {
	for {
		k, payload, ok, err := f.in.Next()
		if ok || err != nil {
			return k, payload, err
		}
		n, err := f.reports.Read(f.in.Room())
		if err != nil {
			return 0, nil, err
		}
		f.in.Took(n)
	}
}

// drain reads the last reports of a keeper that is ending, reaps it, and cleans up if it was killed.
func (f *Family) drain() {
	for {
		k, payload, err := f.read()
		if err != nil {
			break
		}
		f.hear(k, payload)
	}
	f.over()
}

// watch reads the keeper's reports until it ends, and then ends the family here.
func (f *Family) watch() {
	defer close(f.done)
	for {
		k, payload, err := f.read()
		if err != nil {
			break // EOF: it is dead or about to be
		}
		f.hear(k, payload)
	}
	f.over()
	f.others.Wait()
	if f.terminal != nil {
		keeper.Reclaim(int(f.terminal.Fd()), f.pid, unix.Getpgrp())
	}
}

func (f *Family) hear(k keeper.Kind, payload []byte) {
	if k == keeper.KindNote {
		if f.pid == 0 && len(f.addresses) > 0 {
			f.noted = string(payload) // Start returns it
			return
		}
		f.log.Warn(string(payload), "keeper", f.keeper)
		return
	}
	n, err := keeper.Number(payload)
	if err != nil {
		return
	}
	switch k {
	case keeper.KindStarted:
		f.pid = int(n)
	case keeper.KindEnding:
		f.exit.Reason = Reason(n)
	case keeper.KindSweeping:
		f.swept.Store(true)
	case keeper.KindExited:
		f.setStatus(syscall.WaitStatus(n))
	case keeper.KindPaused:
		select {
		case f.paused <- syscall.Signal(n):
		default: // it has enough to read
		}
	case keeper.KindOverrun:
		select {
		case <-f.overran:
		default:
			close(f.overran)
		}
	case keeper.KindGone:
		f.announced, f.ended, f.died = true, clock.Boot(n), clock.Boot(n)
	}
}

func (f *Family) setStatus(status syscall.WaitStatus) {
	f.exit.Code = status.ExitStatus()
	if status.Signaled() {
		f.exit.Code, f.exit.Signal = -1, status.Signal()
	}
	select {
	case <-f.exited:
	default:
		close(f.exited)
	}
}

// over reaps the keeper, kills what it left, and closes what is open.
func (f *Family) over() {
	<-f.closed
	f.bounds.Mute()
	if !f.announced {
		if f.exit.Reason == 0 {
			f.exit.Reason = KeeperLost
		}
		if len(f.addresses) > 0 {
			if err := keeper.DropAddresses(f.addresses); err != nil { // they do not answer since the keeper is dead
				f.log.Error("the addresses of a keeper that died cannot be removed", "error", err)
			}
		}
		f.exit.Err = errors.New("supervise: the keeper was killed, the family after it")
		f.log.Warn("the keeper died: killing the family", "keeper", f.keeper)
		f.bounds.Kill()
		keeper.AwaitInside(f.bounds)
		proven := f.init || f.killOrphans() // an init is dead when all others in its namespace are: pid_namespaces(7)
		keeper.KillUntilEmpty(f.bounds)
		if f.died = clock.Now(); proven {
			f.ended = f.died
		}
	}
	select {
	case <-f.exited:
	default:
		f.exit.Code, f.exit.Signal = -1, syscall.SIGKILL
		close(f.exited)
	}
	f.proving.Lock() // another goroutine may be telling the page that the lease was lost
	f.page.Remove()
	f.page = nil
	f.proving.Unlock()
	f.bounds.Remove()
	f.commands.Close()
	f.reports.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone.Close()
	f.gone = nil
	f.tracker.close()
}

// awaitKeeper reaps the keeper. It continues a keeper that was stopped, because a stopped keeper guards nothing.
func (f *Family) awaitKeeper() {
	defer close(f.closed)
	for {
		awaitChange(f.keeper)
		ended, woken := f.reapKeeper()
		if ended {
			return
		}
		if woken {
			f.keeperLog.Warn("the keeper was stopped: woke it up", "keeper", f.keeper)
		}
	}
}

func (f *Family) reapKeeper() (ended, woken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(f.keeper, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
	switch {
	case pid == f.keeper && status.Stopped():
		_ = syscall.Kill(f.keeper, syscall.SIGCONT)
		return false, true
	case err == syscall.EINTR || err == nil && pid == 0:
		return false, false
	}
	f.reaped = true
	keepers.Lock()
	keepers.remove(f.keeper)
	keepers.Unlock()
	return true, false
}

// keepers are the live keepers of this process. The list is process-wide because children are: when a keeper has
// died, its orphans are found among this process's children, as are the keepers of other families. The lock is held
// while a keeper is forked, so that it is not taken for an orphan, and while orphans are listed and killed.
var keepers keeperList

type keeperList struct {
	sync.Mutex
	pids      map[int]struct{}
	innocents map[int]int // pid to start: children that existed when orphans were first adopted
}

// spared returns the children of this process that no keeper left behind.
func (l *keeperList) spared() map[int]struct{} {
	spared := map[int]struct{}{}
	maps.Copy(spared, l.pids)
	for pid, start := range l.innocents {
		if startOf(pid) == start {
			spared[pid] = struct{}{}
		}
	}
	return spared
}

func (l *keeperList) add(pid int) {
	if l.pids == nil {
		l.pids = map[int]struct{}{}
	}
	l.pids[pid] = struct{}{}
}

func (l *keeperList) remove(pid int) { delete(l.pids, pid) }
