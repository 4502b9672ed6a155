package file

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// interruptSignal ends a thread's wait in flock(2). It is a real-time signal
// that nothing else is known to use. A program that asks os/signal for all
// signals sees it too and should ignore it.
const interruptSignal = syscall.Signal(47)

// interruption is process-wide because the disposition of a signal is. It is
// touched only when a candidate stops waiting before it has won.
var interruption struct {
	sync.Mutex
	ch chan os.Signal // never read: that the handler ran is all that matters
}

// armInterruption makes the signal interrupt a system call instead of restarting
// it. Go installs its handlers with SA_RESTART and has no way to ask for
// another, so the flag is taken out of Go's own entry, which is left as it is
// otherwise. It is called before each signal is sent and not once: a program may
// have called signal.Reset meanwhile, after which the signal would end it.
func armInterruption() error {
	interruption.Lock()
	defer interruption.Unlock()
	if interruption.ch == nil {
		interruption.ch = make(chan os.Signal, 1)
	}
	action, err := sigaction(nil)
	if err != nil {
		return err
	}
	if h := action.handler(); h != 0 && h != 1 && *action.flags()&saRestart == 0 { // neither SIG_DFL nor SIG_IGN
		return nil
	}
	signal.Notify(interruption.ch, interruptSignal)
	if action, err = sigaction(nil); err != nil {
		return err
	}
	*action.flags() &^= saRestart
	_, err = sigaction(action)
	return err
}

// kernelAction is the kernel's struct sigaction, which differs from libc's and
// between architectures. Two fields are looked at, and the rest is passed
// through: the handler, and the flags, each as wide as a pointer, in this order.
// Only MIPS has the flags first, as 32 bits.
type kernelAction [8]uint64 // MIPS, the largest, takes 32 bytes

const (
	saRestart = 0x10000000 // the same on every architecture that Go has for Linux
	isMIPS    = runtime.GOARCH == "mips" || runtime.GOARCH == "mipsle" || runtime.GOARCH == "mips64" || runtime.GOARCH == "mips64le"
)

func (a *kernelAction) handler() uintptr {
	if isMIPS {
		return *(*uintptr)(unsafe.Add(unsafe.Pointer(a), unsafe.Sizeof(uintptr(0))))
	}
	return *(*uintptr)(unsafe.Pointer(a))
}

// flags returns the 32 bits of the flags in which SA_RESTART is.
func (a *kernelAction) flags() *uint32 {
	at := unsafe.Sizeof(uintptr(0))
	switch {
	case isMIPS:
		at = 0
	case runtime.GOARCH == "ppc64" || runtime.GOARCH == "s390x": // 64 bits, big endian
		at += 4
	}
	return (*uint32)(unsafe.Add(unsafe.Pointer(a), at))
}

// sigaction replaces the disposition unless replacement is nil, and returns the
// one before.
func sigaction(replacement *kernelAction) (*kernelAction, error) {
	size := uintptr(8)
	if isMIPS {
		size = 16
	}
	var before kernelAction
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(interruptSignal),
		uintptr(unsafe.Pointer(replacement)), uintptr(unsafe.Pointer(&before)), size, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return &before, nil
}

// waitFlock takes an exclusive flock on fd. It waits asleep in the kernel, which
// wakes one waiter at a time. It returns errInterrupted when ctx ended or moved
// reported true, and then holds nothing.
func waitFlock(ctx context.Context, fd int, moved func() bool) error {
	if err := tryFlock(fd); err != unix.EWOULDBLOCK {
		return err
	}
	result := make(chan error, 1)
	go func() {
		// Not unlocked: the thread, which may be one of a thousand, ends with
		// this goroutine.
		runtime.LockOSThread()
		result <- blockFlock(ctx, fd, moved)
	}()
	return <-result
}

// blockFlock is called on a locked thread. The number of that thread stays its
// own until no more signals can be sent to it, because the sender is joined.
func blockFlock(ctx context.Context, fd int, moved func() bool) error {
	thread := unix.Gettid()
	// A program may have been started with the signal blocked.
	var set unix.Sigset_t
	width := int(unsafe.Sizeof(set.Val[0])) * 8
	bit := int(interruptSignal) - 1
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
		// A signal that arrives before the thread is in flock is lost, so it is
		// repeated until the thread says that it is out.
		for pause := time.Millisecond; ; pause = min(2*pause, Poll) {
			if armInterruption() == nil {
				_ = unix.Tgkill(unix.Getpid(), thread, interruptSignal)
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
		err = unix.Flock(fd, unix.LOCK_EX)
	}
	close(done)
	sender.Wait()
	if err == unix.EINTR {
		return errInterrupted
	}
	return err
}
