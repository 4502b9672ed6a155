package file

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// nudge makes a thread restart its system call. The Go runtime handles this signal in every program and sends it to
// itself to preempt goroutines, so one more of them has no effect.
const nudge = unix.SIGURG

// waitFlock takes an exclusive flock on fd. It waits asleep in the kernel, which
// wakes one waiter at a time. It returns errInterrupted when ctx ended or moved
// reported true, and then holds nothing.
func waitFlock(ctx context.Context, fd int, moved func() bool) error {
	if err := tryFlock(fd); err != unix.EWOULDBLOCK {
		return err
	}
	w, err := newWaiter(fd)
	if err != nil {
		return err
	}
	defer w.close()
	result := make(chan error, 1)
	go func() { result <- w.wait(ctx, moved) }()
	return <-result
}

// waiter blocks one thread in flock(2), and can end that wait early without a change to any signal's disposition. The
// kernel restarts a system call that was interrupted by a handler of Go's, and reads the descriptor again when it
// does. So the waiter waits on a descriptor of its own, replaces it with a file that has no locks, and then
// interrupts the thread: flock restarts, and fails at once.
type waiter struct {
	fd       int // a duplicate: the lock belongs to the open file
	lockless int // flock on it fails with EBADF
}

func newWaiter(fd int) (*waiter, error) {
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	lockless, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &waiter{fd: fd, lockless: lockless}, nil
}

func (w *waiter) close() {
	_ = unix.Close(w.fd)
	_ = unix.Close(w.lockless)
}

// wait must run in a goroutine that ends with it, together with its thread, which may be one of a thousand. The
// thread's number stays its own until no more signals can be sent to it, because the sender is joined.
func (w *waiter) wait(ctx context.Context, moved func() bool) error {
	runtime.LockOSThread()
	thread := unix.Gettid()
	// A program may have been started with the signal blocked.
	var set unix.Sigset_t
	width := 1024 / len(set.Val)
	bit := int(nudge) - 1
	set.Val[bit/width] |= 1 << (bit % width)
	if err := unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil); err != nil {
		return os.NewSyscallError("rt_sigprocmask", err)
	}

	var stop atomic.Bool
	done := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		if !waitStop(ctx, done, moved) {
			return
		}
		stop.Store(true)
		// A signal that arrives before the thread is in flock, or while the program ignores it, is lost. So it is repeated
		// until the thread is out.
		for pause := time.Millisecond; ; pause = min(2*pause, Poll) {
			heed()
			if unix.Dup3(w.lockless, w.fd, unix.O_CLOEXEC) == nil {
				_ = unix.Tgkill(unix.Getpid(), thread, nudge)
			}
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
		}
	})

	err := error(unix.EINTR)
	for err == unix.EINTR && !stop.Load() {
		err = unix.Flock(w.fd, unix.LOCK_EX)
	}
	close(done)
	sender.Wait()
	if stop.Load() && (err == unix.EBADF || err == unix.EINTR) {
		return errInterrupted
	}
	return err
}

// heed ends signal.Ignore of the signal, if there was one. To the program and its children, ignoring it and handling
// it as the runtime does are the same.
func heed() {
	if signal.Ignored(nudge) {
		c := make(chan os.Signal, 1)
		signal.Notify(c, nudge)
		signal.Stop(c)
	}
}
