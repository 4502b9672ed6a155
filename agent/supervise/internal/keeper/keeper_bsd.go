//go:build darwin || dragonfly || freebsd || openbsd

package keeper

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeReaper does nothing: on this system orphans become children of process 1.
func BecomeReaper() error { return nil }

// SeesFamily returns nil: on this system the keeper does not look for descendants.
func SeesFamily() error { return nil }

// namespace and outer are never made on this system.
type (
	namespace struct{ Bounds }
	outer     struct{}
)

func (k *keeper) settle() error { return nil }

func (k *keeper) fork(attr *syscall.ProcAttr) (outside int, err error) {
	k.pid, err = syscall.ForkExec(k.spec.Path, k.spec.Args, attr)
	return k.pid, err
}

func (k *keeper) reclaim(tty int) bool { return Reclaim(tty, k.pid, k.spec.Group) }

func conceal() {}

func dieWithParent(*syscall.SysProcAttr) {}

// commandEnded reports false: what has ended is reaped at once. The system does not reuse the number of a group that
// still has members, nor that of an empty one within the microseconds until it is signalled.
func commandEnded(int) bool { return false }

// waitAny collects the end or stop of the command, which is the only child. pid is 0 if there is no news; an error
// means that there is no child.
func waitAny(child int, status *syscall.WaitStatus) (pid int, err error) {
	return syscall.Wait4(child, status, syscall.WNOHANG|syscall.WUNTRACED, nil)
}

// sweep kills the group until it has no member. More than the group cannot be found on this system.
func (k *keeper) sweep() {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	for wait := shortest; ; wait = min(2*wait, longest) {
		// Some systems return EPERM for a group that consists of zombies only.
		err := syscall.Kill(-k.pid, syscall.SIGKILL)
		k.reap()
		if k.reaped && err != nil {
			return
		}
		k.pause(wait)
	}
}

// groupAlive reports false: this system does not tell zombies from live processes, so no process outlives the command
// for the rest of the grace.
func (k *keeper) groupAlive() bool { return false }

// census is empty: a family cannot be counted on this system.
type census struct{}

func (census) close() {}

func (k *keeper) count() { k.counted = true }

// raid kills the command's group.
func (k *keeper) raid() { k.signalGroup(syscall.SIGKILL) }

// unlock frees the lock of an open file description, for all its copies.
func unlock(fd int) { _ = unix.Flock(fd, unix.LOCK_UN) }

// alarm is poll's own timeout on this system.
type alarm struct{ fd int }

func (a *alarm) open() { a.fd = -1 }

func (a *alarm) set(now, at int64) time.Duration {
	if at == 0 {
		return -1
	}
	return time.Duration(max(at-now, 0))
}

// witnesses is empty: on this system no process can be proven dead.
type witnesses struct{}

// testament is the files to keep. It is never told.
type testament struct{ keep []int }

func (k *keeper) accept(_ []byte, keep []int) *testament { return &testament{keep} }

func (k *keeper) drop(w *testament) {
	for _, fd := range w.keep {
		unix.Close(fd)
	}
}

func (k *keeper) prepare() {}

func (k *keeper) testify() {}
