//go:build darwin || dragonfly || freebsd || openbsd

package supervise

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AdoptOrphans does nothing on this system, which gives orphans to process 1. A family whose keeper was killed is
// found by its process group alone.
func AdoptOrphans() error { return nil }

func selfPath() (string, error) { return os.Executable() }

func openSelf() int { return -1 }

// awaitChange returns when the child has ended, and does not reap it.
func awaitChange(pid int) {
	if queue, err := unix.Kqueue(); err == nil {
		defer unix.Close(queue)
		unix.CloseOnExec(queue)
		var change, event [1]unix.Kevent_t
		unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
		change[0].Fflags = unix.NOTE_EXIT
		for {
			n, err := unix.Kevent(queue, change[:], event[:], nil)
			if err == unix.EINTR {
				continue
			}
			if err == nil && n == 1 && event[0].Flags&unix.EV_ERROR == 0 {
				return
			}
			break // ESRCH: it has ended already
		}
	}
	time.Sleep(time.Millisecond) // polls what cannot be awaited
}

// tracker needs nothing here.
type tracker struct{}

func (f *Family) track() {}

func (t *tracker) close() {}

// killOrphans kills the command's process group, and returns when it has no member any more. It does not prove that
// all of the family is dead.
func (f *Family) killOrphans() (proven bool) {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	for wait := shortest; f.pid != 0; wait = min(2*wait, longest) {
		if syscall.Kill(-f.pid, syscall.SIGKILL) != nil {
			return false
		}
		time.Sleep(wait)
	}
	return false
}

func startOf(int) int { return 0 }

// defaultAction reports whether the signal ends this process if it is sent. For some of them Go's runtime prints the
// stacks of the goroutines, and exits.
func defaultAction(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM:
		return true
	}
	return false
}
