//go:build darwin || freebsd

package file

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// waitFlock takes an exclusive flock on fd. On these systems Go cannot end one thread's wait, so it polls the lock,
// at random intervals of 5 to 25 ms so that candidates do not poll in step. It returns errInterrupted when ctx ended
// or moved reported true, and then holds nothing.
func waitFlock(ctx context.Context, fd int, moved func() bool) error {
	done := make(chan struct{})
	defer close(done)
	stop := make(chan struct{})
	go func() {
		if waitStop(ctx, done, moved) {
			close(stop)
		}
	}()
	for {
		if err := tryFlock(fd); err != unix.EWOULDBLOCK {
			return err
		}
		select {
		case <-stop:
			return errInterrupted
		case <-time.After(5*time.Millisecond + rand.N(20*time.Millisecond)):
		}
	}
}
