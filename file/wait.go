//go:build linux || darwin || freebsd

package file

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// errInterrupted means that a wait ended without the lock.
var errInterrupted = errors.New("wait interrupted")

// requeueAfter is how long a candidate may wait in the queue of a lock file that
// is no longer in place.
const requeueAfter = time.Second

// waitStop waits until a wait for a lock must end, and then returns true, or until done is closed.
func waitStop(ctx context.Context, done <-chan struct{}, moved func() bool) bool {
	tick := time.NewTicker(requeueAfter)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return false
		case <-ctx.Done():
			return true
		case <-tick.C:
			if moved() {
				return true
			}
		}
	}
}

func tryFlock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}
