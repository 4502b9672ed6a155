package keeper

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
)

// forkExec forks, and returns when the child has executed the command, or is dead. Until then the kernel stops this
// thread, see vfork(2), also when the child gets no processor or waits for a disk. So if there is a lease, another
// goroutine owns the keeper meanwhile: it reads what the parent wrote, and kills the child in time.
func (k *keeper) forkExec(attr *syscall.ProcAttr) (pid int, err error) {
	if k.deadline == 0 {
		return syscall.ForkExec(k.spec.Path, k.spec.Args, attr)
	}
	executed, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return 0, err
	}
	defer unix.Close(executed)
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2) // to Go's scheduler the thread that is stopped runs
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		k.awaitExec(executed)
	}()
	pid, err = syscall.ForkExec(k.spec.Path, k.spec.Args, attr)
	_, _ = unix.Write(executed, []byte{7: 1})
	<-back
	return pid, err
}

// awaitExec kills the child when it is time to, until executed is readable. Once is not enough: the fork may come after
// that.
func (k *keeper) awaitExec(executed int) {
	const again = time.Millisecond
	for {
		now := int64(clock.Now())
		if k.deadline != 0 && now >= k.deadline {
			k.end(sweeping, BecauseExpired)
		}
		fds := []unix.PollFd{{Fd: int32(executed), Events: unix.POLLIN}, {Fd: int32(k.base + slotCommands), Events: unix.POLLIN}}
		wait := time.Duration(-1)
		switch {
		case k.state == sweeping:
			k.killChildren()
			fds, wait = fds[:1], again // a parent that is dead is readable for ever
		case k.deadline != 0:
			wait = clock.Timer(time.Duration(k.deadline - now))
		}
		ms := -1
		if wait >= 0 {
			ms = int((wait + time.Millisecond - 1) / time.Millisecond)
		}
		if _, err := unix.Poll(fds, ms); err != nil {
			continue // EINTR
		}
		if fds[0].Revents != 0 {
			return
		}
		if len(fds) > 1 && fds[1].Revents != 0 {
			k.listen()
		}
	}
}

// killChildren kills the children of this process, whose numbers it does not know, and what is inside the bounds. The
// main thread reaps a child that cannot execute the command, so the list is read again: see enrol.
func (k *keeper) killChildren() {
	k.bounds.Kill()
	l := Lineage{Root: os.Getpid()}
	l.Look()
	for _, pid := range l.Children(l.Root) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if l.Look(); slices.Contains(l.Children(l.Root), pid) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
}
