//go:build unix

package screen

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// keyWait is the longest time until ReadKeys sees that its context has ended.
const keyWait = 100 // ms

// ReadKeys sends the pressed keys until ctx ends. It fails when the terminal goes away.
func ReadKeys(ctx context.Context, in *os.File, keys chan<- string) error {
	buf := make([]byte, 256)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, keyWait)
		if errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if n, err = in.Read(buf); err != nil {
			return errors.New("the terminal is gone")
		}
		for _, key := range split(string(buf[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// WatchSize reports changes of the terminal's size.
func WatchSize() (changed <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGWINCH)
	return ch, func() { signal.Stop(ch) }
}

const continueSignal = syscall.SIGCONT

// stop stops this process and its process group. The kernel does not stop one that no shell could continue.
func stop() { _ = syscall.Kill(0, syscall.SIGTSTP) }
