package keeper

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/proc"
)

// BecomeReaper makes this process the parent of its orphaned descendants.
func BecomeReaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// SeesFamily returns why this process could not find its descendants, or nil.
func SeesFamily() error { return proc.Check() }

// conceal keeps processes of the same user without CAP_SYS_PTRACE from tracing this process, and from its descriptors.
// A tracer could stop a keeper without its parent's knowledge.
func conceal() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// dieWithParent has the kernel kill the command if the keeper is killed. It is only a second line of defence:
// descendants do not inherit it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// commandEnded reports whether the child has ended, without reaping it.
func commandEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// waitAny collects the next child that has ended or stopped. pid is 0 if there is none now; ECHILD means that there
// are no children.
func waitAny(_ int, status *syscall.WaitStatus) (pid int, err error) {
	return syscall.Wait4(-1, status, syscall.WNOHANG|syscall.WUNTRACED|syscall.WALL, nil)
}

// sweep kills until no process is left.
func (k *keeper) sweep() {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	denied := map[int]bool{}
	l := Lineage{Root: os.Getpid(), Denied: func(pid int, err error) {
		// No more than a pipe without a reader has room for.
		if len(denied) < 16 && !denied[pid] {
			denied[pid] = true
			k.note(fmt.Sprintf("cannot kill process %s of the family (%v): waiting for its end with the lock held", k.outside(pid), err))
		}
	}}
	wait, muted := shortest, false
	begun := clock.Now()
	k.raid()
	AwaitInside(k.bounds)
	for {
		// All are killed before one is reaped. Reaping may take long on a busy machine: the kernel must first discard what
		// other processes have read of the dead one in /proc, and spins while they read. It was seen to take a second, for
		// which an orphan of the command outlived the lease.
		for range Rounds {
			k.signalGroup(syscall.SIGKILL)
			if l.Strike(); !l.Fresh {
				break
			}
		}
		ended, none := k.reap()
		if none && k.bounds.empty() && k.alone() {
			return
		}
		if len(ended) > 0 {
			l.Reaped(ended)
			wait = shortest
			continue
		}
		if end := k.leaseEnd(); !muted && end != 0 && int64(clock.Now()) >= end {
			muted = true
			k.bounds.Mute() // servers need not wait until the last one can die
		}
		k.tellSurvivors(begun)
		if none || !k.bounds.empty() {
			k.bounds.Kill() // one may have entered since
		}
		// SIGCHLD ends the pause. A process that cannot die now (it waits for a disk) must not cost a core. One that is
		// slow to die may still get children: those whose parent has died, if it is a subreaper, and those forked with
		// CLONE_PARENT.
		clear(l.Walked)
		k.pause(wait)
		wait = min(2*wait, longest)
	}
}

// Rounds is how often to look for further processes to kill before the dead ones are reaped. Only a family that forks
// as fast as it is killed takes more, and then its numbers have to be released.
const Rounds = 16

// others is all of the family but the command, if that has ended and is not yet reaped: the kernel would first have
// to discard what was read of it in /proc.
func (k *keeper) others() Lineage {
	l := Lineage{Root: os.Getpid()}
	if !k.reaped && commandEnded(k.pid) {
		l.Spare = map[int]struct{}{k.pid: {}}
	}
	return l
}

// groupAlive reports whether a process of the command's group still runs. It is called when the command itself has
// ended.
func (k *keeper) groupAlive() bool {
	l := k.others()
	alive := false
	l.Each(func(pid int) {
		if s, ok := proc.Read(pid); ok && s.Group == k.pid && !s.Dead() {
			alive = true
		}
	})
	return alive
}

// unlock frees the locks of an open file description, for all its copies.
func unlock(fd int) {
	_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
	_ = unix.Flock(fd, unix.LOCK_UN)
}

// alarm makes a descriptor readable at an instant of the shared clock. poll's
// own timeout stands still while the machine sleeps.
type alarm struct {
	fd int // -1 if there is none: then poll's timeout is used
	at int64
}

func (a *alarm) open() {
	a.fd = -1
	if clock.Bends() {
		return // the kernel's timers ignore that offset
	}
	if fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err == nil {
		a.fd = fd
	}
}

// set sets the alarm, 0 for never, and returns how long poll may wait at most; negative is for ever.
func (a *alarm) set(now, at int64) time.Duration {
	if at != a.at {
		a.at = at
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at)} // 0 disarms; setting it clears an unread expiry
		if a.fd >= 0 && unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil) != nil {
			unix.Close(a.fd)
			a.fd = -1
		}
	}
	if at == 0 || a.fd >= 0 {
		return -1
	}
	return clock.Timer(time.Duration(max(at-now, 0)))
}
